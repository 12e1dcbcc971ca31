#include <stave/core/io/elements.h>

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include <stave/core/effects/effect.h>

namespace stave_detail {

std::optional<std::uint64_t> bytes_of(Dtype dtype, const Shape& shape) {
  std::uint64_t bytes = size_of(dtype);
  bool overflow = false, empty = false;
  for (const Index length : shape) {
    empty |= length == 0;
    overflow |= __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(std::max<Index>(length, 1)), &bytes);
  }
  overflow |= bytes > static_cast<std::uint64_t>(std::numeric_limits<Index>::max());
  if (overflow) return std::nullopt;
  return empty ? 0 : bytes;
}

void with_elements(const Tensor& x, FunctionRef<void(std::span<const char>)> write) {
  const UnderFrame observing(x.node().storage ? nullptr : current);
  visit_dtype(x.dtype(), [&](auto zero) {
    const auto values = x.to_vector<decltype(zero)>();
    if constexpr (std::is_same_v<decltype(zero), bool>) {
      const std::vector<char> bytes(values.begin(), values.end());
      write(bytes);
    } else {
      write({reinterpret_cast<const char*>(values.data()), values.size() * sizeof zero});
    }
  });
}

void reverse_bytes(char* data, std::uint64_t bytes, std::size_t size) {
  for (char* at = data; at != data + bytes; at += size) std::reverse(at, at + size);
}

}  // namespace stave_detail
