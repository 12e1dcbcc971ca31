# Read by ctest each time it starts, with `operation_table` set: one test for each line of `operation_table --list`.
# Asking the program itself, each time, leaves no list that could be out of date.
execute_process(COMMAND "${operation_table}" --list
  RESULT_VARIABLE status OUTPUT_VARIABLE operations ERROR_VARIABLE operations_error OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0 OR operations STREQUAL "")
  message(WARNING "operation_table --list: ${status} ${operations_error}")
  add_test(operation.NOT_LISTED operation_table.NOT_LISTED)  # no such program: fails
  return()
endif()

string(REPLACE "\n" ";" operations "${operations}")
foreach(operation IN LISTS operations)
  add_test("operation.${operation}" "${operation_table}" --op "${operation}")
  set_tests_properties("operation.${operation}" PROPERTIES LABELS operations)
endforeach()
