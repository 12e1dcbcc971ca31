// The attributes of operations as fields with names, for files of programs. For the .cpp files of
// core/io.
//
// Each type of attributes is listed once, in Fields, for both writing and reading. A member that is
// added to members() and not to Fields is a compile error. Each operation of all_ops.h is listed
// once, with its type of attributes and the numbers of inputs that it takes; an operation without
// an entry is a compile error too.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <tuple>
#include <type_traits>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/attributes.h>

namespace stave_detail {

using namespace stave;

/// The type of attributes of operations that have none.
struct NoAttributes {};

template <class A>
struct Fields;

// STAVE_FIELDS(type, its constructor's arguments, names of the fields, the fields of an object `a`)
#define STAVE_NAMES(...) \
  { __VA_ARGS__ }
#define STAVE_FIELDS(Type, initial, field_names, ...)                            \
  template <>                                                                    \
  struct Fields<Type> {                                                          \
    static constexpr const char* names[] = field_names;                          \
    static constexpr std::size_t count = std::size(names);                       \
    static auto of(auto& a) { return std::tie(__VA_ARGS__); }                    \
    static IntrusivePtr<Type> make() { return make_intrusive<Type> initial; }    \
  };                                                                             \
  static_assert(Fields<Type>::count == number_of_members<Type>,                  \
                "a member of the attributes has no field in files of programs"); \
  static_assert(Fields<Type>::count == std::tuple_size_v<decltype(Fields<Type>::of(std::declval<Type&>()))>);

template <class A>
inline constexpr std::size_t number_of_members = std::tuple_size_v<decltype(std::declval<const A&>().members())>;

STAVE_FIELDS(FullAttributes, (Shape(), Dtype::float32, 0), STAVE_NAMES("device", "shape", "dtype", "value"), a.device,
             a.shape, a.dtype, a.value)
STAVE_FIELDS(IotaAttributes, (0, Dtype::float32, 0, 0), STAVE_NAMES("device", "length", "dtype", "start", "step"),
             a.device, a.length, a.dtype, a.start, a.step)
STAVE_FIELDS(DtypeAttributes, (Dtype::float32), STAVE_NAMES("dtype"), a.dtype)
STAVE_FIELDS(TransferAttributes, (cpu, cpu), STAVE_NAMES("device", "from"), a.device, a.from)
STAVE_FIELDS(ReduceAttributes, (Shape(), false), STAVE_NAMES("axes", "keepdims"), a.axes, a.keepdims)
STAVE_FIELDS(ScanAttributes, (0, false), STAVE_NAMES("axis", "reverse"), a.axis, a.reverse)
STAVE_FIELDS(FftAttributes, (0, 1, false, 1.0), STAVE_NAMES("axis", "length", "inverse", "scale"), a.axis, a.length,
             a.inverse, a.scale)
STAVE_FIELDS(SortAttributes, (0, false), STAVE_NAMES("axis", "descending"), a.axis, a.descending)
STAVE_FIELDS(TopkAttributes, (0, 0), STAVE_NAMES("axis", "k"), a.axis, a.k)
STAVE_FIELDS(SearchAttributes, (false), STAVE_NAMES("right", "batch_dims"), a.right, a.batch_dims)
STAVE_FIELDS(NormAttributes, (0.0), STAVE_NAMES("epsilon"), a.epsilon)
STAVE_FIELDS(ShapeAttributes, (Shape()), STAVE_NAMES("shape"), a.shape)
STAVE_FIELDS(PermuteAttributes, (Shape()), STAVE_NAMES("axes"), a.axes)
STAVE_FIELDS(SliceAttributes, (Shape(), Shape(), Shape()), STAVE_NAMES("starts", "lengths", "steps"), a.starts,
             a.lengths, a.steps)
STAVE_FIELDS(PadAttributes, (Shape(), Shape(), Shape(), 0), STAVE_NAMES("shape", "starts", "steps", "value"), a.shape,
             a.starts, a.steps, a.value)
STAVE_FIELDS(AxisAttributes, (0), STAVE_NAMES("axis"), a.axis)
STAVE_FIELDS(GatherAttributes, (0), STAVE_NAMES("batch_dims", "from_end"), a.batch_dims, a.from_end)
STAVE_FIELDS(DynamicSliceAttributes, (0, Shape()), STAVE_NAMES("batch_dims", "sizes"), a.batch_dims, a.sizes)
STAVE_FIELDS(CholeskyAttributes, (false), STAVE_NAMES("nan_if_indefinite"), a.nan_if_indefinite)
STAVE_FIELDS(TriangularAttributes, (false, false, false), STAVE_NAMES("lower", "transpose", "unit"), a.lower,
             a.transpose, a.unit)
STAVE_FIELDS(SolveAttributes, (false), STAVE_NAMES("transpose"), a.transpose)
STAVE_FIELDS(FactorAttributes, (false), STAVE_NAMES("full"), a.full)
STAVE_FIELDS(BandedAttributes, (0, 0, false), STAVE_NAMES("lower", "upper", "transpose"), a.lower, a.upper, a.transpose)
STAVE_FIELDS(ConvolutionAttributes, (Shape(), Shape(), Shape(), Shape(), Shape()),
             STAVE_NAMES("strides", "low", "high", "dilations", "input_dilations"), a.strides, a.low, a.high,
             a.dilations, a.input_dilations)
STAVE_FIELDS(PoolAttributes, (Shape(), Shape(), Shape(), Shape(), Shape()),
             STAVE_NAMES("windows", "strides", "low", "high", "dilations"), a.windows, a.strides, a.low, a.high,
             a.dilations)
STAVE_FIELDS(AttentionAttributes, (0.0, false), STAVE_NAMES("scale", "causal"), a.scale, a.causal)
STAVE_FIELDS(QuantizedAttributes, (4, true), STAVE_NAMES("bits", "transpose"), a.bits, a.transpose)
STAVE_FIELDS(RandomAttributes, (Shape()), STAVE_NAMES("shape"), a.shape)
STAVE_FIELDS(UniformAttributes, (Shape(), Dtype::float32, 0.0, 0.0), STAVE_NAMES("shape", "dtype", "low", "high"),
             a.shape, a.dtype, a.low, a.high)

#undef STAVE_FIELDS
#undef STAVE_NAMES

inline constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

// X(operation, attributes, the least and the most inputs); `call` has an entry of its own.
// clang-format off
#define STAVE_SIGNATURES(X)                                                                                    \
  X(full, FullAttributes, 0, 0) X(iota, IotaAttributes, 0, 0) X(astype, DtypeAttributes, 1, 1)                 \
  X(stop_gradient, NoAttributes, 1, 1) X(copy, NoAttributes, 1, 1) X(where, NoAttributes, 3, 3)                \
  X(complex, NoAttributes, 2, 2) X(real, NoAttributes, 1, 1) X(imag, NoAttributes, 1, 1)                       \
  X(conj, NoAttributes, 1, 1)                                                                                  \
  X(sum, ReduceAttributes, 1, 1) X(prod, ReduceAttributes, 1, 1) X(max, ReduceAttributes, 1, 1)                \
  X(min, ReduceAttributes, 1, 1) X(all, ReduceAttributes, 1, 1) X(any, ReduceAttributes, 1, 1)                 \
  X(argmax, ReduceAttributes, 1, 1) X(argmin, ReduceAttributes, 1, 1)                                          \
  X(softmax, AxisAttributes, 1, 1) X(log_softmax, AxisAttributes, 1, 1) X(logsumexp, AxisAttributes, 1, 1)     \
  X(softmax_gradient, NoAttributes, 2, 2) X(log_softmax_gradient, NoAttributes, 2, 2)                          \
  X(cumulative_sum, ScanAttributes, 1, 1) X(cumulative_prod, ScanAttributes, 1, 1)                             \
  X(cummax, ScanAttributes, 1, 1) X(cummin, ScanAttributes, 1, 1) X(linear_recurrence, ScanAttributes, 2, 2)   \
  X(sort, SortAttributes, 1, 1) X(argsort, SortAttributes, 1, 1) X(argtopk, TopkAttributes, 1, 1)              \
  X(reshape, ShapeAttributes, 1, 1) X(permute_dims, PermuteAttributes, 1, 1)                                   \
  X(broadcast_to, ShapeAttributes, 1, 1) X(slice, SliceAttributes, 1, 1) X(pad, PadAttributes, 1, 1)           \
  X(concat, AxisAttributes, 1, any_number) X(gather, GatherAttributes, 2, 2)                                   \
  X(scatter, GatherAttributes, 3, 3) X(scatter_add, GatherAttributes, 3, 3)                                    \
  X(scatter_multiply, GatherAttributes, 3, 3) X(scatter_min, GatherAttributes, 3, 3)                           \
  X(scatter_max, GatherAttributes, 3, 3) X(dynamic_slice, DynamicSliceAttributes, 2, 2)                        \
  X(dynamic_update_slice, DynamicSliceAttributes, 3, 3) X(matmul, NoAttributes, 2, 2)                          \
  X(cholesky, CholeskyAttributes, 1, 1) X(triangular_solve, TriangularAttributes, 2, 2)                        \
  X(lu, NoAttributes, 1, 1) X(solve, SolveAttributes, 4, 4) X(det, NoAttributes, 1, 1)                         \
  X(slogdet, NoAttributes, 1, 1) X(qr, FactorAttributes, 1, 1) X(eigh, NoAttributes, 1, 1)                     \
  X(eigvalsh, NoAttributes, 1, 1) X(svd, FactorAttributes, 1, 1) X(svdvals, NoAttributes, 1, 1)                \
  X(lstsq, NoAttributes, 5, 5) X(expm, NoAttributes, 1, 1) X(eig, NoAttributes, 1, 1)                          \
  X(eigvals, NoAttributes, 1, 1) X(schur, NoAttributes, 1, 1) X(sqrtm, NoAttributes, 1, 1)                     \
  X(logm, NoAttributes, 1, 1) X(sylvester, NoAttributes, 3, 3) X(solve_banded, BandedAttributes, 2, 2)         \
  X(ldl, NoAttributes, 1, 1) X(convolution, ConvolutionAttributes, 2, 2)                                       \
  X(fft, FftAttributes, 1, 1) X(rfft, FftAttributes, 1, 1) X(irfft, FftAttributes, 1, 1)                       \
  X(searchsorted, SearchAttributes, 2, 2) X(max_pool, PoolAttributes, 1, 1)                                    \
  X(argmax_pool, PoolAttributes, 1, 1) X(layer_norm, NormAttributes, 3, 3)                                     \
  X(layer_norm_gradient, NormAttributes, 3, 3) X(attention, AttentionAttributes, 3, 4)                         \
  X(attention_gradient, AttentionAttributes, 6, 7) X(quantized_matmul, QuantizedAttributes, 3, 4)              \
  X(fold_in, NoAttributes, 2, 2)                                                                               \
  X(random_bits, RandomAttributes, 1, 1) X(random_uniform, UniformAttributes, 1, 1)                            \
  X(random_permutation, RandomAttributes, 1, 1) X(to, TransferAttributes, 1, 1)
// clang-format on

/// The numbers of inputs that an operation takes.
struct InputCount {
  bool known = false;
  std::size_t least = 0, most = 0;
};

inline constexpr std::array<InputCount, op_count> input_counts = [] {
  std::array<InputCount, op_count> counts{};
  const auto set = [&](OpId id, std::size_t least, std::size_t most) {
    counts[static_cast<std::size_t>(id)] = {true, least, most};
  };
#define X(name, ...) set(OpId::name, 1, 1);
  STAVE_UNARY_OPS(X)
#undef X
#define X(name, ...) set(OpId::name, 2, 2);
  STAVE_BINARY_OPS(X)
#undef X
#define X(name, inputs, ...) set(OpId::name, inputs, inputs);
  STAVE_SPECIAL_OPS(X)
  STAVE_SAMPLER_OPS(X)
#undef X
#define X(name, attributes, least, most) set(OpId::name, least, most);
  STAVE_SIGNATURES(X)
#undef X
  set(OpId::call, 0, any_number);
  return counts;
}();
static_assert(
    [] {
      for (const InputCount& count : input_counts)
        if (!count.known) return false;
      return true;
    }(),
    "an operation of all_ops.h has no entry in STAVE_SIGNATURES");

/// Calls visit(std::type_identity<A>()) with the type A of the operation's attributes: NoAttributes
/// if it has none. The operation must not be `call`.
template <class Visit>
auto visit_attributes_type(OpId id, Visit visit) {
  switch (id) {
#define X(name, attributes, least, most) \
  case OpId::name: return visit(std::type_identity<attributes>());
    STAVE_SIGNATURES(X)
#undef X
    default: return visit(std::type_identity<NoAttributes>());
  }
}

}  // namespace stave_detail
