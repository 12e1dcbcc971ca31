#include "table/run.h"

#include <algorithm>
#include <cstdio>

#include <stave/core/effects/sanitize.h>

namespace table {

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> list;
    for (const auto& [family, add] : std::initializer_list<std::pair<const char*, void (*)(std::vector<Row>&)>>{
             {"create", add_create_rows},
             {"sequences", add_sequence_rows},
             {"elementwise", add_elementwise_rows},
             {"elementwise", add_binary_rows},
             {"elementwise_functions", add_elementwise_function_rows},
             {"complex", add_complex_rows},
             {"special", add_special_rows},
             {"reduce", add_reduce_rows},
             {"statistics", add_statistics_rows},
             {"softmax", add_softmax_rows},
             {"softmax", add_log_softmax_rows},
             {"scan", add_scan_rows},
             {"sort", add_sort_rows},
             {"search", add_search_rows},
             {"layout", add_layout_rows},
             {"rearrange", add_rearrange_rows},
             {"rearrange", add_padding_rows},
             {"index", add_index_rows},
             {"index", add_scatter_rows},
             {"scatter_reduce", add_scatter_reduce_rows},
             {"at", add_at_rows},
             {"contract", add_contract_rows},
             {"linalg", add_system_rows},
             {"linalg", add_factor_rows},
             {"linalg", add_norm_rows},
             {"linalg", add_product_rows},
             {"linalg", add_matrix_function_rows},
             {"linalg", add_complex_matrix_rows},
             {"linalg_functions", add_linalg_function_rows},
             {"fft", add_fft_rows},
             {"signal", add_signal_rows},
             {"convolution", add_convolution_rows},
             {"convolution", add_adaptive_pool_rows},
             {"images", add_image_rows},
             {"normalize", add_normalize_rows},
             {"normalize", add_layer_norm_rows},
             {"network", add_network_rows},
             {"losses", add_losses_rows},
             {"losses", add_margin_loss_rows},
             {"attention", add_attention_rows},
             {"quantize", add_quantize_rows},
             {"random", add_random_rows},
             {"random_samplers", add_sampler_rows},
             {"random_samplers", add_sampler_vector_rows},
             {"random_samplers", add_choice_rows},
             {"transfer", add_transfer_rows},
             {"collectives", add_collective_rows},
             {"functions", add_function_rows},
             {"fused", add_fused_rows}}) {
      add(list);
      for (Row& row : list)
        if (row.family.empty()) row.family = family;
    }
    return list;
  }();
  return rows;
}

void Report::fail(const std::string& where, const std::string& what) {
  constexpr int printed = 40;
  if (++failures <= printed) std::printf("FAIL %s: %s\n", where.c_str(), what.c_str());
  if (failures == printed) std::printf("further failures are counted only\n");
}

std::string Report::summary() const {
  char text[200];
  std::snprintf(text, sizeof text, "operations %d  cells %d  skips %d (not differentiable %d, integer %d)", operations,
                cells, not_differentiable + integer, not_differentiable, integer);
  return text;
}

