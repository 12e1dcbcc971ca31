# Builds the CUDA backend if this machine has a GPU and nvcc. STAVE_CUDA=OFF disables it, ON
# requires it. The project's CMakeLists.txt includes this file, and the backend's sources go into
# the library. Without the backend, `backend_of(cuda)` throws a DeviceError that says how to get it.
set(STAVE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if this machine has a GPU and nvcc), ON, OFF")
set_property(CACHE STAVE_CUDA PROPERTY STRINGS AUTO ON OFF)

# The architectures of this machine's GPUs, or those of a release if there is no GPU.
set(architectures 80-real 90-real 90-virtual)
execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  RESULT_VARIABLE status OUTPUT_VARIABLE capabilities ERROR_QUIET)
if(status EQUAL 0 AND capabilities MATCHES "^[0-9]+[.][0-9]")
  string(REGEX MATCHALL "[0-9]+[.][0-9]+" capabilities "${capabilities}")
  string(REPLACE "." "" architectures "${capabilities}")
  list(REMOVE_DUPLICATES architectures)
  list(TRANSFORM architectures APPEND -real)
  set(gpu_is_here TRUE)
else()
  set(gpu_is_here FALSE)
endif()
set(STAVE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "What device code is made for, as CMAKE_CUDA_ARCHITECTURES")

