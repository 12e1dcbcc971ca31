# cmake -DNM=nm -DLIBRARY=libstave.so -P check_exports.cmake
#
# Fails if a shared library exports symbols outside its namespaces, or kernels (exports.cmake), or
# nothing at all. Prints the symbols.
execute_process(COMMAND "${NM}" --dynamic --defined-only --format=posix "${LIBRARY}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
list(TRANSFORM symbols REPLACE " .*" "")
set(shown ${symbols})
list(FILTER shown EXCLUDE REGEX "^_Z(T[A-Za-z0-9]*_?[a-z0-9]*_?|G[VR])?Z?N[KRO]*(5stave|12stave_detail|9stave_cpu|10stave_cuda)")
list(LENGTH symbols count)
if(count EQUAL 0)
  message(FATAL_ERROR "${LIBRARY} exports no symbol")
elseif(shown)
  list(JOIN shown "\n  " shown)
  message(FATAL_ERROR "${LIBRARY} exports symbols that are not part of its interface:\n  ${shown}")
endif()
