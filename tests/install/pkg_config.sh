#!/usr/bin/env bash
# [CXX=compiler] bash pkg_config.sh FOLDER [--static]
#
# Builds main.cpp and effects.cpp in FOLDER with the flags that pkg-config gives for Stave, and runs
# them. PKG_CONFIG_PATH names the folder of the installed .pc files. --static links to a static
# library. A shared one is also linked by the plain command of docs/install.md.
set -euo pipefail
sources=$(dirname -- "${BASH_SOURCE[0]}") folder=$1
shift
mkdir -p -- "$folder"
for program in main:stave effects:stave-effects; do
  package=${program#*:} program=${program%:*}
  read -ra flags <<<"$(pkg-config "$@" --cflags --libs "$package")"
  "${CXX:-c++}" -std=c++20 "$sources/$program.cpp" -o "$folder/$program" "${flags[@]}"
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir "$package") "$folder/$program"
done
if [[ ${1:-} != --static ]]; then
  lib=$(pkg-config --variable=libdir stave) include=$(pkg-config --variable=includedir stave)
  "${CXX:-c++}" -std=c++20 "$sources/main.cpp" -o "$folder/plain" -I "$include" -L "$lib" -lstave -lstave_effects "-Wl,-rpath,$lib"
  "$folder/plain"
fi
[[ $(pkg-config --modversion stave) == "$(pkg-config --modversion stave-effects)" ]]
