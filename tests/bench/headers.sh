#!/usr/bin/env bash
# The compile time of Stave's headers: bash tests/bench/headers.sh [FOLDER]
# FOLDER has the headers; the default is build/release/include. Prints medians of processor time in
# seconds, and ratios to the standard headers that such a program includes anyway.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
include=${1:-build/release/include} rounds=${STAVE_BENCH_ROUNDS:-7}
[[ -e $include/stave/built_with.h ]] || { echo "No headers in $include: build Stave first, as by examples/run.sh" >&2 && exit 1; }

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
printf '#include <%s>\n' functional map memory optional span string tuple variant vector >"$folder/standard.cpp"
for header in core stave; do echo "#include <stave/$header.h>" >"$folder/$header.cpp"; done

TIMEFORMAT=%U
for ((round = 0; round < rounds; ++round)); do
  for name in standard core stave; do
    { time "${CXX:-g++}" -std=c++20 -I "$include" -fsyntax-only "$folder/$name.cpp"; } 2>>"$folder/$name.times"
  done
done
median() { sort -n -- "$folder/$1.times" | sed -n "$((rounds / 2 + 1))p"; }
for name in core stave; do
  awk -v name="$name" -v mine="$(median "$name")" -v standard="$(median standard)" \
    'BEGIN { printf "<stave/%s.h>  %.2f s, %.1f times the standard headers (%.2f s)\n", name, mine, mine / standard, standard }'
done
