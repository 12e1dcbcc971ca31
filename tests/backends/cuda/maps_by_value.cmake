# Checks that kernels read their parameters, including index maps, from constant memory. PTX names
# the memory of each load, and a load that does not is through a generic pointer. (Functions that
# kernels call are not checked.)
#
# CMakeLists.txt includes this file. Run as a script, it compiles SOURCES to PTX and checks it.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(kernels "${PROJECT_SOURCE_DIR}/backends/cuda/kernels")
  add_test(NAME cuda.maps_by_value COMMAND "${CMAKE_COMMAND}" "-DNVCC=${STAVE_NVCC}" "-DCXX=${CMAKE_CXX_COMPILER}"
    "-DINCLUDE=${PROJECT_BINARY_DIR}/include" "-DSOURCES=${kernels}/layout.cu;${kernels}/index.cu;${kernels}/unary_wholes.cu"
    "-DPTX=${CMAKE_CURRENT_BINARY_DIR}/maps_by_value.ptx" -P "${CMAKE_CURRENT_LIST_DIR}/maps_by_value.cmake")
  return()
endif()

set(failed FALSE)
foreach(source IN LISTS SOURCES)
  execute_process(COMMAND "${NVCC}" -std=c++20 -ccbin "${CXX}" -fmad=false --expt-relaxed-constexpr -arch=sm_90 -ptx
    "-I${INCLUDE}" -o "${PTX}" "${source}" RESULT_VARIABLE status ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${source} does not compile:\n${errors}")
  endif()
  file(STRINGS "${PTX}" lines REGEX "^[.a-z ]*(entry|func)|[ \t]ld\\.")
  set(kernel "")
  set(seen 0)
  foreach(line IN LISTS lines)
    if(line MATCHES "[.]entry +([^ (]+)")
      set(kernel "${CMAKE_MATCH_1}")
      math(EXPR seen "${seen} + 1")
    elseif(line MATCHES "[.]func")
      set(kernel "")
    elseif(kernel AND NOT line MATCHES "[ \t]ld[.](param|global|shared|const|local)")
      string(STRIP "${line}" line)
      message(SEND_ERROR "${kernel} reads through a generic pointer: ${line}")
      set(kernel "")  # once for each
    endif()
  endforeach()
  if(seen EQUAL 0)
    message(SEND_ERROR "${source} has no kernels")
  endif()
  message(STATUS "${source}: ${seen} kernels")
endforeach()
