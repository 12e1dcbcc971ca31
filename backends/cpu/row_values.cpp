// Elementwise operations on an array and one value per row, run as chains.
#include <stave/backends/cpu/row_values.h>

#include <algorithm>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>

namespace stave_cpu {

std::optional<RowValues> RowValues::of(OpId op, std::span<const View> inputs, const View& out) {
  // The least number of elements of a row for which the chain kernel pays.
  constexpr Index least = 128;
  if (inputs.size() != 2 || out.shape.empty() || out.shape.back() < least) return std::nullopt;
  const auto is_row_value = [](const View& view) { return view.strides.back() == 0; };
  if (is_row_value(inputs[0]) == is_row_value(inputs[1])) return std::nullopt;
  const bool first = is_row_value(inputs[1]);  // True if the array is the first operand.
  const auto code =
      link_code(op, first ? LinkOperand::x : LinkOperand::number, first ? LinkOperand::number : LinkOperand::x);
  const View &array = inputs[first ? 0 : 1], &values = inputs[first ? 1 : 0];
  if (!code || !kernels().chain[static_cast<int>(out.dtype)] || element_count(out.shape) == 0 ||
      array.dtype != out.dtype || values.dtype != out.dtype || !is_contiguous(array.shape, array.strides))
    return std::nullopt;
  return RowValues(*code, array, values, out);
}

RowValues::RowValues(LinkCode code, const View& array, const View& values, const View& out)
    : values_(values, element_count(out.shape), readers_), links_{{LinkCode::load_array, 0, -1}, {code, 1, 2}},
      chain_(kernels().chain[static_cast<int>(out.dtype)]), array_(static_cast<char*>(array.data)),
      out_(static_cast<char*>(out.data)), n_(element_count(out.shape)) {}

void RowValues::run_piece(Index row, Index first, Index count) const {
  const Index offset = (row * length() + first) * values_.size();
  char* const arrays[] = {array_ + offset, const_cast<char*>(values_.element(row * length(), readers_)), out_ + offset};
  chain_(links_, 2, arrays, count);
}

void RowValues::run(Index first_row, Index end_row) const {
  for (Index row = first_row; row < end_row; ++row) run_piece(row, 0, length());
}

void RowValues::run_all(Index grain) const {
  // The number of elements of a piece. Rows are divided, because a few long rows may be all of the
  // work.
  constexpr Index most = 4096;
  const Index pieces = (length() + most - 1) / most;
  parallel_for(n_ / length() * pieces, std::max<Index>(1, grain / std::min(length(), most)),
               [&](Index begin, Index end) {
                 for (Index i = begin; i < end; ++i) {
                   const Index first = i % pieces * most;
                   run_piece(i / pieces, first, std::min(most, length() - first));
                 }
               });
}

}  // namespace stave_cpu
