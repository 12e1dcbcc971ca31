# Packages for Debian and Ubuntu: `cpack -G DEB` in a build folder that was configured with
# -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON (tests/packages/run.sh does all steps).
# The project's CMakeLists.txt includes this file.
#
#   libstave0.1          libstave and libstave_effects; the name changes with the soname, so that
#                        two versions can be installed side by side
#   libstave-dev         headers, files for CMake and pkg-config, and links for the linker
#   libstave-ranks0.1    libstave_ranks, which depends on MPI
#   libstave-ranks-dev   headers and other files to build programs of several processes
#
# A build with the CUDA backend produces libstave0.1-cuda and libstave-cuda-dev instead of the first
# two, because its libstave is linked to libstave_cuda. It starts without any CUDA package: the
# runtime is linked statically, and cuBLAS, cuSOLVER and NVRTC are loaded when they are used.
# A static build has no packages; use `cmake --install`.
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
# PLAIN is the package's name without CUDA. A package with another name replaces that one.
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
  # The licence is installed only with its component, not by a plain `cmake --install`.
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}" RENAME copyright
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

string(CONCAT description "Stave is a C++20 runtime for programs of tensors. Gradients, forward-mode\n"
  "derivatives, batching, tracing and compilation are handlers of operations,\n"
  "which nest freely, and those of a program's own take a few lines.")
set(runtime "libstave${soversion}${suffix}")
# Folders in which dpkg-shlibdeps finds the libraries of this build.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
stave_package(runtime ${runtime} libs "tensors whose every operation can be intercepted" PLAIN libstave${soversion})
# stave_add_kernels needs SLEEF, and says so if it is missing.
stave_package(dev libstave${suffix}-dev libdevel "tensors whose every operation can be intercepted: headers"
  PLAIN libstave-dev DEPENDS "${runtime} (= ${version})" RECOMMENDS libsleef-dev)
if(STAVE_HAVE_MPI)
  stave_package(ranks libstave-ranks${soversion} libs "Stave for programs of several processes, by MPI"
    DEPENDS "libstave${soversion} (= ${version})")
  stave_package(ranks-dev libstave-ranks-dev libdevel "Stave for programs of several processes: headers"
    DEPENDS "libstave-dev (= ${version})" "libstave-ranks${soversion} (= ${version})")
endif()
include(CPack)
