// A cell of the table: one variant, in one dtype and layout, under one transform.
#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

#include "table/row.h"

namespace table {

enum class Transform {
  value,
  jvp,
  vjp,
  vmap,  // and all pairs of the last three:
  jvp_of_jvp,
  jvp_of_vjp,
  jvp_of_vmap,
  vjp_of_jvp,
  vjp_of_vjp,
  vjp_of_vmap,
  vmap_of_jvp,
  vmap_of_vjp,
  vmap_of_vmap,
  compile,  // recorded and replayed (programs.cpp)
  compile_of_vjp,
  jvp_of_compile,
  vjp_of_compile,
  vmap_of_compile,
  vjp_of_trace
};
inline constexpr int transform_count = static_cast<int>(Transform::vjp_of_trace) + 1;
const char* name_of(Transform transform);
/// Whether derivatives are taken.
bool differentiates(Transform transform);

/// What a cell that disagrees throws.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The same numbers in every run and with every standard library.
class Random {
 public:
  explicit Random(const std::string& seed);
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  /// Values of an input, for shape `shape`; `number` sets inputs apart.
  Array values(const Input& input, const Shape& shape, std::size_t number);
  /// Weights, tangents and cotangents: not uniform, of both signs, rounded to the dtype.
  Array weights(Dtype dtype, const Shape& shape);
  Arrays weights_like(const Arrays& xs);

 private:
  std::mt19937_64 engine_;
};

/// What the cells of one variant in one dtype and layout have in common: the inputs.
struct Case {
  const Row& row;
  const Variant& variant;
  Dtype dtype;
  Layout layout;
  std::string seed;  // of this case's random numbers
  Arrays arrays = {};
  std::vector<Tensor> tensors = {};
  std::vector<std::size_t> active = {};  // the inputs by which derivatives are taken

  Case(const Row& row, const Variant& variant, Dtype dtype, Layout layout);

  /// Values for input i, in a shape that is its own or has axes of lanes in it too; `repeat` is the input's, in that shape.
  Array draw(Random& random, std::size_t i, const Shape& shape, Index repeat) const;
  /// A tensor of these values, lying as input i does in this case's layout.
  Tensor placed(const Array& values, std::size_t i, Index repeat) const;
  /// The layout of input i: `mixed` resolved.
  Layout layout_of(std::size_t i) const;

  /// The function, of all inputs.
  Outputs call(std::span<const Tensor> inputs) const { return variant.call(inputs); }
  /// The function of the active inputs; the others are captured.
  Outputs call_active(std::span<const Tensor> active_inputs) const;
  /// Those of a list that are active.
  template <class T>
  std::vector<T> active_of(const std::vector<T>& all) const {
    std::vector<T> result;
    for (std::size_t i : active) result.push_back(all[i]);
    return result;
  }
};

/// Runs a cell; throws Mismatch, or whatever Stave throws.
void check_cell(const Case& c, Transform transform);
/// For a variant that is not differentiable: its derivatives are zero, in both modes.
void check_zero_derivative(const Case& c);
/// For a variant that refuses its inputs: it does so under the transform too.
void check_refusal(const Case& c, Transform transform);

// The transforms, by file: derivatives.cpp, batching.cpp, programs.cpp.
void check_value(const Case& c);
void check_jvp(const Case& c);
void check_vjp(const Case& c);
void check_vmap(const Case& c);
void check_jvp_of_jvp(const Case& c);
void check_jvp_of_vjp(const Case& c);
void check_jvp_of_vmap(const Case& c);
void check_vjp_of_jvp(const Case& c);
void check_vjp_of_vjp(const Case& c);
void check_vjp_of_vmap(const Case& c);
void check_vmap_of_jvp(const Case& c);
void check_vmap_of_vjp(const Case& c);
void check_vmap_of_vmap(const Case& c);
void check_compile(const Case& c);
void check_compile_of_vjp(const Case& c);
void check_jvp_of_compile(const Case& c);
void check_vjp_of_compile(const Case& c);
void check_vmap_of_compile(const Case& c);
void check_vjp_of_trace(const Case& c);

// ---- comparisons ------------------------------------------------------------------------------------------

enum class Kind { value, first, second, adjoint, lanes };

/// Throws Mismatch unless dtypes and shapes are equal and elements as close as the table of tolerances asks. `unit` scales it.
void compare(const std::string& what, Kind kind, const Array& got, const Array& expected, Real unit = 1);
void compare(const std::string& what, Kind kind, const Arrays& got, const Arrays& expected, Real unit = 1);
/// The same for two numbers of a computation in `dtype`, whose terms add up to `size` in absolute value.
void compare(const std::string& what, Kind kind, Dtype dtype, Real got, Real expected, Real size);

/// The row's accuracy; on a CUDA device, with what CUDA's functions may err beyond it.
Real accuracy_here(const Row& row);

/// Cotangents of outputs: none for those that are not floats.
std::vector<Tensor> cotangents_for(const Arrays& outputs, const Arrays& weights);

Arrays to_arrays(std::span<const Tensor> tensors);
std::vector<Tensor> to_tensors(const Arrays& arrays);
/// a's elements, then b's.
template <class List>
List joined(List a, const List& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace table
