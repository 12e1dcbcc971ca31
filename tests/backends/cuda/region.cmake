# Kernels of regions. A program writes their source, and the host's compiler compiles it here.
add_library(cuda_random_regions OBJECT "${CMAKE_CURRENT_LIST_DIR}/random_regions.cpp")
stave_set_cuda_test_defaults(cuda_random_regions)
set_target_properties(cuda_random_regions PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_random_regions PRIVATE stave::stave)

add_executable(cuda_region_texts "${CMAKE_CURRENT_LIST_DIR}/region_texts.cpp")
stave_set_cuda_test_defaults(cuda_region_texts)
target_link_libraries(cuda_region_texts PRIVATE cuda_random_regions fmt::fmt)
set(region_kernels "${CMAKE_CURRENT_BINARY_DIR}/region_kernels.cpp")
add_custom_command(OUTPUT "${region_kernels}" COMMAND cuda_region_texts "${region_kernels}" DEPENDS cuda_region_texts
  COMMENT "Writing kernels of regions")
add_library(cuda_region_kernels OBJECT "${region_kernels}")
stave_set_cuda_test_defaults(cuda_region_kernels)
set_target_properties(cuda_region_kernels PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_region_kernels PRIVATE stave::stave)
target_compile_options(cuda_region_kernels PRIVATE -Wno-unused)  # inputs that no step reads

add_executable(cuda_region_test "${CMAKE_CURRENT_LIST_DIR}/region_runs.cpp")
stave_set_cuda_test_defaults(cuda_region_test)
target_link_libraries(cuda_region_test PRIVATE cuda_random_regions cuda_region_kernels)
gtest_discover_tests(cuda_region_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

# The driver of regions is compiled from its sources, because the library's is linked to the real
# CUDA.
set(cuda_folder "${PROJECT_SOURCE_DIR}/backends/cuda")
add_executable(cuda_fused_test "${CMAKE_CURRENT_LIST_DIR}/fused_runs.cpp" "${CMAKE_CURRENT_LIST_DIR}/fused_on_host.cpp"
  "${cuda_folder}/fused.cpp" "${cuda_folder}/region_kernels.cpp" "${cuda_folder}/region_plan.cpp" "${cuda_folder}/region_text.cpp"
  "${cuda_folder}/code_cache.cpp" "${cuda_folder}/driver.cpp" "${cuda_folder}/layout.cpp" "${cuda_folder}/launch.cpp")
stave_set_cuda_test_defaults(cuda_fused_test)
set_target_properties(cuda_fused_test PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_fused_test PRIVATE cuda_random_regions cuda_region_kernels stave::stave fmt::fmt GTest::gmock_main
  Threads::Threads)
gtest_discover_tests(cuda_fused_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

foreach(test IN ITEMS nvrtc_test gpu_runs)
  target_link_libraries(cuda_${test} PRIVATE cuda_random_regions)
endforeach()
