#!/usr/bin/env bash
# Runs everything that needs a GPU: bash tests/run_gpu.sh [--packages FOLDER] [PART...]
#
#   build                                    Stave with CUDA for this machine's GPU, and all programs
#                                            of the other parts
#   tests                                    the tests labelled `gpu`
#   large                                    tests/backends/cuda/large_runs.cpp, which needs gigabytes
#   memcheck racecheck initcheck synccheck   the tests again, under a tool of compute-sanitizer each
#   bench bench_tf32                         tests/bench/run.sh '^gpu_'
#
# Without a PART it runs all parts in this order. A failed part does not stop the parts after it,
# except for `build`; the exit status is nonzero if one failed. A part that takes longer than
# STAVE_GPU_SECONDS (450) is ended and has failed, so that each part fits into a call of eight
# minutes on a machine that is lent by the call. Logs stay in build/gpu-logs ($OUT, if that is set).
#
# FOLDER holds .deb files, for a machine without access to a package registry. They are unpacked
# into build/gpu-packages, never into the system, and later calls find them there. On Debian 12 this
# gathers them:
#   mkdir packages && cd packages && apt-get download libboost1.74-dev libboost-context1.74-dev libboost-context1.74.0 \
#     libtbb-dev libtbb12 libtbbbind-2-5 libtbbmalloc2 libhwloc15 libopenblas-pthread-dev libopenblas0-pthread liblapacke-dev \
#     liblapacke libtmglib3 libgfortran5 libquadmath0 libgtest-dev libgmock-dev libbenchmark-dev libbenchmark1debian libfmt-dev \
#     libfmt9 libsleef-dev libsleef3 zlib1g-dev zlib1g
set -euo pipefail
all_parts=(build tests large memcheck racecheck initcheck synccheck bench bench_tf32)
packages='' parts=()
while (($#)); do
  case $1 in
    --packages) packages=$(realpath -- "${2:?--packages takes a folder}") && shift ;;
    *)
      [[ " ${all_parts[*]} " == *" $1 "* ]] || { echo "No part $1; there are: ${all_parts[*]}" >&2 && exit 2; }
      parts+=("$1")
      ;;
  esac
  shift
