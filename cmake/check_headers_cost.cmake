# cmake -DCOMPILE=compiler;options -DHEADER=stave.h -DMOST=9500 -P check_headers_cost.cmake
#
# Fails if <stave/HEADER> includes a standard header that takes long to compile, or more than MOST
# lines of Stave's own code without comments. tests/bench/headers.sh measures the compile time in
# seconds.
cmake_policy(VERSION 3.23)
set(costly complex filesystem format future iomanip iostream random ranges regex syncstream thread valarray)
set(source "${CMAKE_CURRENT_BINARY_DIR}/headers_cost_${HEADER}.cpp")
file(WRITE "${source}" "#include <stave/${HEADER}>\n")
execute_process(COMMAND ${COMPILE} -M "${source}" OUTPUT_VARIABLE names RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "<stave/${HEADER}> does not compile")
endif()
string(REGEX REPLACE "[ \\\n]+" ";" names "${names}")
set(lines 0)
foreach(name IN LISTS names)
  get_filename_component(last "${name}" NAME)
  if(name MATCHES "/stave/.*[.]h$")
    file(STRINGS "${name}" text REGEX "^ *([^ /]|/[^/])")
    list(LENGTH text count)
    math(EXPR lines "${lines} + ${count}")
  elseif(last IN_LIST costly AND name MATCHES "/c[+][+]/")
    message(SEND_ERROR "<stave/${HEADER}> includes <${last}>, which takes long to compile: put what needs it into a .cpp file")
  endif()
endforeach()
message(STATUS "<stave/${HEADER}>: ${lines} lines of Stave's code")
if(lines GREATER MOST)
  message(FATAL_ERROR "<stave/${HEADER}> includes ${lines} lines of Stave's own code, more than ${MOST}")
endif()
