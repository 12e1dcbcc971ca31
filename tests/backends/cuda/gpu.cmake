# Tests that run on a GPU, and are skipped without one. Tests that need gigabytes have a program of
# their own.
add_executable(cuda_gpu_runs "${CMAKE_CURRENT_LIST_DIR}/gpu_runs.cpp")
stave_set_cuda_test_defaults(cuda_gpu_runs)
gtest_discover_tests(cuda_gpu_runs TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES LABELS gpu)

add_executable(cuda_large_runs "${CMAKE_CURRENT_LIST_DIR}/large_runs.cpp")
stave_set_cuda_test_defaults(cuda_large_runs)
gtest_discover_tests(cuda_large_runs TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES
  LABELS gpu RUN_SERIAL ON)
add_test(NAME cuda.large_on_host COMMAND cuda_large_runs)
set_tests_properties(cuda.large_on_host PROPERTIES ENVIRONMENT STAVE_LARGE_ON_HOST=1)
