// Functions that make tensors from host data or by a formula, such as full, arange and eye; and
// astype.

#include <stave/core/ops/create.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/bools.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/storage.h>

namespace stave {

using namespace stave_detail;

// ---- operation records ----------------------------------------------------------------------

constinit const Op op_full{
    .id = OpId::full,
    .name = "full",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const auto& full = call.as<FullAttributes>();
          outputs.push_back({full.shape, full.dtype});
        },
    .derivative = Derivative::zero,
    .flops = no_flops,
};

constinit const Op op_iota{
    .id = OpId::iota,
    .name = "iota",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const auto& iota = call.as<IotaAttributes>();
          outputs.push_back({Shape(iota.length), iota.dtype});
        },
    .derivative = Derivative::zero,
    .flops = no_flops,
};

namespace {

void infer_like_input(const Call& call, SmallVector<Abstract, 1>& outputs) {
  outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
}

}  // namespace

// astype is linear: between floats the cotangent is cast back, and from complex numbers to floats
// it is the real part. A cast to or from integers has derivative zero, because integers carry
// neither tangents nor cotangents.
constinit const Op op_astype{
    .id = OpId::astype,
    .name = "astype",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Dtype from = call.input(0).dtype(), to = call.as<DtypeAttributes>().dtype;
          if (is_complex(from) && !is_complex(to) && to != bool_)
            fail<DtypeError>("astype: {} has no room for the imaginary part of {}: take real(x), imag(x) or abs(x)", to,
                             from);
          outputs.push_back({call.input(0).shape(), to});
        },
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return astype(is_complex(c.dtype(0)) ? c.ct() : real(c.ct()), c.dtype(0)); },
    .batch = batch_in_front,
    .depends = depends_elementwise,
    .is_cheap_arithmetic = true,
    .flops = no_flops,
};

constinit const Op op_stop_gradient{
    .id = OpId::stop_gradient,
    .name = "stop_gradient",
    .takes_complex = true,
    .infer = infer_like_input,
    .derivative = Derivative::zero,
    .batch = batch_in_front,
    .depends = depends_elementwise,
    .view = [](const Call& call) { return view_of(call.input(0)); },
    .flops = no_flops,
};

constinit const Op op_copy{
    .id = OpId::copy,
    .name = "copy",
    .takes_complex = true,
    .infer = infer_like_input,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return c.ct(); },
    .batch = batch_in_front,
    .depends = depends_elementwise,
    .flops = no_flops,
};

Tensor astype(const Tensor& x, Dtype dtype) {
  if (require_defined(x, "astype").dtype() == dtype) return x;
  return apply(op_astype, {x}, make_intrusive<DtypeAttributes>(dtype));
}

DefaultDtype::DefaultDtype(Dtype dtype) : dtype_(dtype) {
  if (!is_float(dtype)) fail<DtypeError>("DefaultDtype: {} is not a floating dtype", dtype);
}

Tensor stop_gradient(const Tensor& x) { return apply(op_stop_gradient, {x}); }

// ---- numbers --------------------------------------------------------------------------------

namespace {

// Returns the common dtype of C++ numbers. For two integers it is uint64 if one of them fits only
// in uint64.
Dtype dtype_together(Dtype a, Dtype b) {
  if (is_integer(a) && is_integer(b) && (a == uint64 || b == uint64)) return uint64;
  return promote(a, b);
}

}  // namespace

std::string Scalar::str() const {
  if (kind == Kind::complex) return fmt::format("{}{:+}j", floating, imaginary);
  if (kind == Kind::floating) return fmt::format("{}", floating);
  return beyond_int64 ? fmt::format("{}", static_cast<std::uint64_t>(integer)) : fmt::format("{}", integer);
}

Dtype Scalar::alone() const {
  if (kind == Kind::complex) return complex_of(default_dtype());
  if (kind != Kind::integer) return kind == Kind::floating ? default_dtype() : bool_;
  if (beyond_int64) return uint64;
  return std::in_range<std::int32_t>(integer) ? int32 : int64;
}

Dtype common_dtype(std::initializer_list<Scalar> numbers) {
  Dtype dtype = bool_;
  for (const Scalar& number : numbers) dtype = dtype_together(dtype, number.alone());
  return dtype;
}