done
((${#parts[@]})) || parts=("${all_parts[@]}")
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# ---- packages ----------------------------------------------------------------------------------------------

unpacked=$PWD/build/gpu-packages
unpack() {  # FOLDER
  local package link target folder
  rm -rf -- "$unpacked"
  mkdir -p -- "$unpacked"
  for package in "$1"/*.deb; do dpkg -x "$package" "$unpacked"; done
  # libz.so and others point to the system's /lib, where these libraries are missing. The linker
  # would then take libz.a, which cannot be linked into a shared library.
  while IFS= read -r -d '' link; do
    target=$(readlink -- "$link")
    for folder in "$unpacked" "$unpacked/usr"; do
      [[ ! -e $folder$target ]] || ln -sfn -- "$folder$target" "$link"
    done
  done < <(find "$unpacked" -type l -lname '/*' -print0)
}
# The compiler, the linker, the loader, CMake and pkg-config each need the folder in their own way.
use_unpacked() {
  local name=$1 usr=$unpacked/usr
  local headers=$usr/include/$name libraries=$usr/lib/$name
  local where=$libraries:$libraries/openblas-pthread:$unpacked/lib/$name
  export CPATH=$usr/include:$headers:$headers/openblas-pthread${CPATH:+:$CPATH}
  export LIBRARY_PATH=$where${LIBRARY_PATH:+:$LIBRARY_PATH}
  export LD_LIBRARY_PATH=$where${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export CMAKE_PREFIX_PATH=$usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export CMAKE_LIBRARY_PATH=$libraries/openblas-pthread CMAKE_INCLUDE_PATH=$headers/openblas-pthread
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$libraries/openblas-pthread/pkgconfig
  export STAVE_PACKAGES=mine
}
[[ -z $packages ]] || unpack "$packages"
[[ ! -d $unpacked ]] || use_unpacked "$(gcc -print-multiarch)"
source cmake/packages.sh

# ---- parts -------------------------------------------------------------------------------------------------

conformance() { basename -s .cpp -a tests/backends/conformance_*_test.cpp; }

run_build() {
  # Builds only the GPU tests, because the hundred other tests would take longer than all parts
  # after this one.
  local targets=(stave cuda_gpu_runs cuda_large_runs operation_table)
  mapfile -t -O "${#targets[@]}" targets < <(conformance)
  # -U resets the architectures of an earlier build to those of this machine's GPUs.
  cmake --preset release -U STAVE_CUDA_ARCHITECTURES -DSTAVE_CUDA=ON -DSTAVE_BUILD_TESTS=ON -DSTAVE_TESTS=all || return
  [[ ! -d build/release/tests/handlers/ranks ]] || targets+=(ranks_test)  # where MPI is
  cmake --build build/release --parallel "$(nproc)" --target "${targets[@]}"
}
run_tests() { ctest --preset release --label-regex gpu --exclude-regex '^cuda[.]Large[.]' --parallel 8; }
run_large() { ctest --preset release --tests-regex '^cuda[.]Large[.]' --timeout "$seconds"; }

# Runs all programs under one tool. They run some tens of times slower, so they run side by side,
# and each prints its result when it ends.
run_under() {  # TOOL
  local tool=$1 none='' programs=() name op
  local table='build/release/tests/operation_table --device cuda --op'
  case $tool in
    # A request for too much memory, or an event that has not happened yet, is a normal answer of
    # the API and not an error.
    memcheck) tool+=' --report-api-errors no' ;;
    # An operation with an index out of range leaves its element unwritten, and the test for it
    # copies that element to the host.
    initcheck) none='-*OutOfRange*' ;;
  esac
  programs+=("build/release/tests/backends/cuda/cuda_gpu_runs --gtest_filter=*$none")
  for name in $(conformance); do programs+=("build/release/tests/$name --gtest_filter=*/cuda$none"); done
  if [[ $tool == racecheck ]]; then  # the kernels with the most phases in shared memory
    for op in cumulative_sum cumulative_prod linear_recurrence sort argsort dynamic_slice \
      cholesky lu qr eigh svd solve triangular_solve det expm \
      complex_cholesky complex_lu complex_qr complex_eigh complex_svd complex_solve complex_triangular_solve complex_det complex_expm \
      scaled_dot_product_attention attention_gradient; do programs+=("$table $op"); done
  fi
  printf '%s\0' "${programs[@]}" |
    xargs -0 -P "$(($(nproc) / 3 + 1))" -I{} bash -fc '
      output=$(compute-sanitizer --tool $1 --error-exitcode 9 --print-limit 20 $2 2>&1) && status=0 || status=$?
      printf "%s\n--- exit status %d of %s\n" "$(tail -n 60 <<<"$output")" "$status" "$2"
      exit "$((status != 0))"' bash "$tool" {}
}
run_memcheck() { run_under memcheck; }
run_racecheck() { run_under racecheck; }
run_initcheck() { run_under initcheck; }
run_synccheck() { run_under synccheck; }

run_bench() { bash tests/bench/run.sh '^gpu_'; }
run_bench_tf32() { STAVE_TF32=1 bash tests/bench/run.sh '^gpu_matmul_tf32'; }

# ---- one after the other -----------------------------------------------------------------------------------

seconds=${STAVE_GPU_SECONDS:-450}
logs=${OUT:-build/gpu-logs}
mkdir -p -- "$logs"
failed=()
part() {  # NAME
  local status=0 began=$SECONDS
  echo "=== $1"
  timeout --kill-after=10 "$seconds" bash -c "$(declare -f); set -euo pipefail; seconds=$seconds; run_$1" 2>&1 |
    tee -- "$logs/$1.log" | tail -n 40 || status=$?
  ((status != 124)) || echo "$1 was ended: it took longer than $seconds seconds"
  echo "=== $1: exit status $status after $((SECONDS - began)) s"
  ((status == 0)) || failed+=("$1")
}

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total --format=csv,noheader
fi
require_packages "${stave_test_packages[@]}"
for name in "${parts[@]}"; do
  part "$name"
  [[ $name != build ]] || ((${#failed[@]} == 0)) || break
done

if ((${#failed[@]})); then
  echo "Failed: ${failed[*]} (logs in $logs)"
  exit 1
fi
echo "All passed (logs in $logs)"
