# LAPACKE::LAPACKE: the C interfaces of BLAS and LAPACK, over OpenBLAS.
# Another BLAS serves as well: set CBLAS_LIBRARY and CBLAS_INCLUDE_DIR.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PC_OPENBLAS QUIET openblas)
endif()

find_path(CBLAS_INCLUDE_DIR cblas.h PATHS ${PC_OPENBLAS_INCLUDE_DIRS} PATH_SUFFIXES openblas)
find_library(CBLAS_LIBRARY openblas PATHS ${PC_OPENBLAS_LIBRARY_DIRS})
find_path(LAPACKE_INCLUDE_DIR lapacke.h PATH_SUFFIXES lapacke openblas)
find_library(LAPACKE_LIBRARY lapacke)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LAPACKE
  REQUIRED_VARS LAPACKE_LIBRARY LAPACKE_INCLUDE_DIR CBLAS_LIBRARY CBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "On Debian and Ubuntu: apt-get install libopenblas-pthread-dev liblapacke-dev")
mark_as_advanced(CBLAS_INCLUDE_DIR CBLAS_LIBRARY LAPACKE_INCLUDE_DIR LAPACKE_LIBRARY)

if(LAPACKE_FOUND AND NOT TARGET LAPACKE::LAPACKE)
  add_library(LAPACKE::LAPACKE INTERFACE IMPORTED)
  # OpenBLAS comes first: its LAPACK is then the one that LAPACKE calls, whatever liblapack the system has.
  set_target_properties(LAPACKE::LAPACKE PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CBLAS_INCLUDE_DIR};${LAPACKE_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${CBLAS_LIBRARY};${LAPACKE_LIBRARY}")
endif()
