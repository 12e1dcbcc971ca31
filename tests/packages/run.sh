#!/usr/bin/env bash
# Builds the packages for Debian and tries them in a clean Debian: bash tests/packages/run.sh
#
#   1. cpack, in build/packages, or in STAVE_BUILD.
#   2. A Debian of its own in a temporary folder, by mmdebstrap, with compilers and none of what Stave is built with.
#   3. Installs the packages there, by apt; builds and runs the project of tests/install by find_package and by pkg-config, and by
#      find_package one that asks for stave::ranks.
#   4. Removes the dev packages: the programs run on. Removes the others: they do not, and nothing is left of Stave.
#
# Takes root and the network. STAVE_SUITE chooses another release than bookworm, STAVE_CUDA=ON packages with the CUDA backend; STAVE_SHARED=OFF
# the static libraries, whose programs need nothing installed. STAVE_DEBS=FOLDER keeps the packages.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh
require_packages libopenmpi-dev openmpi-bin mmdebstrap dpkg-dev

suite=${STAVE_SUITE:-bookworm}
build=${STAVE_BUILD:-build/packages}
shared=${STAVE_SHARED:-ON}
quietly "Configuring $build" cmake --preset release -B "$build" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON \
  -DBUILD_SHARED_LIBS="$shared" -DSTAVE_CUDA="${STAVE_CUDA:-OFF}" -DSTAVE_MPI=ON -DSTAVE_BUILD_TESTS=OFF -DSTAVE_BUILD_EXAMPLES=OFF
quietly "Building $build" cmake --build "$build" --parallel "$(nproc)"
rm -f -- "$build"/*.deb
quietly "Packaging" cmake -E chdir "$build" cpack -G DEB
if [[ -n ${STAVE_DEBS:-} ]]; then
  mkdir -p -- "$STAVE_DEBS"
  cp -- "$build"/*.deb "$STAVE_DEBS"
fi
for package in "$build"/*.deb; do
  dpkg-deb --field "$package" Package Version Depends Recommends Provides Conflicts
  echo
done

root=$(mktemp -d)
trap 'rm -rf -- "$root"' EXIT
chmod 755 "$root"
quietly "Making a Debian ($suite)" mmdebstrap --variant=apt --include=g++,cmake,ninja-build,pkg-config,ca-certificates "$suite" "$root"
for mark in stave fmt/ tbb/ openblas lapacke; do  # or the rest would prove nothing
  [[ -z $(find "$root/usr/include" "$root/usr/lib" -path "*$mark*" -not -path '*/cmake/*' -print -quit) ]] || {
    echo "the clean Debian is not: it has $mark" >&2
    exit 1
  }
done
mkdir "$root/try"
cp -r -- tests/install tests/packages/ranks "$build"/*.deb "$root/try"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive bash -euo pipefail -c "$1"; }
files() { (cd "$root" && find etc usr var/lib/dpkg/info -name '*stave*'); }

quietly "Installing the packages" inside 'apt-get update && apt-get install --yes --no-install-recommends /try/*.deb'
echo "Installed: $(files | wc -l) files"
quietly "find_package and stave_add_kernels" inside 'apt-get install --yes --no-install-recommends libsleef-dev &&
  cmake -G Ninja -S /try/install -B /try/build && cmake --build /try/build && cd /try/build && ctest --output-on-failure --no-tests=error'
static=()
[[ $shared == ON ]] || static=(--static)
quietly "pkg-config" inside "bash /try/install/pkg_config.sh /try/pkg_config ${static[*]}"
quietly "find_package of stave::ranks" inside 'apt-get install --yes --no-install-recommends openmpi-bin &&
  cmake -G Ninja -S /try/ranks -B /try/build_ranks && cmake --build /try/build_ranks &&
  mpirun --allow-run-as-root --oversubscribe -np 2 /try/build_ranks/program'

runtime=$(inside 'dpkg-query --show --showformat "\${Package}\n" "libstave*" | grep -v -- -dev$ || true' | tr '\n' ' ')
quietly "Removing the dev packages" inside 'apt-get purge --yes $(dpkg-query --show --showformat "\${Package} " "libstave*-dev")'
for program in /try/build/consumer /try/build/operations_user /try/build/effects /try/pkg_config/main; do
  quietly "Running $program" inside "$program"
done
if [[ $shared == ON ]]; then
  quietly "Removing $runtime" inside "apt-get purge --yes $runtime"
  if inside /try/build/consumer 2>/dev/null; then
    echo "a program still finds a libstave" >&2
    exit 1
  fi
fi
left=$(files)
if [[ -n $left ]]; then
  printf 'This is left of Stave:\n%s\n' "$left" >&2
  exit 1
fi
echo "The packages install, build programs, and leave nothing."
