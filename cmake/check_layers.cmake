# cmake -DFOLDER=sources -P check_layers.cmake
#
# Fails if a file includes a header of a folder that its own folder must not depend on.
cmake_policy(VERSION 3.23)

# The folders from the lowest to the highest. A file may include headers of its own folder and of
# lower ones.
set(layers core/effects core/tensor core/op core/ops core/program core/io
  handlers/transforms handlers/compile handlers/model handlers/inference handlers/numerics handlers/observe handlers/debugger
  handlers/ranks)
# These sources implement their headers with operations, which are in a higher folder.
set(by_operations core/tensor/tensor.cpp core/tensor/print.cpp core/op/call.cpp core/op/function.cpp)

set(wrong "")
foreach(layer IN LISTS layers)
  list(FIND layers "${layer}" height)
  file(GLOB_RECURSE files RELATIVE "${FOLDER}" "${FOLDER}/${layer}/*.h" "${FOLDER}/${layer}/*.cpp")
  foreach(file IN LISTS files)
    file(STRINGS "${FOLDER}/${file}" includes REGEX "^#include <stave/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^#include <stave/([^>]*)>.*" "\\1" header "${include}")
      string(REGEX REPLACE "^([a-z_]+/[a-z_]+)/.*" "\\1" folder "${header}")
      list(FIND layers "${folder}" height_of_header)
      if(NOT header MATCHES "/.*[.]h$" OR (file IN_LIST by_operations AND folder MATCHES "^core/ops?$"))
        continue()
      endif()
      if(height_of_header EQUAL -1 OR height_of_header GREATER height)
        list(APPEND wrong "${file} includes <stave/${header}>, which ${layer} is not built upon")
      endif()
    endforeach()
  endforeach()
endforeach()

if(wrong)
  list(JOIN wrong "\n  " text)
  message(FATAL_ERROR "Includes of headers in a higher folder:\n  ${text}")
endif()
