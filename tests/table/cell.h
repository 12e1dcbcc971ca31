// A cell of the table: one variant, in one dtype and layout, under one transform.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>

#include "table/row.h"

namespace table {

enum class Transform {
  value,
  jvp,
  vjp,
  vmap,  // the next members are all pairs of jvp, vjp and vmap
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
  vjp_of_trace,
  lower,  // lowered to operations on single numbers (programs.cpp)
  lower_of_vjp,
  save,  // written as a program's text and read again (saved.cpp)
  save_of_vjp
};
inline constexpr int transform_count = static_cast<int>(Transform::save_of_vjp) + 1;
const char* name_of(Transform transform);
/// Returns true if the transform takes derivatives.
bool differentiates(Transform transform);

/// The error that a cell throws when a result differs from its reference.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A random number generator that gives the same numbers in every run and with every standard
/// library.
class Random {
 public:
  explicit Random(const std::string& seed);
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  /// Values of an input, with shape `shape`. `number` makes the values of different inputs differ.
  Array values(const Input& input, const Shape& shape, std::size_t number);
  /// Weights, tangents and cotangents: not uniform, of both signs, rounded to the dtype.
  Array weights(Dtype dtype, const Shape& shape);
  Arrays weights_like(const Arrays& xs);

 private:
  std::mt19937_64 engine_;
};

class Derivatives;

/// The inputs that all cells of one variant in one dtype and layout share.
struct Case {
  const Row& row;
  const Variant& variant;
  Dtype dtype;
  Layout layout;
  // The seed of this case's random numbers.
  std::string seed;
  Arrays arrays = {};
  std::vector<Tensor> tensors = {};
  // The inputs with respect to which derivatives are taken.
  std::vector<std::size_t> active = {};
  /// What the checks of derivatives share; the first of them makes it (derivatives.cpp).
  mutable std::shared_ptr<const Derivatives> derivatives = {};

  Case(const Case&) = delete;  // the derivatives refer to the case
  Case(const Row& row, const Variant& variant, Dtype dtype, Layout layout);

  /// Values for input i, with its own shape or with axes of lanes added.
  /// `repeat` is the input's repeated axis, counted in `shape`.
  Array draw(Random& random, std::size_t i, const Shape& shape, Index repeat) const;
  /// A tensor of these values in the layout that input i has in this case.
  Tensor placed(const Array& values, std::size_t i, Index repeat) const;
  /// The layout of input i, with `mixed` resolved to one layout.
  Layout layout_of(std::size_t i) const;

  /// The function of all inputs.
  Outputs call(std::span<const Tensor> inputs) const { return variant.call(inputs); }
  /// The function of the active inputs; the other inputs are captured.
  Outputs call_active(std::span<const Tensor> active_inputs) const;
  /// The outputs of call_active whose dtypes `admits`.
  Outputs call_active(std::span<const Tensor> active_inputs, bool (*admits)(Dtype)) const;
  /// The entries of a list, one for each input, that belong to active inputs.
  template <class T>
  std::vector<T> active_of(const std::vector<T>& all) const {
    std::vector<T> result;
    for (std::size_t i : active) result.push_back(all[i]);
    return result;
  }
};

/// Runs a cell. Throws Mismatch, or any error that Stave throws.
void check_cell(const Case& c, Transform transform);
/// Checks that the derivatives of a variant that is not differentiable are zero, in both modes.
void check_zero_derivative(const Case& c);
/// Checks that a variant that refuses its inputs also refuses them under the transform.
void check_refusal(const Case& c, Transform transform);

// The checks of the transforms are in derivatives.cpp, batching.cpp, programs.cpp and saved.cpp.
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
void check_lower(const Case& c);
void check_lower_of_vjp(const Case& c);
void check_save(const Case& c);
void check_save_of_vjp(const Case& c);

// ---- comparisons -------------------------------------------------------------------------------

enum class Kind { value, first, second, adjoint, lanes };

/// Throws Mismatch unless dtypes and shapes are equal and elements differ by no more
/// than the tolerance of `kind`. The tolerance is multiplied by `unit`.
void compare(const std::string& what, Kind kind, const Array& got, const Array& expected, Real unit = 1);
void compare(const std::string& what, Kind kind, const Arrays& got, const Arrays& expected, Real unit = 1);
/// Compares two numbers computed in `dtype`, whose terms add up to `size` in absolute value.
void compare(const std::string& what, Kind kind, Dtype dtype, Real got, Real expected, Real size);

/// The row's accuracy. On a CUDA device it includes the additional error of CUDA's functions.
Real accuracy_here(const Row& row);

/// Cotangents of outputs; undefined tensors for outputs that are not floats.
std::vector<Tensor> cotangents_for(const Arrays& outputs, const Arrays& weights);

Arrays to_arrays(std::span<const Tensor> tensors);
std::vector<Tensor> to_tensors(const Arrays& arrays);
/// The elements of a, then those of b.
template <class List>
List joined(List a, const List& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace table
