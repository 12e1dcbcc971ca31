# cmake -DREADELF=readelf "-DLIBRARIES=libstave.so;libstave_effects.so" -P check_tls.cmake
#
# Checks the thread-local variables of shared libraries, which -ftls-model=initial-exec puts into a
# space of some 1,600 bytes that the loader reserves for all libraries of a process that dlopen loads.
# The check fails, and names the symbol,
# - if a library reads a variable of another project by this model (by a relocation
#   R_X86_64_TPOFF64, R_AARCH64_TLS_TPREL64 or the like). The C++ library has such variables, for
#   std::call_once. If dlopen loaded it, as PyTorch does, its variables are not in that space, and
#   the loader reports: "cannot allocate memory in static TLS block";
# - if the libraries together take more than `most` bytes of that space.
set(most 1024)
set(foreign "")
set(total 0)
foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND "${READELF}" --relocs --wide "${library}" OUTPUT_VARIABLE relocations COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]*TP(OFF|REL)[^\n]*" relocations "${relocations}")
  foreach(relocation IN LISTS relocations)
    if(NOT relocation MATCHES " ([A-Za-z_][A-Za-z0-9_.$]*)(@[^ ]*)?( \\+ [0-9a-f]+)?$")
      continue()  # a variable of its own that is not exported
    endif()
    set(symbol "${CMAKE_MATCH_1}")
    if(NOT symbol MATCHES "^_Z(Z*N[KRO]*|TH[A-Z]*N)(5stave|12stave_detail|9stave_cpu|10stave_cuda)")
      string(APPEND foreign "\n  ${symbol} (${library})")
    endif()
  endforeach()
  execute_process(COMMAND "${READELF}" --dynamic --program-headers --wide "${library}" OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  # Without that flag, a library's variables are allocated elsewhere when a thread first reads them:
  # stave_cuda, with the variables of CUDA's runtime.
  if(headers MATCHES "STATIC_TLS" AND headers MATCHES "\n +TLS +0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ (0x[0-9a-f]+)")
    math(EXPR total "${total} + ${CMAKE_MATCH_1}")
  endif()
endforeach()
if(foreign)
  message(FATAL_ERROR "Thread-local variables of others, read by the initial-exec model:${foreign}")
endif()
message(STATUS "${total} bytes of thread-local variables")
if(total GREATER most)
  message(FATAL_ERROR "The libraries take ${total} bytes of the loader's room for thread-local variables, more than ${most}")
endif()
