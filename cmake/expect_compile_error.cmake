# cmake -DSOURCE=file -DCOMPILE="c++;-fsyntax-only;..." -P expect_compile_error.cmake
#
# Passes if SOURCE does not compile and the compiler's words match the first line of it, `// expect: REGEX` (CMake's dialect).
file(READ "${SOURCE}" text)
if(NOT text MATCHES "^// expect: ([^\n]+)\n")
  message(FATAL_ERROR "${SOURCE} does not begin with `// expect: REGEX`")
endif()
set(expected "${CMAKE_MATCH_1}")

set(ENV{LC_ALL} C)  # English, and plain quotation marks
execute_process(COMMAND ${COMPILE} "${SOURCE}" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "This compiles, and must not: ${SOURCE}")
elseif(NOT output MATCHES "${expected}")
  message("${output}")
  message(FATAL_ERROR "The compiler's words do not match `${expected}`")
endif()
