#!/usr/bin/env bash
# Builds the packages for Debian and tries them in a clean Debian: bash tests/packages/run.sh
#
#   1. Runs cpack in build/packages, or in STAVE_BUILD.
#   2. Makes a clean Debian in a temporary folder with mmdebstrap. It has compilers, but none of
#      Stave's dependencies.
#   3. Installs the packages there with apt. Builds and runs the project of tests/install with
#      find_package and with pkg-config, and a project with find_package that requires stave::ranks.
#   4. Removes the dev packages: the programs still run. Removes the others: the programs do not
#      run, and nothing of Stave is left.
#
# Needs root, the network, and a Debian, whose release the clean one gets as well. STAVE_CUDA=ON
# builds packages with the CUDA backend. The packages stay in the build folder.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh
require_packages libopenmpi-dev openmpi-bin mmdebstrap dpkg-dev

suite=$(source /etc/os-release && echo "$VERSION_CODENAME")
build=${STAVE_BUILD:-build/packages}
quietly "Configuring $build" cmake --preset release -B "$build" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON \
  -DBUILD_SHARED_LIBS=ON -DSTAVE_CUDA="${STAVE_CUDA:-OFF}" -DSTAVE_MPI=ON -DSTAVE_BUILD_TESTS=OFF -DSTAVE_BUILD_EXAMPLES=OFF
quietly "Building $build" cmake --build "$build" --parallel "$(nproc)"
rm -f -- "$build"/*.deb
quietly "Packaging" cmake -E chdir "$build" cpack -G DEB
for package in "$build"/*.deb; do
  dpkg-deb --field "$package" Package Version Depends Recommends Provides Conflicts
  echo
done

root=$(mktemp -d)
trap 'rm -rf -- "$root"' EXIT
chmod 755 "$root"
quietly "Making a Debian ($suite)" mmdebstrap --variant=apt --include=g++,cmake,ninja-build,pkg-config,ca-certificates "$suite" "$root"
for mark in stave fmt/ tbb/ openblas lapacke; do  # otherwise the steps below would prove nothing
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
quietly "pkg-config" inside 'bash /try/install/pkg_config.sh /try/pkg_config'
quietly "find_package of stave::ranks" inside 'apt-get install --yes --no-install-recommends openmpi-bin &&
  cmake -G Ninja -S /try/ranks -B /try/build_ranks && cmake --build /try/build_ranks &&
  mpirun --allow-run-as-root --oversubscribe -np 2 /try/build_ranks/program'

runtime=$(inside 'dpkg-query --show --showformat "\${Package}\n" "libstave*" | grep -v -- -dev$' | tr '\n' ' ')
quietly "Removing the dev packages" inside 'apt-get purge --yes $(dpkg-query --show --showformat "\${Package} " "libstave*-dev")'
for program in /try/build/consumer /try/build/operations_user /try/build/effects /try/pkg_config/main; do
  quietly "Running $program" inside "$program"
done
quietly "Removing $runtime" inside "apt-get purge --yes $runtime"
if inside /try/build/consumer 2>/dev/null; then
  echo "a program still finds a libstave" >&2
  exit 1
fi
left=$(files)
if [[ -n $left ]]; then
  printf 'This is left of Stave:\n%s\n' "$left" >&2
  exit 1
fi
echo "The packages install, build programs, and leave nothing."
