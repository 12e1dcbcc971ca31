# Packages for Debian and Ubuntu: `cpack -G DEB` in a build folder that was configured with -DCMAKE_INSTALL_PREFIX=/usr
# -DCMAKE_SKIP_INSTALL_RPATH=ON (tests/packages/run.sh does it all). Included by the project's CMakeLists.txt.
#
#   libstave0.1          libstave and libstave_effects; the name changes with the soname, so that two of them can be installed
#   libstave-dev         headers, CMake's and pkg-config's files, and what the linker looks for
#   libstave-ranks0.1    libstave_ranks, which brings MPI
#   libstave-ranks-dev   what programs of several processes are built with
#
# A build with the CUDA backend has names that end in -cuda (libstave0.1-cuda, libstave-cuda-dev): its libstave loads libstave_cuda, so
# it is another libstave, which takes the place of the one without. It needs no package of CUDA's to start: the runtime is linked
# statically, and cuBLAS, cuSOLVER and NVRTC are looked for when they are used.
# A static build has no runtime packages, and its dev packages need those of what it links to.
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(suffix "")
if(STAVE_HAVE_CUDA)
  set(suffix -cuda)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stave)
set(CPACK_PACKAGE_VENDOR "Stave developers")
set(CPACK_PACKAGE_CONTACT "Stave developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
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
# PLAIN: the package's name without the suffix, where that is another.
function(stave_package component name section summary)
  cmake_parse_arguments(PARSE_ARGV 4 package "" "PLAIN" "DEPENDS;RECOMMENDS")
  string(TOUPPER "${component}" key)
  list(JOIN package_DEPENDS ", " depends)
  list(JOIN package_RECOMMENDS ", " recommends)
  set(settings NAME "${name}" SECTION "${section}" DEPENDS "${depends}" RECOMMENDS "${recommends}")
  if(section STREQUAL "libs")
    list(APPEND settings SHLIBDEPS ON)
  endif()
  if(NOT package_PLAIN STREQUAL name)
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

string(CONCAT description "Stave is a C++20 runtime for programs of tensors. Gradients, forward-mode derivatives, batching, tracing and "
  "compilation are handlers of operations, which nest freely, and those of a program's own take a few lines.")
set(static_depends "")
if(BUILD_SHARED_LIBS)
  set(runtime "libstave${soversion}${suffix}")
  set(ranks "libstave-ranks${soversion}${suffix}")
  # What is found by dpkg-shlibdeps in the libraries, except for each other.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
  stave_package(runtime ${runtime} libs "tensors whose every operation can be intercepted" PLAIN libstave${soversion})
  set(dev_depends "${runtime} (= ${version})")
  set(ranks_dev_depends "${ranks} (= ${version})")
else()
  set(dev_depends libtbb-dev libfmt-dev libboost-context-dev libopenblas-pthread-dev liblapacke-dev libsleef-dev zlib1g-dev)
  set(ranks_dev_depends libopenmpi-dev)
endif()
# SLEEF: for stave_add_kernels, which says so where it is absent.
stave_package(dev libstave${suffix}-dev libdevel "tensors whose every operation can be intercepted: development files"
  PLAIN libstave-dev DEPENDS ${dev_depends} RECOMMENDS libsleef-dev)
if(STAVE_HAVE_MPI)
  if(BUILD_SHARED_LIBS)
    stave_package(ranks ${ranks} libs "Stave for programs of several processes, by MPI"
      PLAIN libstave-ranks${soversion} DEPENDS "${runtime} (= ${version})")
  endif()
  stave_package(ranks-dev libstave-ranks${suffix}-dev libdevel "Stave for programs of several processes: development files"
    PLAIN libstave-ranks-dev DEPENDS "libstave${suffix}-dev (= ${version})" ${ranks_dev_depends})
endif()
include(CPack)
