# ctest reads this file each time it starts, with `operation_table` set. It adds one test for each
# line of `operation_table --list`. The program itself provides the list, so it cannot be out of
# date.
execute_process(COMMAND "${operation_table}" --list
  RESULT_VARIABLE status OUTPUT_VARIABLE operations ERROR_VARIABLE operations_error OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0 OR operations STREQUAL "")
  message(WARNING "operation_table --list: ${status} ${operations_error}")
  add_test(operation.NOT_LISTED operation_table.NOT_LISTED)  # fails, because there is no such program
  return()
endif()

string(REPLACE "\n" ";" operations "${operations}")
foreach(operation IN LISTS operations)
  add_test("operation.${operation}" "${operation_table}" --op "${operation}")
  set_tests_properties("operation.${operation}" PROPERTIES LABELS operations)
endforeach()
