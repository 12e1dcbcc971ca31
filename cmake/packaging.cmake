# Packages for Debian and Ubuntu: `cpack -G DEB` in a build folder that was configured with -DCMAKE_INSTALL_PREFIX=/usr
# -DCMAKE_SKIP_INSTALL_RPATH=ON (tests/packages/run.sh does it all). Included by the project's CMakeLists.txt.
#
#   libstave0.1          libstave and libstave_effects; the name changes with the soname, so that two of them can be installed
#   libstave-dev         headers, CMake's and pkg-config's files, and what the linker looks for
#   libstave-ranks0.1    libstave_ranks, which brings MPI
#   libstave-ranks-dev   what programs of several processes are built with
#
# A build with the CUDA backend makes libstave0.1-cuda and libstave-cuda-dev of the first two: its libstave is linked to libstave_cuda, so
# it is another libstave, which takes the place of the one without. It needs no package of CUDA's to start: the runtime is linked
# statically, and cuBLAS, cuSOLVER and NVRTC are looked for when they are used.
# There are none of a static build, which `cmake --install` installs.
if(NOT BUILD_SHARED_LIBS)
  return()
endif()
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(suffix "")
if(STAVE_HAVE_CUDA)
  set(suffix -cuda)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stave)
set(CPACK_PACKAGE_VENDOR "Stave developers")
set(CPACK_PACKAGE_CONTACT "Stave developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # or it would be the first line of each description
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # so that packages of programs find that they need these
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

# stave_package(component name section summary [DEPENDS package...] [RECOMMENDS package...] [PLAIN name])
# PLAIN: the package's name without CUDA, whose place it takes if that is another.
function(stave_package component name section summary)
  cmake_parse_arguments(PARSE_ARGV 4 package "" "PLAIN" "DEPENDS;RECOMMENDS")
  string(TOUPPER "${component}" key)
  list(JOIN package_DEPENDS ", " depends)
  list(JOIN package_RECOMMENDS ", " recommends)
  set(settings NAME "${name}" SECTION "${section}" DEPENDS "${depends}" RECOMMENDS "${recommends}")
  if(section STREQUAL "libs")
    list(APPEND settings SHLIBDEPS ON)
  endif()
  if(package_PLAIN AND NOT package_PLAIN STREQUAL name)
    list(APPEND settings PROVIDES "${package_PLAIN} (= ${version})" CONFLICTS "${package_PLAIN}" REPLACES "${package_PLAIN}")
  endif()
  while(settings)
    list(POP_FRONT settings setting value)
    set(CPACK_DEBIAN_${key}_PACKAGE_${setting} "${value}" PARENT_SCOPE)
  endwhile()
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  # Only where it is asked for by its component: in a prefix of one's own nobody looks for it there.
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}" RENAME copyright
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

string(CONCAT description "Stave is a C++20 runtime for programs of tensors. Gradients, forward-mode\n"
  "derivatives, batching, tracing and compilation are handlers of operations,\n"
  "which nest freely, and those of a program's own take a few lines.")
set(runtime "libstave${soversion}${suffix}")
# What is found by dpkg-shlibdeps in the libraries, except for each other.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
stave_package(runtime ${runtime} libs "tensors whose every operation can be intercepted" PLAIN libstave${soversion})
# SLEEF: for stave_add_kernels, which says so where it is absent.
stave_package(dev libstave${suffix}-dev libdevel "tensors whose every operation can be intercepted: headers"
  PLAIN libstave-dev DEPENDS "${runtime} (= ${version})" RECOMMENDS libsleef-dev)
if(STAVE_HAVE_MPI)
  stave_package(ranks libstave-ranks${soversion} libs "Stave for programs of several processes, by MPI"
    DEPENDS "libstave${soversion} (= ${version})")
  stave_package(ranks-dev libstave-ranks-dev libdevel "Stave for programs of several processes: headers"
    DEPENDS "libstave-dev (= ${version})" "libstave-ranks${soversion} (= ${version})")
endif()
include(CPack)
