#!/usr/bin/env bash
# All that takes a GPU, in one command: bash tests/run_gpu.sh [PACKAGES]
#
# Builds Stave with CUDA, runs the tests labelled `gpu`, runs them again under the four tools of compute-sanitizer, and measures
# (tests/bench/run.sh '^gpu_'). Every part runs, whatever became of those before; the exit status is nonzero if one failed. Logs
# stay in build/gpu-logs ($OUT, if that is set).
#
# PACKAGES is a folder of .deb files, for a machine that reaches no package registry. They are unpacked into build/gpu-packages,
# beside the system, never over it. On Debian 12 this gathers them:
#   mkdir packages && cd packages && apt-get download libboost1.74-dev libboost-context1.74-dev libboost-context1.74.0 \
#     libtbb-dev libtbb12 libtbbbind-2-5 libtbbmalloc2 libhwloc15 libopenblas-pthread-dev libopenblas0-pthread liblapacke-dev \
#     liblapacke libgfortran5 libquadmath0 libgtest-dev libgmock-dev libbenchmark-dev libbenchmark1debian libfmt-dev libfmt9 \
#     libsleef-dev libsleef3 zlib1g-dev zlib1g
set -euo pipefail
packages=${1:+$(realpath -- "$1")}
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

if [[ -n $packages ]]; then
  beside=$PWD/build/gpu-packages/usr
  rm -rf -- "${beside%/usr}"
  mkdir -p -- "${beside%/usr}"
  for package in "$packages"/*.deb; do dpkg -x "$package" "${beside%/usr}"; done
  libraries=$beside/lib/$(gcc -print-multiarch) headers=$beside/include/$(gcc -print-multiarch)
  # The compiler, the linker, the loader, CMake and pkg-config each have their own way to be told.
  export CPATH=$beside/include:$headers:$headers/openblas-pthread${CPATH:+:$CPATH}
  export LIBRARY_PATH=$libraries:$libraries/openblas-pthread${LIBRARY_PATH:+:$LIBRARY_PATH}
  export LD_LIBRARY_PATH=$libraries:$libraries/openblas-pthread${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export CMAKE_PREFIX_PATH=$beside${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export CMAKE_LIBRARY_PATH=$libraries/openblas-pthread CMAKE_INCLUDE_PATH=$headers/openblas-pthread
  export STAVE_PACKAGES=mine
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$libraries/openblas-pthread/pkgconfig
fi
source cmake/packages.sh

logs=${OUT:-build/gpu-logs}
mkdir -p "$logs"
failed=()
part() {  # NAME command...
  local name=$1 status=0
  echo "=== $name"
  "${@:2}" 2>&1 | tee "$logs/$name.log" | tail -n 40 || status=$?
  ((status == 0)) || failed+=("$name")
}

command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

require_packages
build() {
  cmake --preset release -DSTAVE_CUDA=ON -DSTAVE_BUILD_TESTS=ON -DSTAVE_BUILD_EXAMPLES=ON &&
    cmake --build build/release --parallel "$(nproc)"
}
part build build
((${#failed[@]} == 0)) || exit 1

part tests ctest --preset release --label-regex gpu
# The programs behind the label, once for each tool, which slow them down some tens of times.
under() {  # TOOL
  local check=(compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20) status=0 program
  "${check[@]}" build/release/tests/cuda/cuda_gpu_runs || status=1
  for program in build/release/tests/conformance_*_test; do
    "${check[@]}" "$program" --gtest_filter='*/cuda' || status=1
  done
  return "$status"
}
for tool in memcheck racecheck initcheck synccheck; do part "$tool" under "$tool"; done
part bench bash tests/bench/run.sh '^gpu_'
part bench_tf32 env STAVE_TF32=1 bash tests/bench/run.sh '^gpu_matmul_tf32'

if ((${#failed[@]})); then
  echo "Failed: ${failed[*]} (logs in $logs)"
  exit 1
fi
echo "All passed (logs in $logs)"
