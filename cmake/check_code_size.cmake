# cmake -DSIZE=size -DNAME=what "-DOBJECTS=a.o;b.o" -DMOST=2000 -P check_code_size.cmake
#
# Fails if the object files have more than MOST thousand bytes of code and constants. Compile time
# grows with code, by 30 to 50 seconds of a core for a million bytes, and is too noisy for a test.
list(FILTER OBJECTS EXCLUDE REGEX "[.][gp]ch$")  # precompiled headers
execute_process(COMMAND "${SIZE}" --totals ${OBJECTS} OUTPUT_VARIABLE sizes COMMAND_ERROR_IS_FATAL ANY)
if(NOT sizes MATCHES "([0-9]+)[ \t0-9a-f]+\\(TOTALS\\)")
  message(FATAL_ERROR "size has no line of totals:\n${sizes}")
endif()
math(EXPR thousands "${CMAKE_MATCH_1} / 1000")
message(STATUS "${NAME}: ${thousands} thousand bytes")
if(thousands GREATER MOST)
  message(FATAL_ERROR "${NAME}: ${thousands} thousand bytes of code, more than ${MOST}: instantiate fewer templates, or move code of "
    "headers into sources. `nm -S -C --size-sort` shows what is large.")
endif()
