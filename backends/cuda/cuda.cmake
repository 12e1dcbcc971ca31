# The CUDA backend, where nvcc is found (STAVE_CUDA=OFF leaves it out, ON insists). Included by the project's CMakeLists.txt;
# what it adds goes into the library. Without it `backend_of(cuda)` throws a DeviceError that says how to get it.
set(STAVE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if nvcc is found), ON, OFF")
set_property(CACHE STAVE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(STAVE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual CACHE STRING "What device code is made for, as CMAKE_CUDA_ARCHITECTURES")

# Sets STAVE_HAVE_CUDA, or `why_not`.
macro(stave_find_cuda)
  set(STAVE_HAVE_CUDA FALSE)
  find_program(STAVE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda /opt/cuda /usr/lib/cuda /usr/lib/nvidia-cuda-toolkit PATH_SUFFIXES bin)
  if(NOT STAVE_NVCC)
    set(why_not "nvcc was not found")
  else()
    # C++20 on the host and the device, with this compiler: seen by compiling, since many pairs of versions do not go together.
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/cuda_probe.cu")
    file(WRITE "${probe}" "#include <cuda_runtime.h>\n#include <concepts>\n#include <span>\n"
      "template <std::floating_point T> __global__ void twice(T* x) { *x += *x; }\n"
      "int main() { twice<<<1, 1>>>(static_cast<float*>(nullptr)); return std::span<int>().size(); }\n")
    execute_process(COMMAND "${STAVE_NVCC}" -std=c++20 -ccbin "${CMAKE_CXX_COMPILER}" -o "${probe}.out" "${probe}"
      RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(status EQUAL 0)
      set(STAVE_HAVE_CUDA TRUE)
    else()
      string(STRIP "${output}" output)
      set(why_not "${STAVE_NVCC} does not compile C++20 with ${CMAKE_CXX_COMPILER}:\n${output}")
    endif()
  endif()
endmacro()

if(STAVE_CUDA)
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
    message(STATUS "CUDA: with ${STAVE_NVCC} ${CMAKE_CUDA_COMPILER_VERSION} for ${STAVE_CUDA_ARCHITECTURES}")
  elseif(STAVE_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA: without; ${why_not}")
  else()
    message(FATAL_ERROR "STAVE_CUDA=${STAVE_CUDA}, but ${why_not}")
  endif()
else()
  set(STAVE_HAVE_CUDA FALSE)
  message(STATUS "CUDA: without, as STAVE_CUDA=${STAVE_CUDA} says")
endif()

if(NOT STAVE_HAVE_CUDA)
  return()
endif()

# Host code is C++ for the project's own compiler; only kernels/ is nvcc's.
file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
file(GLOB cuda_kernel_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/kernels/*.cu")
add_library(stave_cuda OBJECT ${cuda_sources} ${cuda_kernel_sources})
target_compile_features(stave_cuda PRIVATE cxx_std_20)
set_target_properties(stave_cuda PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_include_directories(stave_cuda PRIVATE "${include_dir}")
target_include_directories(stave_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(stave_cuda PRIVATE fmt::fmt)
# -std: CMake 3.25 knows no CUDA_STANDARD 20.
# No contraction: a value is the CPU's to the last bit where the arithmetic is IEEE, and fused only where the source says so.
target_compile_options(stave_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;$<$<BOOL:${STAVE_WERROR}>:-Werror>>
  $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra$<$<BOOL:${STAVE_WERROR}>:;-Werror=all-warnings;-Xcompiler=-Werror>>)
set_property(SOURCE "${CMAKE_CURRENT_LIST_DIR}/cublas.cpp" APPEND PROPERTY
  COMPILE_DEFINITIONS "STAVE_CUDA_LIBRARIES=\"${CUDAToolkit_LIBRARY_DIR}\"")
target_sources(stave PRIVATE $<TARGET_OBJECTS:stave_cuda>)
target_link_libraries(stave PRIVATE CUDA::cudart_static)
target_compile_definitions(stave PRIVATE STAVE_HAVE_CUDA)
