#!/usr/bin/env bash
# Builds Stave and its examples and runs the main one: bash examples/run.sh [its arguments]
# Works on a bare Debian 12 or Ubuntu 24.04, from any folder; the program runs in the root of the tree.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

require_packages
configure release -DSTAVE_BUILD_EXAMPLES=ON
build release examples
exec build/release/examples/private_training "$@"
