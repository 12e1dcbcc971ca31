#!/usr/bin/env bash
# Builds the site of guides and headers, build/site/html: bash docs/site/build.sh [folder]
# What doxygen warns of is an error: a link that leads nowhere, a command that it does not know.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh
stave_packages=()  # nothing is compiled
require_packages doxygen python3

site=${1:-build/site}
mkdir -p -- "$site"
site=$(cd -- "$site" && pwd)
rm -rf -- "$site"/{input,include,html}
mkdir -- "$site/include"
python3 -B docs/site/prepare.py "$site"
ln -s ../input "$site/include/stave"
cp docs/site/Doxyfile docs/site/style.css "$site"
(
  cd -- "$site"
  doxygen -l layout.xml
  # What a file says of itself comes first.
  sed -i '/<file>/,/<\/file>/ { /<detaileddescription/d; s#<briefdescription.*#<detaileddescription title=""/>#; }' layout.xml
  doxygen Doxyfile
)
python3 -B docs/site/check_links.py "$site/html"
echo "$site/html/index.html"
