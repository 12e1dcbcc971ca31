// The kernels that region_texts.cpp wrote, as functions of the host.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace stave_test {

/// With the addresses of a kernel's arguments, as a launch has them.
using RegionKernel = void (*)(void* const* arguments);
extern const std::vector<RegionKernel> region_kernels;  // in the order of regions_of_tests()

template <class... Parameters, std::size_t... i>
void call(void (*kernel)(Parameters...), void* const* arguments, std::index_sequence<i...>) {
  kernel(*static_cast<std::remove_cv_t<Parameters>*>(arguments[i])...);
}
template <class... Parameters>
void call(void (*kernel)(Parameters...), void* const* arguments) {
  call(kernel, arguments, std::index_sequence_for<Parameters...>());
}
template <auto kernel>
void on_arguments(void* const* arguments) {
  call(kernel, arguments);
}

}  // namespace stave_test