# Folders of CUDA's headers in Python packages: nvidia/cublas/include, and from CUDA 13 on
# nvidia/cu13/include.
function(stave_python_cuda_includes found)
  set(includes "")
  find_program(STAVE_PYTHON3 NAMES python3 python)
  if(STAVE_PYTHON3)
    execute_process(COMMAND "${STAVE_PYTHON3}" -c "import sys; print(*filter(None, sys.path), sep=';')"
      OUTPUT_VARIABLE paths OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(path IN LISTS paths)
      file(GLOB there "${path}/nvidia/*/include")
      list(APPEND includes ${there})
    endforeach()
  endif()
  set(${found} "${includes}" PARENT_SCOPE)
endfunction()

# Sets STAVE_<NAME>_INCLUDE, which is empty if the header is in the toolkit's own folder. Returns
# whether the header compiles. A toolkit may come without these libraries, and only the headers are
# needed here: a program loads the libraries when it uses them.
function(stave_find_header found name header)
  set(probe "${CMAKE_CURRENT_BINARY_DIR}/${name}_probe.cpp")
  file(WRITE "${probe}" "#include <${header}>\nint main() { return ${name}_VER_MAJOR; }\n")
  set(${found} FALSE PARENT_SCOPE)
  stave_python_cuda_includes(includes)
  foreach(include "${STAVE_${name}_INCLUDE}" "" ${includes})
    set(options "")
    foreach(folder IN LISTS include STAVE_CUBLAS_INCLUDE)
      list(APPEND options "-I${folder}")
    endforeach()
    execute_process(COMMAND "${STAVE_NVCC}" -std=c++20 -ccbin "${CMAKE_CXX_COMPILER}" ${options} -c -o "${probe}.o" "${probe}"
      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
      set(STAVE_${name}_INCLUDE "${include}" CACHE PATH "The folder of ${header}, if it is not the CUDA Toolkit's" FORCE)
      set(${found} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets STAVE_HAVE_CUDA, or `why_not`.
macro(stave_find_cuda)
  set(STAVE_HAVE_CUDA FALSE)
  find_program(STAVE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda /opt/cuda /usr/lib/cuda /usr/lib/nvidia-cuda-toolkit PATH_SUFFIXES bin)
  if(NOT STAVE_NVCC)
    set(why_not "nvcc was not found")
  else()
    # Tests whether nvcc and this compiler support C++20 on host and device by compiling, because
    # many pairs of versions do not.
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/cuda_probe.cu")
    file(WRITE "${probe}" "#include <cuda_runtime.h>\n#include <concepts>\n#include <span>\n"
      "template <std::floating_point T> __global__ void twice(T* x) { *x += *x; }\n"
      "int main() { twice<<<1, 1>>>(static_cast<float*>(nullptr)); return std::span<int>().size(); }\n")
    execute_process(COMMAND "${STAVE_NVCC}" -std=c++20 -ccbin "${CMAKE_CXX_COMPILER}" -o "${probe}.out" "${probe}"
      RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
      string(STRIP "${output}" output)
      set(why_not "${STAVE_NVCC} does not compile C++20 with ${CMAKE_CXX_COMPILER}:\n${output}")
    else()
      foreach(header CUBLAS:cublasLt.h:cublas CUBLAS:cublas_v2.h:cublas CUSOLVER:cusolverDn.h:cusolver
          CUFFT:cufftXt.h:cufft)
        string(REPLACE ":" ";" header "${header}")
        list(POP_FRONT header name file package)
        stave_find_header(STAVE_HAVE_CUDA ${name} ${file})
        if(NOT STAVE_HAVE_CUDA)
          string(CONCAT why_not "${file} was found neither by ${STAVE_NVCC} nor among Python's packages: install the toolkit's "
            "lib${package}-dev, or pip's nvidia-${package}, or set STAVE_${name}_INCLUDE to its folder")
          break()
        endif()
      endforeach()
    endif()
  endif()
endmacro()

if(STAVE_CUDA STREQUAL "AUTO" AND NOT gpu_is_here)
  set(STAVE_HAVE_CUDA FALSE)
  message(STATUS "Stave: no CUDA, because this machine has no GPU (-DSTAVE_CUDA=ON builds the backend anyway)")
elseif(STAVE_CUDA)
  stave_find_cuda()
  if(STAVE_HAVE_CUDA)
    set(CMAKE_CUDA_COMPILER "${STAVE_NVCC}")
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
    set(CMAKE_CUDA_ARCHITECTURES "${STAVE_CUDA_ARCHITECTURES}")
    if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    list(JOIN STAVE_CUDA_ARCHITECTURES ", " names)
    message(STATUS "Stave: CUDA by ${STAVE_NVCC} ${CMAKE_CUDA_COMPILER_VERSION} for ${names}")
  elseif(STAVE_CUDA STREQUAL "AUTO")
    message(STATUS "Stave: no CUDA: ${why_not}")
  else()
    message(FATAL_ERROR "STAVE_CUDA=${STAVE_CUDA}, but ${why_not}")
  endif()
else()
  set(STAVE_HAVE_CUDA FALSE)
  message(STATUS "Stave: no CUDA, because of STAVE_CUDA=${STAVE_CUDA}")
endif()

if(NOT STAVE_HAVE_CUDA)
  return()
endif()

# The project's own compiler compiles the host code; only kernels/ is for nvcc. With a shared Stave,
# the backend is a library of its own. It links to the CUDA runtime statically, so that programs
# start on machines without CUDA. The runtime has 4 KiB of thread-locals. In the main library, whose
# thread-locals are initial-exec, these would have to fit into the space that a process has left at
# its start, and dlopen could not load the library. The backend's library uses Stave's symbols from
# the library that loads it.
file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
file(GLOB cuda_kernel_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/kernels/*.cu")
include("${CMAKE_CURRENT_LIST_DIR}/region_headers.cmake")
set(embedded "${CMAKE_CURRENT_BINARY_DIR}/generated/region_headers.cpp")
list(TRANSFORM region_headers PREPEND "${PROJECT_SOURCE_DIR}/")
add_custom_command(OUTPUT "${embedded}" DEPENDS ${region_headers} "${CMAKE_CURRENT_LIST_DIR}/kernels/standard.cuh"
  "${CMAKE_CURRENT_LIST_DIR}/region_headers.cmake"
  COMMAND "${CMAKE_COMMAND}" "-DFOLDER=${PROJECT_SOURCE_DIR}" "-DOUT=${embedded}" -P "${CMAKE_CURRENT_LIST_DIR}/region_headers.cmake"
  COMMENT "Embedding the headers of regions' kernels")
list(APPEND cuda_sources "${embedded}")
if(BUILD_SHARED_LIBS)
  add_library(stave_cuda SHARED ${cuda_sources} ${cuda_kernel_sources})
  set_target_properties(stave_cuda PROPERTIES LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_libraries(stave_cuda PRIVATE CUDA::cudart_static)
  # The static runtime must not serve other libraries of the process, nor their runtime this one.
  target_link_options(stave_cuda PRIVATE -Wl,-Bsymbolic-functions -Wl,--exclude-libs,libcudart_static.a)
  stave_show_namespaces(stave_cuda)
  target_link_libraries(stave PRIVATE stave_cuda)
  install(TARGETS stave_cuda EXPORT stave LIBRARY COMPONENT runtime NAMELINK_SKIP)
else()
  add_library(stave_cuda OBJECT ${cuda_sources} ${cuda_kernel_sources})
  target_sources(stave PRIVATE $<TARGET_OBJECTS:stave_cuda>)
  target_link_libraries(stave PRIVATE CUDA::cudart_static)
endif()
target_compile_features(stave_cuda PRIVATE cxx_std_20)
set_target_properties(stave_cuda PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_include_directories(stave_cuda PRIVATE ${include_dirs})
add_dependencies(stave_cuda stave_built_with)
target_include_directories(stave_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${STAVE_CUBLAS_INCLUDE} ${STAVE_CUSOLVER_INCLUDE}
  ${STAVE_CUFFT_INCLUDE})
target_link_libraries(stave_cuda PRIVATE fmt::fmt)
# -std is given because CMake 3.25 does not know CUDA_STANDARD 20.
# Contraction is off, so that only explicit FMAs are fused. A value then equals the CPU's bit for
# bit wherever IEEE defines the arithmetic.
target_compile_options(stave_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;$<$<BOOL:${STAVE_WERROR}>:-Werror>>
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra$<$<BOOL:${STAVE_WERROR}>:;-Werror=all-warnings;-Xcompiler=-Werror>>)
# Folders for machines whose loader does not find the libraries: beside their headers, in the
# toolkit, and in Python packages.
stave_python_cuda_includes(includes)
set(library_folders "${CUDAToolkit_LIBRARY_DIR}")
foreach(include IN LISTS includes)
  cmake_path(GET include PARENT_PATH beside)
  file(GLOB libraries "${beside}/lib/libcublasLt.so*" "${beside}/lib/libcusolver.so*" "${beside}/lib/libcufft.so*"
    "${beside}/lib/libnvrtc.so*")
  if(libraries AND (include STREQUAL STAVE_CUBLAS_INCLUDE OR include STREQUAL STAVE_CUSOLVER_INCLUDE OR
      include STREQUAL STAVE_CUFFT_INCLUDE))
    list(PREPEND library_folders "${beside}/lib")
  elseif(libraries)
    list(APPEND library_folders "${beside}/lib")
  endif()
endforeach()
string(REPLACE ";" ":" library_folders "${library_folders}")
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/dynamic_library.cpp" APPEND PROPERTY
  COMPILE_DEFINITIONS "STAVE_LIBRARY_FOLDERS=\"${library_folders}\"")
string(REPLACE ";" ", " code "${STAVE_CUDA_ARCHITECTURES}")
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/runtime.cpp" APPEND PROPERTY COMPILE_DEFINITIONS "STAVE_CUDA_CODE=\"${code}\"")
set_property(SOURCE core/tensor/storage.cpp APPEND PROPERTY COMPILE_DEFINITIONS STAVE_HAVE_CUDA)
