# Sourced by examples/run.sh, tests/run.sh and .ci/run: installs what Stave needs and this machine lacks, and says so; builds.
# If nothing is missing, the script changes nothing and does not use the network.
#
#   require_packages [package...]    installs the packages listed below, and these
#   quietly MESSAGE command...       runs a command; its output is shown only if it fails
#   configure PRESET argument...     runs cmake, and prints its choices
#   build PRESET target...           runs cmake --build on all cores, in a terminal with progress
#
# With STAVE_PACKAGES=mine in the environment, the caller provides the packages, and nothing is
# looked for or installed.

# The packages that a build needs, by their names in Debian 12 and Ubuntu 24.04, and those that
# tests need as well.
stave_packages=(g++ cmake ninja-build pkg-config libtbb-dev libopenblas-pthread-dev liblapacke-dev libfmt-dev libsleef-dev
  libboost-context-dev libboost-math-dev libeigen3-dev zlib1g-dev nlohmann-json3-dev)
# Native code for x86-64 needs Xbyak. Native code for ARM needs no package.
[[ $(uname -m) != x86_64 ]] || stave_packages+=(libxbyak-dev)
stave_test_packages=(libgtest-dev libgmock-dev)

# Packages are recognised by their files, so a newer CMake or a library built by hand counts as
# well.
stave_has_package() {
  case $1 in
    g++) command -v "${CXX:-c++}" ;;
    ninja-build) command -v ninja ;;
    libtbb-dev) stave_has_header tbb/parallel_for.h ;;
    libopenblas-pthread-dev) pkg-config --exists openblas ;;
    liblapacke-dev) stave_has_header lapacke.h ;;
    libfmt-dev) stave_has_header fmt/format.h ;;
    libsleef-dev) stave_has_header sleef.h ;;
    libxbyak-dev) stave_has_header xbyak/xbyak.h ;;
    libboost-context-dev) stave_has_header boost/context/detail/fcontext.hpp && stave_has_library boost_context ;;
    libboost-math-dev) stave_has_header boost/math/special_functions/gamma.hpp ;;
    libeigen3-dev) pkg-config --exists eigen3 ;;
    zlib1g-dev) stave_has_header zlib.h ;;
    nlohmann-json3-dev) stave_has_header nlohmann/json.hpp ;;
    libgtest-dev) stave_has_header gtest/gtest.h ;;
    libgmock-dev) stave_has_header gmock/gmock.h ;;
    libbenchmark-dev) stave_has_header benchmark/benchmark.h ;;
    dpkg-dev) command -v dpkg-shlibdeps ;;
    libopenmpi-dev) command -v mpicxx ;;
    openmpi-bin) command -v mpirun ;;
    iproute2) command -v ip ;;
    libclang-rt-dev) compgen -G "$(clang++ -print-runtime-dir)/libclang_rt.fuzzer*" ;;
    pybind11-dev) stave_has_header pybind11/pybind11.h ;;
    python3-dev) command -v python3-config ;;
    python3-venv) python3 -c 'import ensurepip' ;;
    python3-pip) python3 -m pip --version ;;
    doxygen-awesome-css) test -e /usr/share/doxygen-awesome-css/doxygen-awesome.css ;;
    g++-aarch64-linux-gnu) command -v aarch64-linux-gnu-g++ ;;
    qemu-user) command -v qemu-aarch64 ;;
    *) command -v "$1" ;;  # the package has its program's name
  esac >/dev/null 2>&1
}

stave_has_header() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${CXX:-c++}" -x c++ -E -
}

stave_has_library() {
  "${CXX:-c++}" -shared -nostdlib -o /dev/null "-l$1"
}

require_packages() {
  [[ ${STAVE_PACKAGES:-} != mine ]] || return 0
  local package missing=()
  for package in "${stave_packages[@]}" "$@"; do
    stave_has_package "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  command -v apt-get >/dev/null || stave_cannot_install "there is no apt-get; install what corresponds to: ${missing[*]}"

  local by_hand="apt-get update && apt-get install --no-install-recommends ${missing[*]}" as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || stave_cannot_install "this takes root:"$'\n'"  su -c '$by_hand'"
    by_hand="sudo sh -c '$by_hand'"
    # Without a terminal no password can be typed: sudo works immediately or not at all.
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(-n)
    "${as_root[@]}" true || stave_cannot_install "this takes root:"$'\n'"  $by_hand"
  fi
  # Questions get the default answer, nothing may be removed, and no service needs a restart for a
  # header.
  as_root+=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1)
  local lock=(-o DPkg::Lock::Timeout=300)  # a fresh machine may be installing updates
  # A repository that cannot be read may not be needed: only the result of the installation counts.
  quietly "Reading the lists of packages" "${as_root[@]}" apt-get update "${lock[@]}" || true
  quietly "Installing ${missing[*]}" \
    "${as_root[@]}" apt-get install --yes --no-install-recommends --no-remove "${lock[@]}" "${missing[@]}" ||
    stave_cannot_install "apt-get failed. Is there a network, and on Ubuntu the component universe? By hand:"$'\n'"  $by_hand"
}

stave_cannot_install() {
  echo "Stave needs packages that are not installed, and $1" >&2
  exit 1
}

# Messages go to stderr: stdout is for the program that runs in the end.
quietly() {
  local message=$1 log status=0
  shift
  log=$(mktemp)
  echo "$message ..." >&2
  "$@" >"$log" 2>&1 || status=$?
  ((status == 0)) || cat -- "$log" >&2
  rm -f -- "$log"
  return "$status"
}

configure() {
  local preset=$1 log status=0
  shift
  log=$(mktemp)
  echo "Configuring build/$preset ..." >&2
  cmake --preset "$preset" "$@" >"$log" 2>&1 || status=$?
  if ((status == 0)); then sed -n 's/^-- Stave: /  /p' "$log" >&2; else cat -- "$log" >&2; fi
  rm -f -- "$log"
  return "$status"
}

build() {
  local preset=$1 minutes message command log status=0
  shift
  command=(cmake --build "build/$preset" --parallel "$(nproc)" --target "${@:-all}")
  # Compile times on one core: a file 4 s, a group of the library 10 s, a file for the device 10 s.
  minutes=$(ninja -C "build/$preset" -t commands "${@:-all}" | awk -v cores="$(nproc)" \
    '/ -c .*[.]cu / || / -c .*unity_/ { s += 10; next } / -c .*[.]cpp$/ { s += 4 } END { print int(s / cores / 60 + 0.9) }')
  message="Building on $(nproc) cores (the first time some $minutes minutes)"
  if [[ -t 2 ]]; then
    echo "$message ..." >&2
    "${command[@]}" >&2
    return
  fi
  # Without a terminal, prints the progress twice a minute.
  echo "$message ..." >&2
  log=$(mktemp)
  while sleep 30; do grep -Eo '^\[[0-9]+/[0-9]+\]' "$log" | tail -n 1 >&2; done &
  "${command[@]}" >"$log" 2>&1 || status=$?
  kill "$!" && wait "$!" 2>/dev/null || true
  ((status == 0)) || cat -- "$log" >&2
  rm -f -- "$log"
  return "$status"
}
