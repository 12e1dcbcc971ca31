#!/usr/bin/env bash
# Builds the site of guides, operations and headers, build/site/html: bash docs/site/build.sh [folder]
# The style is that of doxygen-awesome-css, or doxygen's own if that is not installed. A warning of
# doxygen is an error, such as a broken link or an unknown command.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh
stave_packages=()  # nothing is compiled
require_packages doxygen python3 doxygen-awesome-css

site=${1:-build/site}
mkdir -p -- "$site"
site=$(cd -- "$site" && pwd)
rm -rf -- "$site"/{input,html}
python3 -B docs/site/prepare.py "$site"
cp docs/site/Doxyfile docs/site/*.css "$site"
cd -- "$site"
doxygen -l layout.xml
doxygen -w html header.html footer.html doxygen.css
python3 -B "$OLDPWD/docs/site/settings.py" "${STAVE_AWESOME_CSS:-/usr/share/doxygen-awesome-css}"
doxygen Doxyfile
python3 -B "$OLDPWD/docs/site/finish.py" html
python3 -B "$OLDPWD/docs/site/check_links.py" html
echo "$site/html/index.html"
