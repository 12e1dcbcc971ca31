# What runs on a GPU, and says so where there is none.
add_executable(cuda_gpu_runs "${CMAKE_CURRENT_LIST_DIR}/gpu_runs.cpp")
stave_set_cuda_test_defaults(cuda_gpu_runs)
gtest_discover_tests(cuda_gpu_runs TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES LABELS gpu)
