#include <stave/core/io/elements.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/ops/bools.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

constexpr bool is_native = std::endian::native == std::endian::little;

Tensor made_of(Dtype dtype, const Shape& shape, StoragePtr storage, std::uint64_t offset) {
  const auto elements = static_cast<Index>(offset / size_of(dtype));
  return Tensor(NodePtr(new Node(dtype, cpu, shape, contiguous_strides(shape), std::move(storage), elements)));
}

}  // namespace

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

Tensor read_elements(Dtype dtype, const Shape& shape, const char* operation,
                     FunctionRef<void(char*, std::uint64_t)> read) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
  Tensor x = made_of(dtype, shape, allocate_storage(cpu, dtype, shape, operation), 0);
  char* const to = static_cast<char*>(x.node().data());
  read(to, bytes);
  if (!is_native) reverse_bytes(to, bytes, size_of(dtype));
  if (dtype == bool_) make_bools(to, bytes);
  return x;
}

Tensor mapped_elements(const StoragePtr& mapping, std::uint64_t offset, Dtype dtype, const Shape& shape,
                       const char* operation) {
  const char* const data = static_cast<const char*>(mapping->data) + offset;
  const std::uint64_t all = static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
  const bool as_it_is = is_native && offset % size_of(dtype) == 0 && (dtype != bool_ || are_bools(data, all));
  if (as_it_is) return made_of(dtype, shape, mapping, offset);
  return read_elements(dtype, shape, operation, [&](char* to, std::uint64_t bytes) { std::copy_n(data, bytes, to); });
}

void reverse_bytes(char* data, std::uint64_t bytes, std::size_t size) {
  for (char* at = data; at != data + bytes; at += size) std::reverse(at, at + size);
}

}  // namespace stave_detail