Dtype Scalar::with(Dtype other) const {
  if (kind == Kind::boolean) return other;
  if (kind == Kind::integer) return other == bool_ ? int32 : other;
  const Dtype inexact = is_inexact(other) ? other : default_dtype();
  return kind == Kind::complex ? complex_of(inexact) : inexact;
}

}  // namespace stave

namespace stave_detail {

Scalar least_of(Dtype dtype) {
  return visit_real_dtype(dtype, [](auto zero) -> Scalar {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) return -HUGE_VAL;
    else return std::numeric_limits<T>::lowest();
  });
}
Scalar greatest_of(Dtype dtype) {
  return visit_real_dtype(dtype, [](auto zero) -> Scalar {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) return HUGE_VAL;
    else return std::numeric_limits<T>::max();
  });
}

Tensor floating(const Tensor& x) { return is_inexact(x.dtype()) ? x : astype(x, default_dtype()); }

Tensor widened(const Tensor& x) {
  if (is_inexact(x.dtype()) || size_of(x.dtype()) >= 4) return x;
  return astype(x, is_unsigned(x.dtype()) ? uint32 : int32);
}

namespace {

// Returns whether an integer dtype can hold the number. A floating number must have no fraction.
bool holds(Dtype dtype, const Scalar& value) {
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
      return false;  // Callers pass integer dtypes only.
    } else if (value.kind == Scalar::Kind::floating) {
      // The first number above the range.
      const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      const bool in_range = value.floating < end && value.floating >= (std::is_signed_v<T> ? -end : 0.0);
      return in_range && value.floating == std::trunc(value.floating);
    } else {
      return value.beyond_int64 ? std::is_same_v<T, std::uint64_t> : std::in_range<T>(value.integer);
    }
  });
}

}  // namespace

Scalar converted_number(Scalar value, Dtype dtype) {
  const bool floating = value.kind == Scalar::Kind::floating;
  if (value.kind == Scalar::Kind::complex) {
    if (dtype == bool_) return value.floating != 0 || value.imaginary != 0;
    if (is_complex(dtype)) return value;
    fail<DtypeError>("the complex number {} does not fit {}: give a complex dtype", value.str(), dtype);
  }
  if (dtype == bool_) return floating ? value.floating != 0 : value.integer != 0;
  if (!is_integer(dtype)) return value;
  if (!holds(dtype, value)) fail<DtypeError>("the number {} does not fit {}: give a wider dtype", value.str(), dtype);
  if (!floating) return value;
  return dtype == uint64 ? Scalar(static_cast<std::uint64_t>(value.floating))
                         : Scalar(static_cast<std::int64_t>(value.floating));
}

namespace {

Tensor new_tensor(Dtype dtype, const Shape& shape, Device device, const char* operation) {
  return Tensor(NodePtr(new Node(dtype, device, shape, allocate_storage(device, dtype, shape, operation))));
}

}  // namespace

void write_number(void* to, Scalar value, Dtype dtype) {
  if (dtype == float32 && value.kind != Scalar::Kind::complex) [[likely]] {  // the most common case
    const auto number = static_cast<float>(value.floating);
    std::memcpy(to, &number, sizeof number);
    return;
  }
  value = converted_number(value, dtype);
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T number;
    if constexpr (std::is_integral_v<T>) number = static_cast<T>(value.integer);
    else if constexpr (ComplexNumber<T>) number = static_cast<T>(value.complex());
    else number = static_cast<T>(value.floating);
    std::memcpy(to, &number, sizeof number);
  });
}

Tensor constant(Scalar value, Dtype dtype, const Shape& shape, Device device) {
  // Throws if there is no backend for the device.
  if (device != cpu) static_cast<void>(backend_of(device));
  StoragePtr storage = device == cpu ? allocate_storage(device, dtype, {}, "full") : host_constant_storage();
  NodePtr node(new Node(dtype, device, shape, std::move(storage)));
  for (Index& stride : node->strides) stride = 0;
  write_number(node->data(), value, dtype);
  return Tensor(std::move(node));
}

