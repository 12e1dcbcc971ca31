# Bodies of kernels with a thread for each lane, always under the thread sanitizer.
add_executable(cuda_races "${CMAKE_CURRENT_LIST_DIR}/races.cpp")
stave_set_cuda_test_defaults(cuda_races)
set_target_properties(cuda_races PROPERTIES LINK_LIBRARIES "")
target_compile_options(cuda_races PRIVATE -fsanitize=thread)
target_link_options(cuda_races PRIVATE -fsanitize=thread)
target_link_libraries(cuda_races PRIVATE stave::stave fmt::fmt Threads::Threads)
add_test(NAME cuda.races COMMAND cuda_races)
set_tests_properties(cuda.races PROPERTIES LABELS threads TIMEOUT 600)
