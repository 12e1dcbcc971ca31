#!/usr/bin/env bash
# Builds Stave with its tests and runs them: bash tests/run.sh [--all] [ctest arguments]
# Without --all it runs the table of operations and the tests of the core and of all transforms,
# which find nearly all errors. With --all it runs all tests of CI: also examples, fuzzers, other
# instruction sets, installed packages, processes and, if nvcc is installed, the CUDA backend as far
# as it can be tested without a GPU. One example needs a model, which is downloaded to build/models
# (examples/data/fetch_minilm.sh).
# STAVE_PRESET chooses another preset than release, such as asan. Sanitizer builds skip the
# examples, because the tests cover the same code. The script works on a bare Debian 12 or Ubuntu
# 24.04, from any folder.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

preset=${STAVE_PRESET:-release} all=''
if [[ ${1:-} == --all ]]; then
  all=yes
  shift
fi
options=(-DSTAVE_BUILD_TESTS=ON)
if [[ -z $all ]]; then
  echo "This installs what Stave needs, builds it with its core tests, and runs them: some 12 minutes on two cores the first time." >&2
  require_packages "${stave_test_packages[@]}"
  options+=(-DSTAVE_TESTS=core -DSTAVE_BUILD_EXAMPLES=OFF -DSTAVE_MPI=OFF -DSTAVE_CPU_ISAS=native)
elif [[ $preset == *san ]]; then
  echo "This builds all tests with preset $preset, and runs them: some 40 minutes on two cores the first time." >&2
  require_packages "${stave_test_packages[@]}"
  options+=(-DSTAVE_TESTS=all -DSTAVE_BUILD_EXAMPLES=OFF -DSTAVE_MPI=OFF)  # MPI itself leaks
else
  echo "This builds all tests and examples, and runs them: some 40 minutes on two cores the first time." >&2
  require_packages "${stave_test_packages[@]}" libopenmpi-dev openmpi-bin
  [[ -n ${STAVE_MINILM:-} ]] || bash examples/data/fetch_minilm.sh || true  # without a network, one example is left out
  options+=(-DSTAVE_TESTS=all -DSTAVE_BUILD_EXAMPLES=ON -DSTAVE_MPI=AUTO)
  if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then options+=(-DSTAVE_CUDA=ON); fi
fi
configure "$preset" "${options[@]}"
build "$preset"
exec ctest --preset "$preset" --parallel "$(nproc)" "$@"
