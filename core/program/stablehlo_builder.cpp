#include <stave/core/program/stablehlo_builder.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

const char* hlo_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_: return "i1";
    case Dtype::uint8: return "ui8";
    case Dtype::uint16: return "ui16";
    case Dtype::uint32: return "ui32";
    case Dtype::uint64: return "ui64";
    case Dtype::int8: return "i8";
    case Dtype::int16: return "i16";
    case Dtype::int32: return "i32";
    case Dtype::int64: return "i64";
    case Dtype::float16: return "f16";
    case Dtype::bfloat16: return "bf16";
    case Dtype::float32: return "f32";
    case Dtype::complex64: return "complex<f32>";
    case Dtype::complex128: return "complex<f64>";
    default: return "f64";
  }
}

std::string listed(const Shape& numbers) {
  std::string text;
  for (const Index number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

std::string name(const HloValue& x) { return "%" + std::to_string(x.id); }
std::string names(HloSpan values) {
  std::string text;
  for (const HloValue& x : values) text += (text.empty() ? "" : ", ") + name(x);
  return text;
}
template <class List>
std::string types(const List& values) {
  std::string text;
  for (const auto& x : values) text += (text.empty() ? "" : ", ") + hlo_type(x.dtype, x.shape);
  return text;
}

/// An element as text: a decimal number if that is exact, else its bits.
std::string element(const void* bytes, Dtype dtype) {
  if (is_complex(dtype)) {
    const Dtype part = real_of(dtype);
    const auto* const first = static_cast<const char*>(bytes);
    return fmt::format("({}, {})", element(first, part), element(first + size_of(part), part));
  }
  return visit_real_dtype(dtype, [&](auto zero) -> std::string {
    using T = decltype(zero);
    T x;
    std::memcpy(&x, bytes, sizeof x);
    if constexpr (std::is_same_v<T, bool>) return x ? "true" : "false";
    else if constexpr (std::is_integral_v<T>) return fmt::format("{}", x);
    else {
      const auto number = static_cast<double>(x);
      const bool is_short = std::abs(number) < 1e6 && number * 4 == std::floor(number * 4);
      if (is_short && !(number == 0 && std::signbit(number))) return fmt::format("{:.2f}", number);
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes, sizeof x);
      return fmt::format("0x{:0{}X}", bits, 2 * sizeof x);
    }
  });
}

}  // namespace

std::string hlo_type(Dtype dtype, const Shape& shape) {
  std::string text = "tensor<";
  for (const Index length : shape) text += std::to_string(length) + "x";
  return text + hlo_dtype(dtype) + ">";
}
std::string hlo_list(const Shape& numbers) { return "[" + listed(numbers) + "]"; }
std::string hlo_array(const Shape& numbers) {
  return numbers.empty() ? "array<i64>" : "array<i64: " + listed(numbers) + ">";
}
Shape hlo_range(std::size_t first, std::size_t count) {
  Shape numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<Index>(first + i));
  return numbers;
}
Shape hlo_with(Shape shape, std::size_t axis, Index length) {
  shape[axis] = length;
  return shape;
}

Dtype HloBuilder::accumulator(Dtype dtype) const {
  if (is_complex(dtype)) return options_.wide ? complex128 : dtype;
  if (!is_float(dtype) || dtype == float64) return dtype;
  return options_.wide ? float64 : float32;
}

// ---- operations in general ----------------------------------------------------------------------

void HloBuilder::line(const std::string& text) { text_ += indent_ + text + "\n"; }
std::string HloBuilder::results(HloSpan values) const { return values.empty() ? "" : names(values) + " = "; }

HloValue HloBuilder::emit(std::string_view op, HloSpan operands, const std::string& middle, const HloType& result,
                          std::string_view brackets) {
  const HloValue found = value(result);
  const std::string list = brackets.empty() ? " " + names(operands) : brackets[0] + names(operands) + brackets[1];
  line(fmt::format("{} = stablehlo.{}{}{} : ({}) -> {}", name(found), op, list, middle, types(operands),
                   hlo_type(result.dtype, result.shape)));
  return found;
}