Tensor view_of(const Tensor& x, Shape shape, Strides strides, Index offset) {
  const Node& node = x.node();
  return Tensor(NodePtr(new Node(node.dtype, node.device, std::move(shape), std::move(strides), node.storage, offset)));
}

}  // namespace stave_detail

namespace stave {

Tensor Tensor::from_scalar(Scalar value) { return constant(value, value.alone(), {}, cpu); }

// ---- tensors of host data -------------------------------------------------------------------

namespace {

void infer_list(const NestedList& list, std::size_t depth, Shape& shape, Dtype& dtype) {
  if (!list.is_list()) {
    if (depth != shape.size())
      fail<ShapeError>("tensor: ragged list: found a number, expected a list of {}", shape[depth]);
    const Dtype alone = list.scalar().alone();
    dtype = dtype_together(dtype, list.wide() && alone == int32 ? int64 : alone);
    return;
  }
  const auto length = static_cast<Index>(list.entries().size());
  if (depth == shape.size()) fail<ShapeError>("tensor: ragged list: found a list, expected a number");
  if (length != shape[depth])
    fail<ShapeError>("tensor: ragged list: {} entries where the first list of axis {} has {}", length, depth,
                     shape[depth]);
  for (const NestedList& entry : list.entries()) infer_list(entry, depth + 1, shape, dtype);
}

void write_list(const NestedList& list, Dtype dtype, char*& to) {
  if (list.is_list()) {
    for (const NestedList& entry : list.entries()) write_list(entry, dtype, to);
    return;
  }
  write_number(to, list.scalar(), dtype);
  to += size_of(dtype);
}

Tensor tensor_of(const NestedList& list, const Dtype* dtype, Device device = cpu) {
  Shape shape;
  for (const NestedList* first = &list; first->is_list(); first = &first->entries()[0]) {
    shape.push_back(static_cast<Index>(first->entries().size()));
    if (first->entries().empty()) break;
  }
  Dtype inferred = shape.elements() == 0 ? default_dtype() : bool_;
  infer_list(list, 0, shape, inferred);
  Tensor x = new_tensor(dtype ? *dtype : inferred, shape, cpu, "tensor");
  char* to = static_cast<char*>(x.node().data());
  write_list(list, x.dtype(), to);
  return device == cpu ? x : from_bytes(x.node().data(), static_cast<std::size_t>(x.size()), x.dtype(), shape, device);
}

}  // namespace

Tensor tensor(std::initializer_list<NestedList> entries) {
  return naming("tensor", [&] { return tensor_of(NestedList(entries), nullptr); });
}
Tensor tensor(std::initializer_list<NestedList> entries, Dtype dtype, Device device) {
  return naming("tensor", [&] { return tensor_of(NestedList(entries), &dtype, device); });
}
Tensor tensor(Scalar value) { return constant(value, value.alone(), {}, cpu); }
Tensor tensor(Scalar value, Dtype dtype, Device device) {
  return naming("tensor", [&] { return constant(value, dtype, {}, device); });
}

Tensor from_bytes(const void* data, std::size_t count, Dtype dtype, const Shape& shape, Device device) {
  for (Index length : shape)
    if (length < 0) fail<ShapeError>("from: shape {} has a negative length", shape);
  if (static_cast<Index>(count) != shape.elements())
    fail<ShapeError>("from: {} values do not fill shape {}, which holds {}", count, shape, shape.elements());
  Tensor x = new_tensor(dtype, shape, device, "from");
  const auto* const bytes = static_cast<const char*>(data);
  std::vector<char> bools;
  if (dtype == bool_ && !are_bools(bytes, count)) {
    bools.assign(bytes, bytes + count);
    make_bools(bools.data(), count);
    data = bools.data();
  }
  write_storage(device, x.node().data(), data, count * size_of(dtype));
  return x;
}

Tensor from(const std::vector<bool>& values, Device device) {
  const std::vector<std::uint8_t> bytes(values.begin(), values.end());
  return from_bytes(bytes.data(), bytes.size(), bool_, Shape(bytes.size()), device);
}

// ---- tensors by a formula -------------------------------------------------------------------

Tensor full(const Shape& shape, Scalar value, Dtype dtype, Device device) {
  static_cast<void>(backend_of(device));
  for (Index length : shape)
    if (length < 0) fail<ShapeError>("full: shape {} has a negative length", shape);
  value = naming("full", [&] { return converted_number(value, dtype); });
  return apply(op_full, {}, make_intrusive<FullAttributes>(shape, dtype, value, device));
}
Tensor full(const Shape& shape, Scalar value) { return full(shape, value, value.alone()); }
Tensor zeros(const Shape& shape, Dtype dtype, Device device) {
  return named("zeros", [&] { return full(shape, 0, dtype, device); });
}
Tensor ones(const Shape& shape, Dtype dtype, Device device) {
  return named("ones", [&] { return full(shape, 1, dtype, device); });
}
namespace {

Tensor full_like(const char* function, const Tensor& x, Scalar value, std::optional<Dtype> dtype = {}) {
  require_defined(x, function);
  return named(function, [&] { return full(x.shape(), value, dtype.value_or(x.dtype()), x.device()); });
}

}  // namespace

Tensor zeros_like(const Tensor& x) { return full_like("zeros_like", x, 0); }
Tensor zeros_like(const Tensor& x, Dtype dtype) { return full_like("zeros_like", x, 0, dtype); }
Tensor ones_like(const Tensor& x) { return full_like("ones_like", x, 1); }
Tensor ones_like(const Tensor& x, Dtype dtype) { return full_like("ones_like", x, 1, dtype); }
Tensor full_like(const Tensor& x, Scalar value) { return full_like("full_like", x, value); }
Tensor full_like(const Tensor& x, Scalar value, Dtype dtype) { return full_like("full_like", x, value, dtype); }

namespace {

__extension__ typedef __int128 Wide;  // holds the difference of any two 64-bit numbers
Wide wide(const Scalar& number) {
  return number.beyond_int64 ? Wide{static_cast<std::uint64_t>(number.integer)} : Wide{number.integer};
}

// Returns how many of the numbers start, start + step, ... come before stop.
Index count_of_range(Scalar start, Scalar stop, Scalar step) {
  const auto floating = [](const Scalar& number) { return number.kind == Scalar::Kind::floating; };
  if (!floating(start) && !floating(stop) && !floating(step)) {
    const bool is_ascending = wide(step) > 0;
    const Wide distance = is_ascending ? wide(stop) - wide(start) : wide(start) - wide(stop);
    if (distance <= 0) return 0;
    const Wide before_last = (distance - 1) / (is_ascending ? wide(step) : -wide(step));
    return Shape(static_cast<Index>(std::min(before_last, Wide{1} << 62)) + 1)
        .elements();  // Throws if there are too many elements.
  }
  const double length = std::ceil((stop.floating - start.floating) / step.floating);
  if (!std::isfinite(length))
    fail<ShapeError>("arange: from {} to {} by {} has no end", start.floating, stop.floating, step.floating);
  return length <= 0 ? 0 : Shape(static_cast<Index>(std::min(length, 0x1p62))).elements();
}

// Returns the number converted to an integer dtype; a float is truncated.
Scalar truncated(Scalar number, Dtype dtype) {
  if (number.kind == Scalar::Kind::floating) number = std::trunc(number.floating);
  return converted_number(number, dtype);
}

// Throws if the last of the `count` numbers start, start + step, ... does not fit the dtype. If the
// first and the last number fit, so do all between them.
void check_last(Scalar start, Scalar step, Index count, Dtype dtype) {
  if (start.kind == Scalar::Kind::floating || step.kind == Scalar::Kind::floating) {
    converted_number(std::trunc(start.floating + static_cast<double>(count - 1) * step.floating), dtype);
    return;
  }
  const Wide last = wide(start) + Wide{count - 1} * wide(step);
  converted_number(last < 0 ? Scalar(static_cast<std::int64_t>(last)) : Scalar(static_cast<std::uint64_t>(last)),
                   dtype);
}

}  // namespace

Tensor arange(Scalar start, Scalar stop, Scalar step, Dtype dtype, Device device) {
  static_cast<void>(backend_of(device));
  if (step.floating == 0) fail<ShapeError>("arange: step is 0");
  if (dtype == bool_) fail<DtypeError>("arange: bool has no ranges: use an integer dtype");
  for (const Scalar& number : {start, stop, step})
    if (number.kind == Scalar::Kind::complex || is_complex(dtype))
      fail<DtypeError>("arange: complex numbers have no order, and so no ranges");
  const Index count = naming("arange", [&] { return count_of_range(start, stop, step); });
  if (is_integer(dtype))
    naming("arange", [&] {
      const Scalar first = count > 0 ? truncated(start, dtype) : Scalar(0);
      if (count > 0) check_last(start, step, count, dtype);
      start = first;
      step = count > 1 ? truncated(step, int64) : Scalar(1);
    });
  return apply(op_iota, {}, make_intrusive<IotaAttributes>(count, dtype, start, step, device));
}
Tensor arange(Scalar start, Scalar stop, Scalar step) {
  const Dtype dtype = common_dtype({start, stop, step, 0});
  return arange(start, stop, step, dtype);
}
Tensor arange(Scalar stop) { return arange(0, stop); }

namespace {

// The numbers 0, 1, ..., count - 1 on `device`, with the dtype of arange(count).
Tensor positions(Index count, Device device) { return arange(0, count, 1, positions_dtype(count), device); }

}  // namespace

Tensor linspace(double start, double stop, Index count, Dtype dtype, Device device, bool endpoint) {
  static_cast<void>(backend_of(device));
  if (count < 0) fail<ShapeError>("linspace: count is {}", count);
  if (is_complex(dtype)) return astype(linspace(start, stop, count, real_of(dtype), device, endpoint), dtype);
  if (!is_float(dtype)) fail<DtypeError>("linspace: {} is not a floating dtype", dtype);
  const Index steps = endpoint ? count - 1 : count;
  const double step = steps > 0 ? (stop - start) / static_cast<double>(steps) : 0;
  Tensor x = apply(op_iota, {}, make_intrusive<IotaAttributes>(count, dtype, start, step, device));
  // The last element is exactly `stop`, regardless of rounding.
  if (!endpoint || count <= 1) return x;
  return where(positions(count, device) == count - 1, constant(stop, dtype, {}, device), x);
}

namespace {

// Returns, for each row, the column that the k-th diagonal has there: [rows, 1]. (The diagonal is k
// columns to the right of the main one.) A k beyond the matrix is clamped, which changes no result.
Tensor diagonal_columns(Index rows, Index columns, Index k, Device device) {
  const Index start = std::clamp(k, -rows, columns);
  return expand_dims(arange(start, start + rows, 1, positions_dtype(rows + columns), device), 1);
}

void check_matrix(const Tensor& x, const char* operation) {
  if (x.rank() < 2) fail<ShapeError>("{}: shape {} has no matrices: at least 2 axes are needed", operation, x.shape());
}

}  // namespace

Tensor eye(Index rows, Index columns, Index k, Dtype dtype, Device device) {
  static_cast<void>(backend_of(device));
  if (rows < 0 || columns < 0) fail<ShapeError>("eye: negative size {} x {}", rows, columns);
  // Throws if there are too many elements.
  naming("eye", [&] { return Shape(rows, columns).elements(); });
  return named("eye",
               [&] { return astype(positions(columns, device) == diagonal_columns(rows, columns, k, device), dtype); });
}
Tensor eye(Index rows, Dtype dtype, Device device) { return eye(rows, rows, 0, dtype, device); }

Tensor tril(const Tensor& x, Index k) {
  return named(
      "tril",
      [&] {
        check_matrix(x, "tril");
        const Tensor bound = diagonal_columns(x.shape(-2), x.shape(-1), k, x.device());
        // `false` is converted to a zero of x's dtype.
        return where(positions(x.shape(-1), x.device()) <= bound, x, false);
      },
      x);
}
Tensor triu(const Tensor& x, Index k) {
  return named(
      "triu",
      [&] {
        check_matrix(x, "triu");
        const Tensor bound = diagonal_columns(x.shape(-2), x.shape(-1), k, x.device());
        return where(positions(x.shape(-1), x.device()) >= bound, x, false);
      },
      x);
}

}  // namespace stave
