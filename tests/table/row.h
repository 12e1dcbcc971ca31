// The rows of the table of operations, which tests what every operation means: its values in every
// dtype and layout, and its derivatives and lanes under every transform and pair of transforms. A
// row gives, for one public function, its inputs, the dtypes that it admits, and a reference that
// does not use Stave. (Conformance tests test the kernels of each backend below the operations;
// oracle tests compare with other libraries' results at hard points.) Start reading at `Row`;
// rows_elementwise.cpp has the simplest rows.
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

/// The distribution of an input's values. Floats lie on a jittered grid in [low, high] that differs
/// between inputs, and an array has no value twice. So no two values that are combined are close to
/// a tie, and none is close to 0 unless both bounds are.
/// Integers are drawn from those within [low, high] (unsigned ones from 0), bools from both values.
struct Domain {
  double low = -2, high = 2;
  // If not empty, values are drawn from these.
  std::vector<Real> choices = {};
};
inline const Domain positive{0.3, 3};

/// An input of a variant.
struct Input {
  Dtype dtype;
  Shape shape;
  Domain domain = {};
  // Used for floats only.
  bool differentiable = true;
  // The axis along which the layout `broadcast` repeats the input.
  Index repeat = 0;
};

/// One use of the function: attributes and shapes. If the shapes are zero-size or the first has
/// rank 0, the variant is tested in that layout; else it is tested in each of the other layouts.
struct Variant {
  std::string name;
  std::vector<Input> inputs;
  /// Calls the function.
  std::function<Outputs(std::span<const Tensor>)> call = {};
  /// The expected results.
  std::function<Arrays(std::span<const Array>)> reference = {};
  /// The reference for derivatives, if it differs from `reference`.
  /// Near `at` it is smooth where `reference` has kinks because values tie.
  std::function<Arrays(std::span<const Array> at, std::span<const Array>)> smooth = {};
  /// False for a piecewise constant function, whose derivative must be zero.
  bool differentiable = true;
  /// True if each element of the result depends on the corresponding elements of the inputs alone,
  /// which broadcast. Derivatives of the reference then take fewer differences.
  bool elementwise = false;
  /// If not empty, the function refuses these inputs with an error that contains this text.
  std::string refusal = {};
};

/// A public function.
struct Row {
  std::string name;
  std::vector<Dtype> dtypes;
  std::function<std::vector<Variant>(Dtype)> variants;
  // Other public names that the variants call.
  std::vector<std::string> also = {};
  // The accuracy of values, in units in the last place.
  Real accuracy = 4;
  // True if a lane of vmap computes exactly the same bits as a separate call.
  bool bitwise = true;
  /// Operands, which are floats like the result, that have no derivative or one that is zero
  /// everywhere; and the reason.
  std::map<std::size_t, std::string> no_derivative = {};
  // False for a row of complex operands of a function that has a row for real ones, too.
  bool is_documented = true;
  // The family: the header core/ops/<family>.h, or another name for functions without one.
  // all_rows sets it.
  std::string family = {};
};

inline const std::vector<Dtype> integer_dtypes = {uint8, uint16, uint32, uint64, int8, int16, int32, int64};
inline const std::vector<Dtype> float_dtypes = {float16, bfloat16, float32, float64};
inline const std::vector<Dtype> number_dtypes = {uint8, uint16, uint32,  uint64,   int8,    int16,
                                                 int32, int64,  float16, bfloat16, float32, float64};
inline const std::vector<Dtype> all_dtypes = {bool_, uint8, uint16,  uint32,   uint64,  int8,   int16,
                                              int32, int64, float16, bfloat16, float32, float64};

/// The dtypes in which neural-network functions are tested. They compute in floats for every input
/// dtype.
inline const std::vector<Dtype> network_dtypes = {float16, bfloat16, float32, float64, int32};

/// The dtype in which integers are summed.
inline Dtype summed_in(Dtype dtype) {
  if (dtype == bool_ || dtype == int8 || dtype == int16) return int32;
  return dtype == uint8 || dtype == uint16 ? uint32 : dtype;
}
/// `as_float` and `as_number`: the dtypes in which functions of floats, and of numbers, compute.
inline Dtype as_float(Dtype dtype) { return is_float(dtype) ? dtype : float32; }
inline Dtype as_number(Dtype dtype) { return dtype == bool_ ? int32 : dtype; }

// Each function adds the rows of one header's functions.
void add_create_rows(std::vector<Row>& rows);
void add_elementwise_rows(std::vector<Row>& rows);
void add_binary_rows(std::vector<Row>& rows);
void add_complex_rows(std::vector<Row>& rows);
void add_special_rows(std::vector<Row>& rows);
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
void add_matrix_function_rows(std::vector<Row>& rows);
void add_complex_matrix_rows(std::vector<Row>& rows);
void add_convolution_rows(std::vector<Row>& rows);
void add_fft_rows(std::vector<Row>& rows);
void add_signal_rows(std::vector<Row>& rows);
void add_log_softmax_rows(std::vector<Row>& rows);
void add_normalize_rows(std::vector<Row>& rows);
void add_layer_norm_rows(std::vector<Row>& rows);
void add_network_rows(std::vector<Row>& rows);
void add_losses_rows(std::vector<Row>& rows);
void add_attention_rows(std::vector<Row>& rows);
void add_quantize_rows(std::vector<Row>& rows);
void add_random_rows(std::vector<Row>& rows);
void add_sampler_rows(std::vector<Row>& rows);
void add_sampler_vector_rows(std::vector<Row>& rows);
void add_choice_rows(std::vector<Row>& rows);
void add_transfer_rows(std::vector<Row>& rows);
void add_collective_rows(std::vector<Row>& rows);
void add_function_rows(std::vector<Row>& rows);
void add_fused_rows(std::vector<Row>& rows);
void add_elementwise_function_rows(std::vector<Row>& rows);
void add_statistics_rows(std::vector<Row>& rows);
void add_image_rows(std::vector<Row>& rows);
void add_padding_rows(std::vector<Row>& rows);
void add_sequence_rows(std::vector<Row>& rows);
void add_adaptive_pool_rows(std::vector<Row>& rows);
void add_scatter_reduce_rows(std::vector<Row>& rows);
void add_margin_loss_rows(std::vector<Row>& rows);
void add_linalg_function_rows(std::vector<Row>& rows);

/// All rows.
const std::vector<Row>& all_rows();

}  // namespace table