HloValue HloBuilder::same(std::string_view op, std::initializer_list<HloValue> operands, const HloType& result) {
  const HloValue found = value(result);
  line(fmt::format("{} = stablehlo.{} {} : {}", name(found), op, names(HloSpan(operands.begin(), operands.size())),
                   hlo_type(result.dtype, result.shape)));
  return found;
}

HloValues HloBuilder::emit_with(std::string_view op, HloSpan operands, std::initializer_list<Region> regions,
                                const std::string& attributes, const std::vector<HloType>& result_types) {
  std::string text = fmt::format("\"stablehlo.{}\"({})", op, names(operands));
  const std::string outer_text = std::exchange(text_, {}), outer_indent = indent_;
  bool is_first = true;
  for (const Region& region : regions) {
    HloValues arguments;
    std::string list;
    for (const HloType& type : region.arguments) {
      arguments.push_back(value(type));
      list += (list.empty() ? "" : ", ") + name(arguments.back()) + ": " + hlo_type(type.dtype, type.shape);
    }
    text_ = is_first ? " ({\n" : ", {\n";
    is_first = false;
    indent_ = outer_indent + "  ";
    constants_.emplace_back();
    if (!arguments.empty()) text_ += outer_indent + "^bb0(" + list + "):\n";
    const HloValues found = region.body(arguments);
    line(fmt::format("stablehlo.return {} : {}", names(found), types(found)));
    constants_.pop_back();
    text += text_ + outer_indent + "}";
  }
  text_ = outer_text;
  indent_ = outer_indent;
  HloValues found;
  for (const HloType& type : result_types) found.push_back(value(type));
  const std::string dictionary = attributes.empty() ? "" : " {" + attributes + "}";
  const char* const close = regions.size() > 0 ? ")" : "";
  line(fmt::format("{}{}{}{} : ({}) -> ({})", results(found), text, close, dictionary, types(operands), types(found)));
  return found;
}

HloValues HloBuilder::call(const std::string& function, HloSpan operands, const std::vector<HloType>& result_types) {
  HloValues found;
  for (const HloType& type : result_types) found.push_back(value(type));
  line(fmt::format("{}call @{}({}) : ({}) -> ({})", results(found), function, names(operands), types(operands),
                   types(found)));
  return found;
}

// ---- constants ----------------------------------------------------------------------------------

HloValue HloBuilder::literal(const std::string& text, const HloType& type) {
  const std::string whole = fmt::format("dense<{}> : {}", text, hlo_type(type.dtype, type.shape));
  const auto [at, is_new] = constants_.back().try_emplace(whole);
  if (is_new) {
    at->second = value(type);
    line(fmt::format("{} = stablehlo.constant {}", name(at->second), whole));
  }
  return at->second;
}

HloValue HloBuilder::number_of_bytes(const void* bytes, Dtype dtype, const Shape& shape) {
  return literal(element(bytes, dtype), {dtype, shape});
}

HloValue HloBuilder::number(const Scalar& given, Dtype dtype, const Shape& shape) {
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool is_floating = given.kind == Scalar::Kind::floating;
    T x;
    if constexpr (ComplexNumber<T>) x = static_cast<T>(given.complex());
    else if constexpr (std::is_integral_v<T>)
      x = static_cast<T>(is_floating ? static_cast<std::int64_t>(given.floating) : given.integer);
    else x = static_cast<T>(given.floating);
    return number_of_bytes(&x, dtype, shape);
  });
}

HloValue HloBuilder::constant(std::span<const Index> values, Dtype dtype) {
  std::string text;
  for (const Index x : values) text += (text.empty() ? "" : ", ") + std::to_string(x);
  return literal("[" + text + "]", {dtype, {static_cast<Index>(values.size())}});
}

