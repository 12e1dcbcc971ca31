# Sets FOUND to the best element of `isas` that this machine's processor supports, by
# backends/cpu/kernels/x86_levels.h. `isas` is sorted from best to simplest.
function(stave_find_native_isas found isas)
  set(${found} "${isas}" PARENT_SCOPE)
  list(LENGTH isas count)
  if(count EQUAL 1 OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(probe "${CMAKE_CURRENT_BINARY_DIR}/native_isas.cpp")
  file(WRITE "${probe}" "#include \"${CMAKE_CURRENT_SOURCE_DIR}/backends/cpu/kernels/x86_levels.h\"
int main() { return stave_cpu::has_x86_64_v4() ? 4 : stave_cpu::has_x86_64_v3() ? 3 : 2; }
")
  try_run(level compiled "${CMAKE_CURRENT_BINARY_DIR}/native_isas" "${probe}")
  if(NOT compiled)
    return()
  elseif(level EQUAL 4)
    set(best avx512)
  elseif(level EQUAL 3)
    set(best avx2)
  else()
    set(best sse2)
  endif()
  set(${found} ${best} PARENT_SCOPE)
endfunction()
