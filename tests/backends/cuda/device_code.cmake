# Checks the library's device code, as cuobjdump lists it. Architectures that are not given as
# numbers ("all") are not checked.
find_program(STAVE_CUOBJDUMP cuobjdump HINTS "${CUDAToolkit_BIN_DIR}")
set(numbered ${STAVE_CUDA_ARCHITECTURES})
list(FILTER numbered INCLUDE REGEX "^[0-9]+[af]?(-real|-virtual)?$")
if(STAVE_CUOBJDUMP AND numbered)
  add_executable(cuda_device_code device_code.cpp)
  stave_set_cuda_test_defaults(cuda_device_code)
  add_test(NAME cuda.device_code COMMAND cuda_device_code "${STAVE_CUOBJDUMP}"
    $<IF:$<BOOL:${BUILD_SHARED_LIBS}>,$<TARGET_FILE:stave_cuda>,$<TARGET_FILE:stave>> ${numbered})
else()
  add_test(NAME cuda.device_code COMMAND "${CMAKE_COMMAND}" -E echo
    "skipped: cuobjdump was not found (package cuda-cuobjdump, or nvidia-cuda-cuobjdump from PyPI, with STAVE_CUOBJDUMP set)")
  set_tests_properties(cuda.device_code PROPERTIES SKIP_REGULAR_EXPRESSION "^skipped")
endif()
