# cmake -DFOLDER=sources -P check_settings.cmake
#
# Fails unless each public header includes core/effects/settings.h before all other headers of
# Stave, directly or through the first such header. So whichever header a program includes first
# checks how the program is compiled.
cmake_policy(VERSION 3.23)
file(GLOB_RECURSE headers RELATIVE "${FOLDER}" "${FOLDER}/core/*.h" "${FOLDER}/handlers/*.h" "${FOLDER}/programs/*.h" "${FOLDER}/ranks/*.h")
list(APPEND headers core.h stave.h backends/cpu/own_kernels.h)
# These headers have only numbers and names. CUDA's kernels include them at run time, where there is
# no standard library.
set(exempt core/effects/settings.h core/tensor/half.h core/tensor/complex.h core/tensor/dtype.h core/ops/elementwise_ops.h core/ops/erfinv.h core/ops/polygamma.h core/ops/complex_functions.h
  core/op/op_id.h core/effects/sanitize.h core/program/kernel_loop.h)

set(left "")
foreach(header IN LISTS headers)
  if(header IN_LIST exempt)
    continue()
  endif()
  file(STRINGS "${FOLDER}/${header}" includes REGEX "^#include <stave/")
  set(first "")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^#include <stave/([^>]+)>.*" "\\1" include "${include}")
    if(NOT include IN_LIST exempt OR include STREQUAL "core/effects/settings.h")
      set(first "${include}")
      break()
    endif()
  endforeach()
  if(NOT first)
    list(APPEND left "${header}")
  endif()
endforeach()
if(left)
  list(JOIN left ", " left)
  message(FATAL_ERROR "These headers do not include <stave/core/effects/settings.h>, nor one that does: ${left}")
endif()