namespace {

bool any_empty(const Variant& variant) {
  return std::any_of(variant.inputs.begin(), variant.inputs.end(),
                     [](const Input& input) { return input.shape.elements() == 0; });
}

Layout layout_of_result(const Variant& variant) {
  const Shape shape = variant.reference({})[0].shape;
  return shape.elements() == 0 ? Layout::zero_size : shape.rank() == 0 ? Layout::rank0 : Layout::contiguous;
}

bool has(const Row& row, Dtype dtype) {
  return std::find(row.dtypes.begin(), row.dtypes.end(), dtype) != row.dtypes.end();
}

/// Returns true for a dtype whose kernels are instances of the same templates as those of another
/// dtype, in which no less can overflow.
bool is_like_another(Dtype dtype) {
  return dtype == stave::uint32 || dtype == stave::uint64 || dtype == stave::bfloat16 || dtype == stave::complex64;
}

/// Returns true if a transform runs in this dtype. Values run in every dtype,
/// because kernels differ by dtype; derivative rules seldom do.
/// So pairs of transforms run in the dtype with the most exact central differences. Single
/// transforms also run in the other floats, and in int32 and bool, which have no derivatives.
/// Under a sanitizer, values in dtypes of every size, and vjp and vmap in one dtype, reach all
/// memory that the other cells would reach: jvp rules perform the same operations, and pairs are
/// made of the same rules.
bool is_run(const Row& row, Dtype dtype, Transform transform) {
  using enum Transform;
  if (STAVE_ASAN || STAVE_TSAN) {
    if (transform == value) return !is_like_another(dtype) || row.dtypes.size() == 1;
    if (dtype != first_float(row)) return false;
    if (transform < compile) return transform == vjp || transform == vmap;
  }
  if (transform == value || transform == compile || transform == save) return true;
  if (transform > compile) return is_float(dtype);
  if (dtype == (has(row, stave::float64) ? stave::float64 : row.dtypes.front())) return true;
  const bool alone = transform == jvp || transform == vjp || transform == vmap;
  return alone && (is_float(dtype) || dtype == stave::int32 || dtype == stave::bool_);
}

/// Runs one cell, or counts the reason why it is skipped.
void run_cell(const Case& c, Transform transform, Report& report) {
  const bool derivative = differentiates(transform);
  if (derivative && c.active.empty()) {
    ++(c.variant.inputs.empty() ? report.not_differentiable : report.integer);
    return;
  }
  if (!c.variant.refusal.empty()) return check_refusal(c, transform);
  if (!derivative || c.variant.differentiable) return check_cell(c, transform);
  if (transform == Transform::jvp) check_zero_derivative(c);
  ++report.not_differentiable;
}

}  // namespace

Dtype first_float(const Row& row) { return has(row, stave::float32) ? stave::float32 : row.dtypes.front(); }

std::vector<Layout> layouts_of(const Variant& variant) {
  if (variant.inputs.empty()) return {layout_of_result(variant)};
  if (variant.inputs[0].shape.rank() == 0) return {Layout::rank0};
  if (any_empty(variant)) return {Layout::zero_size};
  std::vector<Layout> result = {Layout::contiguous, Layout::transposed, Layout::broadcast, Layout::stepped};
  if (variant.inputs.size() > 1) result.push_back(Layout::mixed);
  return result;
}

void for_each_case(const Row& row, stave::FunctionRef<bool(Dtype)> runs,
                   stave::FunctionRef<void(const Case&, const std::string&)> f) {
  for (const Dtype dtype : row.dtypes)
    if (runs(dtype))
      for (const Variant& variant : row.variants(dtype))
        for (const Layout layout : layouts_of(variant))
          f(Case(row, variant, dtype, layout),
            row.name + " " + variant.name + ", " + stave::name_of(dtype) + ", " + name_of(layout));
}

void run_row(const Row& row, Columns columns, Report& report) {
  ++report.operations;
  for (Dtype dtype : row.dtypes)
    for (const Variant& variant : row.variants(dtype))
      for (Layout layout : layouts_of(variant)) {
        const std::string where = row.name + " " + variant.name + ", " + stave::name_of(dtype) + ", " + name_of(layout);
        try {
          const Case c(row, variant, dtype, layout);
          for (int i = 0; i < (columns == Columns::values ? 1 : transform_count); ++i) {
            const auto transform = static_cast<Transform>(i);
            if (!is_run(row, dtype, transform)) continue;
            ++report.cells;
            try {
              run_cell(c, transform, report);
            } catch (const std::exception& error) {
              report.fail(where + ", " + name_of(transform), error.what());
            }
          }
        } catch (const std::exception& error) {
          report.fail(where, error.what());
        }
      }
}

}  // namespace table
