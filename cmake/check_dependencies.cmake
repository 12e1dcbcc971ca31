# cmake -DFOLDER=sources -P check_dependencies.cmake
#
# Fails unless docs/dependencies.md has a row for each package that CMake looks for, and none for others.
file(READ "${FOLDER}/docs/dependencies.md" table)
string(REGEX MATCHALL "\n\\|[^|\n]+\\| *`[A-Za-z0-9_]+`" rows "${table}")
list(TRANSFORM rows REPLACE "^.*`([A-Za-z0-9_]+)`$" "\\1" OUTPUT_VARIABLE listed)
list(REMOVE_DUPLICATES listed)
list(SORT listed)

set(sought "")
file(GLOB_RECURSE files "${FOLDER}/cmake/*.cmake" "${FOLDER}/backends/*.cmake" "${FOLDER}/handlers/*.cmake" "${FOLDER}/tests/CMakeLists.txt"
  "${FOLDER}/examples/CMakeLists.txt")
foreach(file IN LISTS files ITEMS "${FOLDER}/CMakeLists.txt")
  file(STRINGS "${file}" lines REGEX "^ *find_package\\([A-Za-z0-9_]+")
  list(TRANSFORM lines REPLACE "^ *find_package\\(([A-Za-z0-9_]+).*" "\\1")
  list(APPEND sought ${lines})
endforeach()
list(REMOVE_DUPLICATES sought)
list(REMOVE_ITEM sought stave)
list(SORT sought)
if(NOT sought STREQUAL listed)
  message(FATAL_ERROR "docs/dependencies.md lists ${listed}, and CMake looks for ${sought}")
endif()
