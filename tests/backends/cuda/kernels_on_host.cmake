# Attention, complex numbers and the drivers of linear algebra, tested alone and under the table of
# operations. They are compiled from their sources, because the library's are linked to the real
# CUDA.
set(cuda_folder "${PROJECT_SOURCE_DIR}/backends/cuda")
add_library(cuda_kernels_on_host OBJECT "${CMAKE_CURRENT_LIST_DIR}/kernels_on_host.cpp" "${CMAKE_CURRENT_LIST_DIR}/complex_on_host.cpp"
  "${cuda_folder}/linalg.cpp" "${cuda_folder}/reduce_plan.cpp" "${cuda_folder}/scan_plan.cpp"
  "${cuda_folder}/linalg_large.cpp" "${cuda_folder}/expm.cpp" "${cuda_folder}/faults.cpp" "${cuda_folder}/launch.cpp")
stave_set_cuda_test_defaults(cuda_kernels_on_host)
set_target_properties(cuda_kernels_on_host PROPERTIES LINK_LIBRARIES "" INTERFACE_LINK_LIBRARIES "")
target_link_libraries(cuda_kernels_on_host PRIVATE stave::stave LAPACKE::LAPACKE fmt::fmt)

add_executable(cuda_on_host_test "${CMAKE_CURRENT_LIST_DIR}/linalg_runs.cpp" "${CMAKE_CURRENT_LIST_DIR}/attention_runs.cpp")
stave_set_cuda_test_defaults(cuda_on_host_test)
set_target_properties(cuda_on_host_test PROPERTIES LINK_LIBRARIES "")
target_link_libraries(cuda_on_host_test PRIVATE cuda_kernels_on_host stave::stave LAPACKE::LAPACKE fmt::fmt GTest::gtest_main
  Threads::Threads)
gtest_discover_tests(cuda_on_host_test TEST_PREFIX cuda. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)

add_executable(cuda_table_on_host "${PROJECT_SOURCE_DIR}/tests/table/main.cpp")
stave_set_cuda_test_defaults(cuda_table_on_host)
set_target_properties(cuda_table_on_host PROPERTIES LINK_LIBRARIES "")
target_compile_definitions(cuda_table_on_host PRIVATE STAVE_KERNELS_ON_HOST)
target_link_libraries(cuda_table_on_host PRIVATE cuda_kernels_on_host table_rows stave::stave LAPACKE::LAPACKE fmt::fmt Threads::Threads)
foreach(op IN ITEMS solve inv triangular_solve lstsq pinv cholesky lu qr eigh eigvalsh svd svdvals det slogdet matrix_rank expm
    complex_solve complex_inv complex_triangular_solve complex_triangular_solve_transposed complex_lstsq complex_pinv complex_cholesky
    complex_lu complex_qr complex_eigh complex_eigvalsh complex_svd complex_svdvals complex_det complex_slogdet complex_expm complex_polar
    scaled_dot_product_attention attention_gradient conj complex complex_sqrt complex_rsqrt complex_reciprocal complex_exp
    complex_expm1 complex_log complex_log2 complex_sin complex_cos complex_sinh complex_cosh complex_tanh complex_sigmoid complex_divide
    complex_scale complex_pow complex_prod complex_cumulative_prod complex_linear_recurrence)
  add_test(NAME cuda.table_on_host.${op} COMMAND cuda_table_on_host --device separate --op ${op})
  set_tests_properties(cuda.table_on_host.${op} PROPERTIES LABELS operations)
endforeach()
