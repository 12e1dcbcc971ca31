#!/usr/bin/env bash
# Builds Stave and its main example, and runs it: bash examples/run.sh [its arguments]
# Works on a bare Debian 12 or Ubuntu 24.04, from any folder. The program runs in the root of the
# tree. The library gets CPU kernels for this machine's processor, and the CUDA backend if there is
# a GPU.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

echo "This installs what Stave needs, builds the library and an example, and runs it: some 4 minutes on two cores the first time." >&2
require_packages
configure release -DSTAVE_BUILD_TESTS=OFF -DSTAVE_BUILD_EXAMPLES=ON -DSTAVE_MPI=OFF -DSTAVE_CPU_ISAS=native
build release private_training
exec build/release/examples/private_training "$@"
