// Calls the kernels that region_texts.cpp writes; included by the generated source.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <stave/backends/cuda/kernels/region.cuh>

#include "cuda/region_kernels.h"

namespace stave_test {

template <class... Parameters, std::size_t... i>
void call(void (*kernel)(Parameters...), void* const* arguments, std::index_sequence<i...>) {
  kernel(*static_cast<std::remove_cv_t<Parameters>*>(arguments[i])...);
}
template <class... Parameters>
void call(void (*kernel)(Parameters...), void* const* arguments) {
  call(kernel, arguments, std::index_sequence_for<Parameters...>());
}
template <auto kernel>
void on_arguments(std::uint64_t thread, void* const* arguments) {
  stave_cuda::region_thread = thread;
  call(kernel, arguments);
}

}  // namespace stave_test
