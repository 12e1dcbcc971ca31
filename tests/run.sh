#!/usr/bin/env bash
# Builds Stave with its tests and examples and runs them all: bash tests/run.sh [ctest arguments]
# STAVE_PRESET chooses another preset than release, such as asan; sanitizers leave out the examples: of what these are made, the
# tests are. One example needs a model, which is fetched into build/models (examples/data/fetch_minilm.sh). Works on a bare Debian 12
# or Ubuntu 24.04, from any folder.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

preset=${STAVE_PRESET:-release}
if [[ $preset == *san ]]; then
  require_packages
  options=(-DSTAVE_BUILD_EXAMPLES=OFF -DSTAVE_MPI=OFF)  # MPI itself leaks
else
  require_packages libopenmpi-dev openmpi-bin
  [[ -n ${STAVE_MINILM:-} ]] || bash examples/data/fetch_minilm.sh || true  # without a network, one example is left out
  options=(-DSTAVE_BUILD_EXAMPLES=ON)
fi
configure "$preset" -DSTAVE_BUILD_TESTS=ON "${options[@]}"
build "$preset"
exec ctest --preset "$preset" --parallel "$(nproc)" "$@"
