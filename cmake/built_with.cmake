# cmake -DTEXT=preprocessed -DHEADER=file -P built_with.cmake
#
# Writes <stave/built_with.h> from cmake/built_with.cpp, preprocessed with the library's options.
file(READ "${TEXT}" text)
string(REGEX REPLACE "\n#[^\n]*" "" text "${text}")    # where lines come from
string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")  # compilers join lines, or part them
string(REGEX MATCH "enum class BuiltWith {([^}]*)}" matched "${text}")
string(REGEX MATCHALL "[A-Z0-9_]+ = [^,]*," settings "${CMAKE_MATCH_1}")
if(NOT settings)
  message(FATAL_ERROR "cmake/built_with.cpp: there are no settings in ${TEXT}")
endif()
set(header "// How this library was compiled, as far as that decides how values lie in memory: core/effects/settings.h. Made by the build.\n#pragma once\n\n")
foreach(setting IN LISTS settings)
  if(NOT setting MATCHES "^([A-Z0-9_]+) = ([0-9]+) ?,$")
    message(FATAL_ERROR "cmake/built_with.cpp: `${setting}` is no setting and its number")
  endif()
  string(APPEND header "#define STAVE_BUILT_WITH_${CMAKE_MATCH_1} ${CMAKE_MATCH_2}\n")
endforeach()
file(WRITE "${HEADER}" "${header}")
