# cmake -DFOLDER=sources -P check_layers.cmake
#
# Fails if a file includes a header of a folder that its own folder must not depend on
# (layers.cmake), or if a file of core/effects names values or transforms of the layers above.
cmake_policy(VERSION 3.23)
include("${CMAKE_CURRENT_LIST_DIR}/layers.cmake")

# These sources implement their headers with operations, which are in a higher folder.
set(by_operations core/tensor/tensor.cpp core/tensor/print.cpp core/op/call.cpp core/op/function.cpp)

set(wrong "")
foreach(layer IN LISTS stave_layers)
  set(allowed_${layer} ${layer})
  foreach(below IN LISTS stave_below_${layer})  # which is before it in the list
    list(APPEND allowed_${layer} ${allowed_${below}})
  endforeach()
  file(GLOB_RECURSE files RELATIVE "${FOLDER}" "${FOLDER}/${layer}/*.h" "${FOLDER}/${layer}/*.cpp")
  foreach(file IN LISTS files)
    file(STRINGS "${FOLDER}/${file}" includes REGEX "^#include <stave/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^#include <stave/([^>]*)>.*" "\\1" header "${include}")
      string(REGEX REPLACE "^([a-z_]+/[a-z_]+)/.*" "\\1" folder "${header}")
      if(NOT header MATCHES "/.*[.]h$" OR (file IN_LIST by_operations AND folder MATCHES "^core/ops?$"))
        continue()
      endif()
      if(NOT folder IN_LIST allowed_${layer})
        list(APPEND wrong "${file} includes <stave/${header}>, which ${layer} is not built upon")
      endif()
    endforeach()
  endforeach()
endforeach()

if(wrong)
  list(JOIN wrong "\n  " text)
  message(FATAL_ERROR "Includes of headers in a higher folder:\n  ${text}")
endif()

# The library of effects is useful without tensors, so neither its code nor its comments mention
# them.
file(GLOB files RELATIVE "${FOLDER}" "${FOLDER}/core/effects/*.h" "${FOLDER}/core/effects/*.cpp" "${FOLDER}/core/effects/*.md")
set(words "[Tt]ensors?|Call|vmap|checkpoints?|lanes?|compiled functions?")
foreach(file IN LISTS files)
  file(STRINGS "${FOLDER}/${file}" lines REGEX "(^|[^A-Za-z_])(${words})([^A-Za-z_]|$)")
  foreach(line IN LISTS lines)
    list(APPEND wrong "${file}: ${line}")
  endforeach()
endforeach()

if(wrong)
  list(JOIN wrong "\n  " text)
  message(FATAL_ERROR "Words of the layers above in core/effects:\n  ${text}")
endif()
