# cmake -DNM=nm -DISA=avx2 -DOBJECTS="a.o;b.o" -P check_weak_symbols.cmake
#
# Fails, and names them, if kernel objects define weak symbols that code compiled for another processor may share. What
# mentions a type or function of the kernels' own namespace has a name of its own, and is harmless (nm leaves some names of
# generic lambdas as they are); so are the pointer to the exception personality that the compiler emits (DW.ref) and shared
# data (u: an inline table of constants is no code).
execute_process(COMMAND "${NM}" --demangle --defined-only ${OBJECTS}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ [WV] [^\n]+" weak "${symbols}")
list(FILTER weak EXCLUDE REGEX "stave_kernels_${ISA}::|_Z+N[0-9]+stave_kernels_${ISA}[0-9]|DW\\.ref\\.")
if(weak)
  list(REMOVE_DUPLICATES weak)
  list(JOIN weak "\n  " weak)
  message(FATAL_ERROR "Weak symbols outside stave_kernels_${ISA}, which the whole program could end up calling:\n  ${weak}")
endif()
