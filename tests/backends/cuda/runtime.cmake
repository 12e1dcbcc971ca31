# The runtime over a simulated driver. It is compiled from its sources, because the library's is
# linked to the real CUDA.
set(cuda_folder "${PROJECT_SOURCE_DIR}/backends/cuda")
add_executable(cuda_runtime_test "${CMAKE_CURRENT_LIST_DIR}/runtime_runs.cpp"
  "${cuda_folder}/runtime.cpp" "${cuda_folder}/memory_cache.cpp" "${cuda_folder}/faults.cpp" "${cuda_folder}/launch.cpp"
  "${cuda_folder}/occupancy.cpp" "${cuda_folder}/driver.cpp")
stave_set_cuda_test_defaults(cuda_runtime_test)
set_target_properties(cuda_runtime_test PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_runtime_test PRIVATE stave::stave fmt::fmt GTest::gtest_main Threads::Threads)
gtest_discover_tests(cuda_runtime_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

# Matrix products over a simulated cuBLASLt.
add_executable(cuda_matmul_driver_test "${CMAKE_CURRENT_LIST_DIR}/matmul_runs.cpp"
  "${cuda_folder}/matmul.cpp" "${cuda_folder}/matmul_plan.cpp" "${cuda_folder}/launch.cpp")
stave_set_cuda_test_defaults(cuda_matmul_driver_test)
set_target_properties(cuda_matmul_driver_test PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_matmul_driver_test PRIVATE stave::stave fmt::fmt GTest::gtest_main Threads::Threads)
gtest_discover_tests(cuda_matmul_driver_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

# CUDA graphs over the simulated driver.
add_executable(cuda_graph_test "${CMAKE_CURRENT_LIST_DIR}/graph_runs.cpp" "${cuda_folder}/graph.cpp"
  "${cuda_folder}/graph_recording.cpp" "${cuda_folder}/memory_cache.cpp" "${cuda_folder}/launch.cpp"
  "${cuda_folder}/cusolver.cpp" "${cuda_folder}/dynamic_library.cpp")
stave_set_cuda_test_defaults(cuda_graph_test)
set_target_properties(cuda_graph_test PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_graph_test PRIVATE stave::stave fmt::fmt ${CMAKE_DL_LIBS} GTest::gmock_main Threads::Threads)
gtest_discover_tests(cuda_graph_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

# Fourier transforms over a simulated cuFFT.
add_executable(cuda_fft_driver_test "${CMAKE_CURRENT_LIST_DIR}/fft_runs.cpp" "${cuda_folder}/fft.cpp" "${cuda_folder}/launch.cpp")
stave_set_cuda_test_defaults(cuda_fft_driver_test)
set_target_properties(cuda_fft_driver_test PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_fft_driver_test PRIVATE stave::stave fmt::fmt GTest::gtest_main Threads::Threads)
gtest_discover_tests(cuda_fft_driver_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
