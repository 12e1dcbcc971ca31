#!/usr/bin/env bash
# On an x86-64 Debian, builds Stave for 64-bit ARM, and runs the tests that depend on the processor
# under emulation: bash tests/run_aarch64.sh
#
# These are the kernels of both instruction sets (neon, portable), native code, the effects with
# their fibers, and a part of the operation table. The packages for ARM are unpacked into build/aarch64-packages,
# never into the system. (On ARM, use tests/run.sh.)
#
# All code but the kernels is compiled with -O1, which takes two thirds of the time.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
source cmake/packages.sh

require_packages g++-aarch64-linux-gnu qemu-user
build=build/aarch64 root=$PWD/build/aarch64-packages

packages=(libc6-dev libstdc++-12-dev libtbb-dev libopenblas-pthread-dev liblapacke-dev libfmt-dev libsleef-dev
  libboost-context-dev libboost-math-dev libeigen3-dev zlib1g-dev nlohmann-json3-dev libgtest-dev libgmock-dev)

# Stave's dependencies for the other processor, with a package database of its own.
unpack_packages() {
  local state=$root.state link
  rm -rf -- "$root" "$state"
  mkdir -p -- "$root" "$state"/{lists,archives}/partial
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$state/lists"
    -o Dir::State::status=/dev/null -o Dir::Cache="$state" -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
  "${apt[@]}" update
  "${apt[@]}" install --yes --no-install-recommends --download-only "${packages[@]}"
  local package
  for package in "$state"/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
  # Links to absolute paths would point outside the folder.
  while IFS= read -r -d '' link; do
    ln -sfn -- "$root$(readlink -- "$link")" "$link"
  done < <(find "$root" -type l -lname '/*' -print0)
  # The links that Debian's alternatives would make.
  for link in "$root"/usr/{lib,include}/aarch64-linux-gnu/openblas-pthread/*; do ln -sfr -t "$(dirname -- "$link")/.." -- "$link"; done
  rm -rf -- "$state"
  echo "${packages[*]}" >"$root/complete"
}
[[ -e $root/complete && $(<"$root/complete") == "${packages[*]}" ]] || quietly "Unpacking packages for ARM" unpack_packages

programs=(conformance_{elementwise,function,index,reduce}_test cpu_backend_test
  effect_test controller_test controller_lifetime_test scope_test fiber_test fiber_stack_test fiber_thread_test grad_test
  own_kernels_test native_test machine_code_test)
quietly "Configuring $build" cmake -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake \
  -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" \
  "-DSTAVE_CPU_ISAS=neon;portable" -DSTAVE_CUDA=OFF -DSTAVE_MPI=OFF -DSTAVE_WERROR=ON -DSTAVE_BUILD_TESTS=ON -DSTAVE_BUILD_EXAMPLES=OFF
quietly "Building for ARM (some minutes the first time)" cmake --build "$build" --parallel "$(nproc)" \
  --target "${programs[@]}" operation_table

export OPENBLAS_NUM_THREADS=1 STAVE_TEST_COUNT=1000 root build
export -f quietly
run() {  # "PROGRAM arguments"
  local words
  read -ra words <<<"$1"
  quietly "  ${1%% --gtest_filter=*}" qemu-aarch64 -L "$root" "$build/tests/${words[0]}" "${words[@]:1}"
}
export -f run
# Tests with long references are left out, also softmax's suite (long double is emulated on ARM
# itself, so they take minutes), as is the limit of a process's memory, which the emulator does not
# enforce.
left_out='*/cuda:*/separate:*Large*:*.Matmul/*:FiberStack.NoMemory*'
left_out+=:'Isa/NativeOperations*/portable:Isa/NativeFar*/portable'  # as long, and the same code as with neon
left_out+=:'MachineCodeDeathTest.*'  # a program of ARM cannot start itself again here
left_out+=:'WriteCComplex.*'         # nor load what this machine's compiler makes
echo "Running under emulation:" >&2
{
  printf '%s --gtest_filter=-'"$left_out"'\n' "${programs[@]}"
  printf 'operation_table --op %s\n' exp sum sort gather uniform
} | xargs -d '\n' -P "$(nproc)" -I{} bash -euo pipefail -c 'run "{}"'
