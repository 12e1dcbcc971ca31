# cmake -DNM=nm -DISA=avx2 -DOBJECTS="a.o;b.o" -P check_own_kernels.cmake
#
# Fails, and names it, if objects that stave_add_kernels compiled for an instruction set define anything besides the loops: the whole
# program could end up calling it, or call it before the processor is known.
execute_process(COMMAND "${NM}" --demangle --defined-only ${OBJECTS}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+ ([A-Zvw] |t (_GLOBAL__sub_I_|global constructors keyed to )[^0])[^\n]+" others "${symbols}")
list(FILTER others EXCLUDE REGEX "stave_kernels_${ISA}::|_Z+N[0-9]+stave_kernels_${ISA}[0-9]|stave_loops_.*_${ISA}|DW\\.ref\\.")
if(others)
  list(REMOVE_DUPLICATES others)
  list(JOIN others "\n  " others)
  message(FATAL_ERROR "A file that stave_add_kernels compiles for ${ISA} may define operations alone, and functions and constants that "
    "are static or in an unnamed namespace and need nothing done when the program starts. This defines more:\n  ${others}")
endif()