HloValue HloBuilder::constant(const Tensor& given) {
  const UnderFrame past_all_handlers(nullptr);
  const Tensor here = to(given, cpu);
  if (here.size() == 0) return number(0, here.dtype(), here.shape());
  if (is_one_number(here)) return number_of_bytes(one_number(here).node().data(), here.dtype(), here.shape());
  const Tensor dense = contiguous(here);
  const auto* const bytes = static_cast<const unsigned char*>(dense.node().data());
  const std::size_t elements = static_cast<std::size_t>(dense.size()), size = size_of(dense.dtype());
  const HloType flat{dense.dtype(), {dense.size()}};
  std::string text;
  // The bits of bools have no form in hexadecimal that all versions of MLIR share.
  if (dense.dtype() == bool_ || elements <= 16) {
    for (std::size_t i = 0; i < elements; ++i) text += (i ? ", " : "") + element(bytes + i * size, dense.dtype());
    return reshape(literal("[" + text + "]", flat), dense.shape());
  }
  constexpr const char* digits = "0123456789ABCDEF";
  text.reserve(2 * elements * size + 4);
  text += "\"0x";
  for (std::size_t i = 0; i < elements * size; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return literal(text + "\"", {dense.dtype(), dense.shape()});
}

HloValue HloBuilder::iota(Dtype dtype, const Shape& shape, std::size_t axis) {
  const HloValue found = value({dtype, shape});
  line(fmt::format("{} = stablehlo.iota dim = {} : {}", name(found), axis, hlo_type(dtype, shape)));
  return found;
}

// ---- elementwise --------------------------------------------------------------------------------

HloValue HloBuilder::compare(const char* direction, const HloValue& a, const HloValue& b) {
  const HloValue found = value({bool_, a.shape});
  const char* const kind = is_inexact(a.dtype) ? "FLOAT" : is_signed(a.dtype) ? "SIGNED" : "UNSIGNED";
  line(fmt::format("{} = stablehlo.compare {}, {}, {}, {} : ({}, {}) -> {}", name(found), direction, name(a), name(b),
                   kind, hlo_type(a.dtype, a.shape), hlo_type(b.dtype, b.shape), hlo_type(bool_, a.shape)));
  return found;
}

HloValue HloBuilder::is_finite(const HloValue& x) {
  if (is_complex(x.dtype)) return both(is_finite(real(x)), is_finite(imag(x)));
  return emit("is_finite", {x}, "", {bool_, x.shape});
}

HloValue HloBuilder::abs(const HloValue& x) { return emit("abs", {x}, "", {real_of(x.dtype), x.shape}); }
HloValue HloBuilder::real(const HloValue& z) {
  return is_complex(z.dtype) ? emit("real", {z}, "", {real_of(z.dtype), z.shape}) : z;
}
HloValue HloBuilder::imag(const HloValue& z) {
  return is_complex(z.dtype) ? emit("imag", {z}, "", {real_of(z.dtype), z.shape}) : full_like(z, 0);
}
HloValue HloBuilder::conj(const HloValue& z) {
  return is_complex(z.dtype) ? complex(real(z), unary("negate", imag(z))) : z;
}
HloValue HloBuilder::complex(const HloValue& re, const HloValue& im) {
  return emit("complex", {re, im}, "", {complex_of(re.dtype), re.shape});
}
HloValue HloBuilder::times_real(const HloValue& x, const HloValue& factor) {
  if (!is_complex(x.dtype)) return multiply(x, factor);
  return complex(multiply(real(x), factor), multiply(imag(x), factor));
}

HloValue HloBuilder::select(const HloValue& condition, const HloValue& a, const HloValue& b) {
  const HloValue found = value(a.type());
  line(fmt::format("{} = stablehlo.select {}, {}, {} : {}, {}", name(found), name(condition), name(a), name(b),
                   hlo_type(bool_, condition.shape), hlo_type(a.dtype, a.shape)));
  return found;
}

HloValue HloBuilder::convert(const HloValue& x, Dtype dtype) {
  if (x.dtype == dtype) return x;
  if (is_complex(dtype) && !is_complex(x.dtype)) {
    const HloValue re = convert(x, real_of(dtype));
    return complex(re, full_like(re, 0));
  }
  return emit("convert", {x}, "", {dtype, x.shape});
}

HloValue HloBuilder::astype(const HloValue& x, Dtype dtype) {
  if (x.dtype == dtype) return x;
  if (dtype == bool_) return compare("NE", x, full_like(x, 0));
  if (!is_float(x.dtype) || is_inexact(dtype)) return convert(x, dtype);
  const HloValue from = convert(x, x.dtype == float64 ? float64 : float32);
  return visit_real_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) return from;
    else {
      using Limits = std::numeric_limits<T>;
      // The largest integer may not be a float, but the power of two above it is.
      const double above = std::ldexp(1., Limits::digits);
      HloValue whole = convert(from, dtype);
      whole = select(compare("GE", from, full_like(from, above)), full_like(whole, Limits::max()), whole);
      whole = select(compare("LE", from, full_like(from, static_cast<double>(Limits::min()))),
                     full_like(whole, Limits::min()), whole);
      return select(is_nan(from), full_like(whole, 0), whole);
    }
  });
}

