#!/usr/bin/env bash
# Fuzzes Stave: bash tests/fuzz/run.sh [MINUTES]
#
# Builds the fuzzers (tests/fuzz/CMakeLists.txt lists them) and runs each for MINUTES (default 10)
# from a new seed, which it prints. STAVE_PRESET chooses another preset than release: asan or tsan.
# The script ends at the first failure. It then prints the smallest failing program found, or the
# file, and how to run it again.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh

seconds=$((60 * ${1:-10}))
preset=${STAVE_PRESET:-release}
require_packages "${stave_test_packages[@]}"
quietly "Configuring build/$preset" cmake --preset "$preset" -DSTAVE_BUILD_TESTS=ON -DSTAVE_TESTS=all
quietly "Building (some minutes the first time)" cmake --build "build/$preset" --parallel "$(nproc)" \
  --target fuzz_programs fuzz_loops fuzz_faults fuzz_coroutines fuzz_files
# The preset's tests run with the same options of the sanitizers.
if [[ $preset == tsan ]]; then export TSAN_OPTIONS="suppressions=$PWD/cmake/tsan.supp:history_size=7:halt_on_error=1"; fi
if [[ $preset == asan ]]; then export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1; fi
for fuzzer in programs loops faults coroutines files "programs --threads 4"; do
  echo "fuzz_$fuzzer"
  # shellcheck disable=SC2086  # a name and its options
  build/"$preset"/tests/fuzz/fuzz_$fuzzer --seconds "$seconds"
done

# This fuzzer needs clang with its libFuzzer. It keeps the files that reached new lines of the code
# for the next run.
guided=build/$preset/tests/fuzz/fuzz_files_guided kept=build/$preset/tests/fuzz/files_corpus
if ninja -C "build/$preset" -t query guided_fuzzers >/dev/null 2>&1; then
  quietly "Building fuzz_files_guided" cmake --build "build/$preset" --target guided_fuzzers
  mkdir -p -- "$kept"
  "$guided" -max_total_time="$seconds" -max_len=8192 -artifact_prefix="$kept-" -verbosity=0 "$kept"
fi
