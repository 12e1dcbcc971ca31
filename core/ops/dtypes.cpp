// Questions about dtypes.

#include <stave/core/ops/dtypes.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

FloatInfo finfo(Dtype dtype) {
  if (!is_inexact(dtype)) fail<DtypeError>("finfo: {} is neither floating nor complex: use iinfo for integers", dtype);
  const Dtype part = real_of(dtype);
  const double smallest_normal = part == float64   ? std::numeric_limits<double>::min()
                                 : part == float16 ? 0x1p-14
                                                   : std::numeric_limits<float>::min();
  // The largest number is (2 - eps) 2^e, where 2^(1 - e) is the smallest normal number.
  const double eps = epsilon_of(part), max = (2 - eps) * std::exp2(1 - std::log2(smallest_normal));
  return {static_cast<int>(8 * size_of(part)), eps, max, -max, smallest_normal, part};
}

IntegerInfo iinfo(Dtype dtype) {
  if (!is_integer(dtype)) fail<DtypeError>("iinfo: {} is not an integer dtype: use finfo for floats", dtype);
  const int bits = static_cast<int>(8 * size_of(dtype));
  if (is_unsigned(dtype)) return {bits, std::numeric_limits<std::uint64_t>::max() >> (64 - bits), 0, dtype};
  const std::int64_t max = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return {bits, static_cast<std::uint64_t>(max), -max - 1, dtype};
}

FloatInfo finfo(const Tensor& x) { return finfo(require_defined(x, "finfo").dtype()); }
IntegerInfo iinfo(const Tensor& x) { return iinfo(require_defined(x, "iinfo").dtype()); }

bool isdtype(Dtype dtype, DtypeKind kind) {
  switch (kind) {
    case DtypeKind::boolean: return dtype == bool_;
    case DtypeKind::signed_integer: return is_signed(dtype);
    case DtypeKind::unsigned_integer: return is_unsigned(dtype);
    case DtypeKind::integral: return is_integer(dtype);
    case DtypeKind::real_floating: return is_float(dtype);
    case DtypeKind::complex_floating: return is_complex(dtype);
    case DtypeKind::numeric: return dtype != bool_;
  }
  return false;
}
bool isdtype(Dtype dtype, std::initializer_list<DtypeKind> kinds) {
  return std::any_of(kinds.begin(), kinds.end(), [&](DtypeKind kind) { return isdtype(dtype, kind); });
}
bool isdtype(Dtype dtype, Dtype other) { return dtype == other; }

bool can_cast(Dtype from, Dtype to) {
  const bool has_uint64 = from == uint64 || to == uint64;
  const bool has_signed = is_signed(from) || is_signed(to);
  if (has_uint64 && has_signed) return false;  // no dtype holds both
  return promote(from, to) == to;
}
bool can_cast(const Tensor& x, Dtype to) { return can_cast(require_defined(x, "can_cast").dtype(), to); }

Dtype result_type(std::initializer_list<Operand> operands) {
  std::size_t place = 0;
  for (const Operand& x : operands) {
    if (!x.is_scalar()) require_defined(x.tensor(), "result_type", place);
    ++place;
  }
  return dtype_of_all({operands.begin(), operands.size()});
}
Dtype result_type(std::initializer_list<Dtype> dtypes) {
  Dtype result = bool_;
  for (const Dtype dtype : dtypes) result = promote(result, dtype);
  return result;
}

}  // namespace stave
