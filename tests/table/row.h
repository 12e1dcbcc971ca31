// The rows of the table: for each public function its inputs, the dtypes that it admits, and a reference that owes Stave
// nothing. Start reading at `Row`; rows_elementwise.cpp has the plainest ones.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <stave/core/op/op.h>

#include "table/array.h"

namespace table {

/// Where the values of an input come from. Floats lie on a jittered grid in [low, high], another one for each input, and an
/// array repeats none: no two values that meet are close to a tie, and none is close to 0 unless both bounds are.
/// Integers are drawn from those within [low, high] (unsigned ones from 0), bools from both.
struct Domain {
  double low = -2, high = 2;
  std::vector<Real> choices = {};  // if any: values are drawn from these
};
inline const Domain positive{0.3, 3};

/// An input of a variant.
struct Input {
  Dtype dtype;
  Shape shape;
  Domain domain = {};
  bool differentiable = true;  // asked only of floats
  Index repeat = 0;            // the axis along which the layout `broadcast` repeats it
};

/// One use of the function: attributes and shapes. Its layout is that of its shapes, if these are zero-size or the first is
/// rank 0; else it is tested in each of the other layouts.
struct Variant {
  std::string name;
  std::vector<Input> inputs;
  /// Calls the function.
  std::function<Outputs(std::span<const Tensor>)> call = {};
  /// What it should give.
  std::function<Arrays(std::span<const Array>)> reference = {};
  /// The reference for derivatives, if it is another: near `at`, without the kinks that values which tie have there.
  std::function<Arrays(std::span<const Array> at, std::span<const Array>)> smooth = {};
  /// False: piecewise constant; the derivative must be zero.
  bool differentiable = true;
  /// If any: the function does not admit these inputs, and its error says this.
  std::string refusal = {};
};

/// A public function.
struct Row {
  std::string name;
  std::vector<Dtype> dtypes;
  std::function<std::vector<Variant>(Dtype)> variants;
  std::vector<std::string> also = {};  // other public names that the variants call
  Real accuracy = 4;                   // of values, in units in the last place
  bool bitwise = true;                 // a lane of vmap computes exactly what a call for itself does
  /// Operands by which there is no derivative, or one that is zero everywhere, though they and the result are floats; and why.
  std::map<std::size_t, std::string> no_derivative = {};
  std::string family = {};  // set by all_rows: core/ops/<family>.h, or what has no header there
};

inline const std::vector<Dtype> integer_dtypes = {uint8, uint16, uint32, uint64, int8, int16, int32, int64};
inline const std::vector<Dtype> float_dtypes = {float16, bfloat16, float32, float64};
inline const std::vector<Dtype> number_dtypes = {uint8, uint16, uint32,  uint64,   int8,    int16,
                                                 int32, int64,  float16, bfloat16, float32, float64};
inline const std::vector<Dtype> all_dtypes = {bool_, uint8, uint16,  uint32,   uint64,  int8,   int16,
                                              int32, int64, float16, bfloat16, float32, float64};

/// The dtypes in which parts of networks are tested: they compute in floats, whatever they are given.
inline const std::vector<Dtype> network_dtypes = {float16, bfloat16, float32, float64, int32};

/// The dtype in which integers are summed.
inline Dtype summed_in(Dtype dtype) {
  if (dtype == bool_ || dtype == int8 || dtype == int16) return int32;
  return dtype == uint8 || dtype == uint16 ? uint32 : dtype;
}
/// The dtypes in which functions of floats, and of numbers, compute.
inline Dtype as_float(Dtype dtype) { return is_float(dtype) ? dtype : float32; }
inline Dtype as_number(Dtype dtype) { return dtype == bool_ ? int32 : dtype; }

// The rows, by the header that declares the functions.
void add_create_rows(std::vector<Row>& rows);
void add_elementwise_rows(std::vector<Row>& rows);
void add_binary_rows(std::vector<Row>& rows);
void add_reduce_rows(std::vector<Row>& rows);
void add_softmax_rows(std::vector<Row>& rows);
void add_scan_rows(std::vector<Row>& rows);
void add_sort_rows(std::vector<Row>& rows);
void add_search_rows(std::vector<Row>& rows);
void add_layout_rows(std::vector<Row>& rows);
void add_rearrange_rows(std::vector<Row>& rows);
void add_index_rows(std::vector<Row>& rows);
void add_scatter_rows(std::vector<Row>& rows);
void add_at_rows(std::vector<Row>& rows);
void add_contract_rows(std::vector<Row>& rows);
void add_system_rows(std::vector<Row>& rows);
void add_factor_rows(std::vector<Row>& rows);
void add_norm_rows(std::vector<Row>& rows);
void add_product_rows(std::vector<Row>& rows);
void add_convolution_rows(std::vector<Row>& rows);
void add_log_softmax_rows(std::vector<Row>& rows);
void add_normalize_rows(std::vector<Row>& rows);
void add_layer_norm_rows(std::vector<Row>& rows);
void add_network_rows(std::vector<Row>& rows);
void add_losses_rows(std::vector<Row>& rows);
void add_attention_rows(std::vector<Row>& rows);
void add_random_rows(std::vector<Row>& rows);
void add_transfer_rows(std::vector<Row>& rows);
void add_collective_rows(std::vector<Row>& rows);
void add_function_rows(std::vector<Row>& rows);
void add_fused_rows(std::vector<Row>& rows);

/// All of them.
const std::vector<Row>& all_rows();

}  // namespace table
