# cmake -DSOURCE=file -DCOMPILE="c++;-fsyntax-only;..." -P expect_compile_error.cmake
#
# Passes if SOURCE does not compile and the compiler's output matches its first line, `// expect:
# REGEX` (CMake's dialect). The second line may be `// with: -OPTION;-OPTION`, further options of
# the compiler. A file of several cases has `#if CASE == 1` and so on, each followed by a line `//
# expect: REGEX`. It is compiled once for each case, and a case that expects a static_assert of
# Stave must produce that one error only.
file(READ "${SOURCE}" text)
set(ENV{LC_ALL} C)  # English, and plain quotation marks

function(expect_error expected)  # further arguments are options of the compiler
  execute_process(COMMAND ${COMPILE} ${ARGN} "${SOURCE}" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX MATCHALL "error: " errors "${output}")
  list(LENGTH errors count)
  if(status EQUAL 0)
    message(SEND_ERROR "This compiles, but must not: ${SOURCE} ${ARGN}")
  elseif(NOT output MATCHES "${expected}")
    message("${output}")
    message(SEND_ERROR "The compiler's output does not match `${expected}`: ${SOURCE} ${ARGN}")
  elseif(ARGN AND expected MATCHES "^stave: " AND count GREATER 1)
    message("${output}")
    message(SEND_ERROR "There are ${count} errors instead of one, `${expected}`: ${SOURCE} ${ARGN}")
  endif()
endfunction()

string(REGEX MATCHALL "if CASE == [0-9]+\n *// expect: [^\n]+" cases "${text}")
if(cases)
  foreach(case IN LISTS cases)
    string(REGEX MATCH "CASE == ([0-9]+)\n *// expect: ([^\n]+)" matched "${case}")
    expect_error("${CMAKE_MATCH_2}" "-DCASE=${CMAKE_MATCH_1}")
  endforeach()
elseif(text MATCHES "^// expect: ([^\n]+)\n(// with: ([^\n]+)\n)?")
  list(APPEND COMPILE ${CMAKE_MATCH_3})
  expect_error("${CMAKE_MATCH_1}")
else()
  message(FATAL_ERROR "${SOURCE} neither begins with `// expect: REGEX` nor has cases")
endif()
