# Kernels of regions: texts that a program writes, compiled here by the host's compiler.
add_executable(cuda_region_texts "${CMAKE_CURRENT_LIST_DIR}/region_texts.cpp")
stave_set_cuda_test_defaults(cuda_region_texts)
target_link_libraries(cuda_region_texts PRIVATE fmt::fmt)
set(region_kernels "${CMAKE_CURRENT_BINARY_DIR}/region_kernels.cpp")
add_custom_command(OUTPUT "${region_kernels}" COMMAND cuda_region_texts "${region_kernels}" DEPENDS cuda_region_texts
  COMMENT "Writing kernels of regions")
set_property(SOURCE "${region_kernels}" APPEND PROPERTY COMPILE_OPTIONS -Wno-unused)  # inputs that no step reads

add_executable(cuda_region_test "${CMAKE_CURRENT_LIST_DIR}/region_runs.cpp" "${region_kernels}")
stave_set_cuda_test_defaults(cuda_region_test)
gtest_discover_tests(cuda_region_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
