# Xbyak::Xbyak: an assembler for x86-64, headers alone. Without it there is no native code for x86-64 (backends/cpu/native).
find_path(XBYAK_INCLUDE_DIR xbyak/xbyak.h)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Xbyak
  REQUIRED_VARS XBYAK_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "On Debian and Ubuntu: apt-get install libxbyak-dev")
mark_as_advanced(XBYAK_INCLUDE_DIR)

if(Xbyak_FOUND AND NOT TARGET Xbyak::Xbyak)
  add_library(Xbyak::Xbyak INTERFACE IMPORTED)
  set_target_properties(Xbyak::Xbyak PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${XBYAK_INCLUDE_DIR}")
endif()
