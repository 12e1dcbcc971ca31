// The members of Tensor that read values or throw errors, and the functions of read_storage.h.

#include <stave/core/tensor/tensor.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/core/tensor/storage.h>

namespace stave {

using stave_detail::fail;

void Tensor::throw_undefined() {
  fail<TransformError>("an empty Tensor is used: it was default-constructed or moved from");
}

void Tensor::throw_no_memory(const char* operation, Dtype dtype) const {
  stave_detail::fail_memory(operation, dtype, shape(), cpu);
}

Index Tensor::shape(Index axis) const {
  return shape()[static_cast<std::size_t>(normalize_axis(axis, rank(), "shape"))];
}

namespace {

// Returns x in a contiguous layout. The copy is made outside all handlers, since a read only
// observes a value and is not part of the program.
Tensor contiguous_unobserved(const Tensor& x) {
  stave_detail::UnderFrame below_all(nullptr);
  return contiguous(x);
}

// Converts as astype does: a float becomes the nearest integer towards 0 in the range of the type,
// NaN becomes 0.
template <class To, class From>
To convert(From from) {
  if constexpr (is_half<From>) {
    return convert<To>(static_cast<float>(from));
  } else if constexpr (ComplexNumber<From> && std::is_same_v<To, bool>) {
    return !(from == From(0));
  } else if constexpr (ComplexNumber<From> && !ComplexNumber<To>) {
    fail<DtypeError>("item: the tensor is {}, and a real number was requested: take real(x), imag(x) or abs(x)",
                     dtype_of<From>());
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
    if (std::isnan(from)) return 0;
    if (from <= low) return std::numeric_limits<To>::min();
    if (from >= high) return std::numeric_limits<To>::max();
    return static_cast<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

void check_dtype(const Tensor& x, Dtype dtype, const char* what) {
  if (x.dtype() != dtype)
    fail<DtypeError>("{}: the tensor is {} {}, not {}: convert it with astype, or read it with its own type", what,
                     x.dtype(), x.shape(), dtype);
}

// Throws TransformError if a transform differentiates the value, or the batch of lanes that
// provides its storage: the read would lose the derivative.
void check_reads_no_derivative(const Tensor& x, const char* what, const char* remedy) {
  check_not_differentiated(x.node(), what, remedy);
  if (const Tensor* lanes = stave_detail::lanes_of(x)) check_reads_no_derivative(*lanes, what, remedy);
}

}  // namespace

Tensor ReadStorage::unhandled() const {
  for (const Note* note = value.node().notes; note; note = note->next)
    if (note->live() && note->physical())
      fail<TransformError>("a value of {} ({} {}) is read on the host outside of {}: each lane has its own value",
                           note->owner->name, value.dtype(), value.shape(), note->owner->name);
  check_not_escaped(value.node());  // throws if the value's transform has ended
  return value;
}

void Tensor::stave_detail_item(Dtype dtype, void* value) const {
  if (size() != 1) fail<ShapeError>("item: the tensor of shape {} has {} elements, not one", shape(), size());
  stave_detail::begin_read(device());
  const Tensor x = stave_detail::read_value(*this);
  visit_dtype(x.dtype(), [&](auto from) {
    read_storage(x.node().memory(), &from, x.node().data(), sizeof from);
    visit_dtype(dtype, [&](auto to) {
      to = convert<decltype(to)>(from);
      std::memcpy(value, &to, sizeof to);
    });
  });
  stave_detail::end_read(device());
}

void Tensor::stave_detail_read(Dtype dtype, void* values) const {
  check_dtype(*this, dtype, "to_vector");
  stave_detail::begin_read(device());
  const Tensor x = contiguous_unobserved(stave_detail::read_value(*this));
  check_reads_no_derivative(*this, "to_vector", "write stop_gradient(x).to_vector() if a constant is meant");
  const auto bytes = static_cast<std::size_t>(x.size()) * size_of(dtype);
  read_storage(x.node().memory(), values, x.node().data(), bytes);
  stave_detail::end_read(device());
}

const void* Tensor::stave_detail_data(Dtype dtype) const {
  check_dtype(*this, dtype, "data");
  if (device() != cpu)
    fail<DeviceError>("data: the tensor lives on {}: use data of to(x, cpu), or to_vector, which copies",
                      device().str());
  if (!is_contiguous())
    fail<ShapeError>(
        "data: the tensor of shape {} is not contiguous (strides {}): use data of contiguous(x), or to_vector", shape(),
        strides());
  return stave_detail::read_in_place(*this, "data", "write stop_gradient(x).data() if a constant is meant")
      .node()
      .data();
}

Tensor::operator bool() const {
  if (size() != 1)
    fail<ShapeError>(
        "bool: the truth of a tensor of shape {} is ambiguous: use all(x) or any(x); to compare tensors, "
        "array_equal(a, b) or allclose(a, b)",
        shape());
  return item<bool>();
}

}  // namespace stave

namespace stave_detail {

Tensor read_value(const Tensor& x, bool keep_alive) {
  const bool stored = static_cast<bool>(x.node().storage);
  if (stored) check_not_escaped(x.node());
  Tensor found = stored ? x : perform(ReadStorage{x, keep_alive});
  if (found.node().notes) notify_read(found);
  return found;
}

Tensor read_in_place(const Tensor& x, const char* what, const char* remedy) {
  check_reads_no_derivative(x, what, remedy);
  if (!x.node().storage) return read_value(x, true);
  notify_read(x);
  return x;
}

}  // namespace stave_detail
