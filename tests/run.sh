#!/usr/bin/env bash
# Builds Stave with its tests and examples and runs them all: bash tests/run.sh [ctest arguments]
# STAVE_PRESET chooses another preset than release, such as asan. Works on a bare Debian 12 or Ubuntu 24.04, from any folder.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

preset=${STAVE_PRESET:-release}
require_packages
configure "$preset" -DSTAVE_BUILD_TESTS=ON -DSTAVE_BUILD_EXAMPLES=ON
build "$preset"
exec ctest --preset "$preset" --parallel "$(nproc)" "$@"
