# Builds stave::ranks if MPI is found. STAVE_MPI=OFF disables it, ON requires it. The project's
# CMakeLists.txt includes this file.
set(STAVE_MPI AUTO CACHE STRING "Build stave::ranks: AUTO (if MPI is found), ON, OFF")
set_property(CACHE STAVE_MPI PROPERTY STRINGS AUTO ON OFF)

set(STAVE_HAVE_MPI FALSE)
if(STAVE_MPI STREQUAL "OFF")
  message(STATUS "Stave: without ranks (STAVE_MPI=OFF)")
  return()
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX QUIET)
if(NOT MPI_CXX_FOUND)
  set(message "Stave: without ranks (programs of several processes): MPI was not found; on Debian and Ubuntu, apt-get install libopenmpi-dev openmpi-bin")
  if(STAVE_MPI STREQUAL "ON")
    message(FATAL_ERROR "${message}")
  endif()
  message(STATUS "${message}")
  return()
endif()
set(STAVE_HAVE_MPI TRUE)
message(STATUS "Stave: ranks by MPI ${MPI_CXX_VERSION}")

# Tensors on CUDA devices are exchanged by NCCL. Only its header is needed here: programs load the
# library when they use it.
set(STAVE_HAVE_NCCL FALSE)
set(by_nccl handlers/ranks/without_nccl.cpp)
if(STAVE_HAVE_CUDA)
  stave_python_cuda_includes(includes)
  find_path(STAVE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${includes} DOC "The folder of nccl.h")
  if(STAVE_NCCL_INCLUDE)
    set(STAVE_HAVE_NCCL TRUE)
    set(by_nccl handlers/ranks/nccl.cpp)
  else()
    message(STATUS "Stave: ranks on CUDA through the host's memory, because nccl.h was not found: apt-get install libnccl-dev, or pip's nvidia-nccl, "
      "or set STAVE_NCCL_INCLUDE to its folder")
  endif()
endif()

add_library(stave_ranks handlers/ranks/cotangent_sums.cpp handlers/ranks/processes.cpp handlers/ranks/ranks.cpp handlers/ranks/watchdog.cpp ${by_nccl})
add_library(stave::ranks ALIAS stave_ranks)
stave_set_library_defaults(stave_ranks)
target_sources(stave_ranks PUBLIC FILE_SET HEADERS BASE_DIRS "${include_dir}" FILES
  "${include_dir}/stave/handlers/ranks/cotangent_sums.h" "${include_dir}/stave/handlers/ranks/ranks.h")
target_link_libraries(stave_ranks PUBLIC stave PRIVATE MPI::MPI_CXX fmt::fmt)
set_target_properties(stave_ranks PROPERTIES EXPORT_NAME ranks)
if(STAVE_HAVE_NCCL)
  target_include_directories(stave_ranks SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} "${STAVE_NCCL_INCLUDE}")
  target_link_libraries(stave_ranks PRIVATE ${CMAKE_DL_LIBS})
  # Folders for machines whose loader does not find the library: beside the header, and in the
  # toolkit.
  cmake_path(GET STAVE_NCCL_INCLUDE PARENT_PATH beside)
  set_property(SOURCE handlers/ranks/nccl.cpp APPEND PROPERTY
    COMPILE_DEFINITIONS "STAVE_NCCL_FOLDERS=\"${beside}/lib:${CUDAToolkit_LIBRARY_DIR}\"")
  message(STATUS "Stave: ranks on CUDA by NCCL, of ${STAVE_NCCL_INCLUDE}")
endif()

# Adds a test that runs a program as the given number of processes on this machine, whatever the
# number of its cores.
function(stave_add_test_of_processes name processes)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${processes} --oversubscribe --bind-to none ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ranks TIMEOUT 120 PROCESSORS 2 ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_btl_vader_single_copy_mechanism=none;OMPI_MCA_mpi_yield_when_idle=1")
endfunction()