HloValue HloBuilder::bitcast(const HloValue& x, Dtype dtype) {
  return emit("bitcast_convert", {x}, "", {dtype, x.shape});
}

HloValue HloBuilder::scale(const HloValue& a, const HloValue& b) {
  const HloValue zero = full_like(a, 0);
  return select(both(compare("NE", a, zero), compare("NE", b, zero)), multiply(a, b), zero);
}

// ---- layout -------------------------------------------------------------------------------------

HloValue HloBuilder::reshape(const HloValue& x, const Shape& shape) {
  return x.shape == shape ? x : emit("reshape", {x}, "", {x.dtype, shape});
}

HloValue HloBuilder::transpose(const HloValue& x, const Shape& axes) {
  Shape shape;
  for (const Index axis : axes) shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return emit("transpose", {x}, ", dims = " + hlo_list(axes), {x.dtype, shape});
}

HloValue HloBuilder::matrix_transpose(const HloValue& x) {
  Shape axes = hlo_range(0, x.shape.size());
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return transpose(x, axes);
}

HloValue HloBuilder::adjoint(const HloValue& x) { return conj(matrix_transpose(x)); }

HloValue HloBuilder::broadcast(const HloValue& x, const Shape& shape) {
  if (x.shape == shape) return x;
  return broadcast_in_dim(x, shape, hlo_range(shape.size() - x.shape.size(), x.shape.size()));
}

HloValue HloBuilder::broadcast_in_dim(const HloValue& x, const Shape& shape, const Shape& dims) {
  return emit("broadcast_in_dim", {x}, ", dims = " + hlo_list(dims), {x.dtype, shape});
}

HloValue HloBuilder::slice(const HloValue& x, const Shape& starts, const Shape& limits, const Shape& steps) {
  std::string ranges;
  Shape shape;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    ranges += fmt::format("{}{}:{}", k ? ", " : "", starts[k], limits[k]);
    if (steps[k] != 1) ranges += fmt::format(":{}", steps[k]);
    shape.push_back((limits[k] - starts[k] + steps[k] - 1) / steps[k]);
  }
  return shape == x.shape ? x : emit("slice", {x}, " [" + ranges + "]", {x.dtype, shape});
}

HloValue HloBuilder::slice(const HloValue& x, std::size_t axis, Index start, Index length) {
  Shape starts, limits, steps;
  for (std::size_t k = 0; k < x.shape.size(); ++k) {
    starts.push_back(k == axis ? start : 0);
    limits.push_back(k == axis ? start + length : x.shape[k]);
    steps.push_back(1);
  }
  return slice(x, starts, limits, steps);
}

HloValue HloBuilder::reverse(const HloValue& x, const Shape& axes) {
  if (axes.empty()) return x;
  const HloValue found = value(x.type());
  line(fmt::format("{} = stablehlo.reverse {}, dims = {} : {}", name(found), name(x), hlo_list(axes),
                   hlo_type(x.dtype, x.shape)));
  return found;
}

HloValue HloBuilder::pad(const HloValue& x, const HloValue& with, const Shape& low, const Shape& high,
                         const Shape& interior) {
  Shape shape;
  for (std::size_t k = 0; k < low.size(); ++k)
    shape.push_back(low[k] + high[k] + x.shape[k] + interior[k] * std::max<Index>(0, x.shape[k] - 1));
  return emit("pad", {x, with},
              fmt::format(", low = {}, high = {}, interior = {}", hlo_list(low), hlo_list(high), hlo_list(interior)),
              {x.dtype, shape});
}

HloValue HloBuilder::concatenate(HloSpan parts, std::size_t axis) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape;
  for (const HloValue& part : parts.subspan(1)) shape[axis] += part.shape[axis];
  return emit("concatenate", parts, fmt::format(", dim = {}", axis), {parts[0].dtype, shape});
}

