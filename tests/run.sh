#!/usr/bin/env bash
# Builds Stave with its tests and examples and runs them all: bash tests/run.sh [ctest arguments]
# STAVE_PRESET chooses another preset than release, such as asan; sanitizers leave out the examples: of what these are made, the
# tests are. Works on a bare Debian 12 or Ubuntu 24.04, from any folder.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

preset=${STAVE_PRESET:-release}
require_packages
examples=ON
[[ $preset != *san ]] || examples=OFF
configure "$preset" -DSTAVE_BUILD_TESTS=ON -DSTAVE_BUILD_EXAMPLES=$examples
build "$preset"
exec ctest --preset "$preset" --parallel "$(nproc)" "$@"
