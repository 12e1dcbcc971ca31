# cmake -DNM=nm -DISA=avx2 -DOBJECTS="a.o;b.o" [-DOWN=ON] -P check_symbols.cmake
#
# Fails if kernel objects define weak functions that code compiled for another processor may share.
# Prints the functions. A function whose name mentions a type or function of the kernels' own
# namespace is unique, and harmless (nm does not demangle some names of generic lambdas). Shared
# data (u, V) is not code.
#
# OWN: the objects belong to a program (stave_add_kernels), and may define nothing besides their
# loops. Otherwise the whole program might call such a function, or call it before the processor is
# known.
set(kinds "W ")
set(harmless "stave_kernels_${ISA}::|_Z+N[0-9]+stave_kernels_${ISA}[0-9]")
set(message "Weak symbols outside stave_kernels_${ISA}, which the whole program could end up calling:")
if(OWN)
  set(kinds "([A-Zvw] |t (_GLOBAL__sub_I_|global constructors keyed to )[^0])")
  # Compilers also emit the personality function of exceptions, and type descriptions for
  # sanitizers.
  string(APPEND harmless "|stave_loops_.*_${ISA}|DW\\.ref\\.|typeinfo (name )?for ")
  string(CONCAT message "A file that stave_add_kernels compiles for ${ISA} may define operations alone, and functions and constants that "
    "are static or in an unnamed namespace and need nothing done when the program starts. This defines more:")
endif()
execute_process(COMMAND "${NM}" --demangle --defined-only ${OBJECTS}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ ${kinds}[^\n]+" found "${symbols}")
list(FILTER found EXCLUDE REGEX "${harmless}")
if(found)
  list(REMOVE_DUPLICATES found)
  list(JOIN found "\n  " found)
  message(FATAL_ERROR "${message}\n  ${found}")
endif()