HloValue HloBuilder::dynamic_slice(const HloValue& x, HloSpan starts, const Shape& sizes) {
  HloValues operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit("dynamic_slice", operands, ", sizes = " + hlo_list(sizes), {x.dtype, sizes});
}

HloValue HloBuilder::dynamic_update_slice(const HloValue& x, const HloValue& update, HloSpan starts) {
  HloValues operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return emit("dynamic_update_slice", operands, "", x.type());
}

// ---- reductions ---------------------------------------------------------------------------------

HloValues HloBuilder::reduce(HloSpan operands, HloSpan initial, const Shape& axes,
                             FunctionRef<HloValues(HloSpan)> body) {
  Shape shape;
  for (std::size_t k = 0; k < operands[0].shape.size(); ++k)
    if (std::find(axes.begin(), axes.end(), static_cast<Index>(k)) == axes.end()) shape.push_back(operands[0].shape[k]);
  std::vector<HloType> arguments, result_types;
  HloValues all_operands(operands.begin(), operands.end());
  all_operands.insert(all_operands.end(), initial.begin(), initial.end());
  for (int pass = 0; pass < 2; ++pass)
    for (const HloValue& x : operands) arguments.push_back({x.dtype, {}});
  for (const HloValue& x : operands) result_types.push_back({x.dtype, shape});
  return emit_with("reduce", all_operands, {{arguments, body}}, "dimensions = " + hlo_array(axes), result_types);
}

HloValue HloBuilder::reduce(std::string_view combine, const HloValue& x, const HloValue& initial, const Shape& axes) {
  return reduce({&x, 1}, {&initial, 1}, axes, [&](HloSpan at) { return HloValues{binary(combine, at[0], at[1])}; })[0];
}

HloValue HloBuilder::sum_along(const HloValue& x, std::size_t axis) {
  return reshape(sum(x, {static_cast<Index>(axis)}), hlo_with(x.shape, axis, 1));
}
HloValue HloBuilder::max_along(const HloValue& x, std::size_t axis) {
  return reshape(reduce("maximum", x, extreme(x.dtype, false), {static_cast<Index>(axis)}), hlo_with(x.shape, axis, 1));
}

HloValue HloBuilder::all(const HloValue& x) {
  return x.rank() == 0 ? x : reduce("and", x, number(true, bool_), hlo_range(0, x.shape.size()));
}

HloValue HloBuilder::extreme(Dtype dtype, bool largest, const Shape& shape) {
  return visit_real_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return number(largest, dtype, shape);
    else if constexpr (std::is_integral_v<T>)
      return number(largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest(), dtype, shape);
    else {
      constexpr double infinity = std::numeric_limits<double>::infinity();
      return number(largest ? infinity : -infinity, dtype, shape);
    }
  });
}

HloValue HloBuilder::matmul(const HloValue& a, const HloValue& b, bool transpose_a, bool transpose_b) {
  const std::size_t stack = a.shape.size() - 2;
  const std::size_t in_a = transpose_a ? stack : stack + 1, in_b = transpose_b ? stack + 1 : stack;
  Shape shape(std::span<const Index>(a.shape.begin(), a.shape.begin() + static_cast<std::ptrdiff_t>(stack)));
  shape.push_back(a.shape[transpose_a ? stack + 1 : stack]);
  shape.push_back(b.shape[transpose_b ? stack : stack + 1]);
  std::string middle;
  if (stack > 0) {
    const std::string axes = hlo_list(hlo_range(0, stack));
    middle = fmt::format(", batching_dims = {} x {}", axes, axes);
  }
  middle += fmt::format(", contracting_dims = [{}] x [{}]", in_a, in_b);
  if (is_inexact(a.dtype)) middle += ", precision = [HIGHEST, HIGHEST]";
  return convert(emit("dot_general", {a, b}, middle, {is_half_float(a.dtype) ? float32 : a.dtype, shape}), a.dtype);
}

// ---- checks -------------------------------------------------------------------------------------

void HloBuilder::check(FunctionRef<HloValue()> condition) {
  if (!options_.checks) return;
  const HloValue holds = all(condition());
  checked_ = checked_.id < 0 ? holds : both(checked_, holds);
}

}  // namespace stave_detail
