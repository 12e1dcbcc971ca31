// Products and what follows on them in compiled programs: right matrices that are packed once, and
// elementwise operations on blocks of results that a cache still holds.
#include <algorithm>
#include <optional>

#include <stave/backends/attributes.h>
#include <stave/backends/cpu/convolution.h>
#include <stave/backends/cpu/convolution_winograd.h>
#include <stave/backends/cpu/cpu_backend.h>
#include <stave/backends/cpu/matmul.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/small_vector.h>

namespace stave_cpu {

using stave::Backend;
using stave::Shape;
using stave::SmallVector;
using stave::Strides;
using stave::View;

namespace {

/// An elementwise operation on blocks of its operands. A block is a part of a product's output, row
/// by row, and the same part of all other operands.
class Epilogue {
 public:
  /// Returns nothing if an operand's layout has no single step between the elements of a row of the
  /// product, which is `row` elements long, or between its rows.
  static std::optional<Epilogue> of(CpuBackend& backend, const Backend::Step& step, Index row) {
    Epilogue epilogue(backend, step);
    epilogue.merge_axes();
    if (epilogue.lengths_.back() % row != 0) return std::nullopt;
    return epilogue;
  }

  void operator()(Index first, Index rows, Index step, Index columns) const {
    for (Index done = 0, count; done < rows; done += count) {
      const Index at = first + done * step, inner = lengths_.back();
      // The number of rows up to the next end of the axis along which they lie.
      if (inner > step) count = (inner - at % inner + step - 1) / step;
      else count = lengths_.size() == 1 ? rows : lengths_.end()[-2] - at / inner % lengths_.end()[-2];
      count = std::min(count, rows - done);
      run(at, count, step, columns);
    }
  }

 private:
  Epilogue(CpuBackend& backend, const Backend::Step& step) : backend_(&backend), step_(&step) {}

  // Merges neighbouring axes wherever all operands have a single step for both.
  void merge_axes() {
    const std::span<const View> inputs = step_->inputs;
    const std::span<const Index> shape = step_->outputs[0].shape;
    steps_.resize(inputs.size());
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == 1) continue;
      bool merges = !lengths_.empty();
      for (std::size_t i = 0; i < inputs.size() && merges; ++i)
        merges = steps_[i].back() == inputs[i].strides[axis] * shape[axis];
      if (merges) lengths_.back() *= shape[axis];
      else lengths_.push_back(shape[axis]);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (merges) steps_[i].back() = inputs[i].strides[axis];
        else steps_[i].push_back(inputs[i].strides[axis]);
      }
    }
    if (!lengths_.empty()) return;
    lengths_.push_back(1);
    for (auto& steps : steps_) steps.push_back(0);
  }

  void run(Index first, Index rows, Index step, Index columns) const {
    const Index shape[] = {rows, columns}, dense[] = {columns, 1};
    SmallVector<View, 4> inputs;
    SmallVector<std::array<Index, 2>, 4> strides;
    strides.resize(step_->inputs.size());
    for (std::size_t i = 0; i < step_->inputs.size(); ++i) {
      const View& view = step_->inputs[i];
      Index rest = first, offset = 0;
      for (std::size_t axis = lengths_.size(); axis-- > 0; rest /= lengths_[axis])
        offset += rest % lengths_[axis] * steps_[i][axis];
      const Index along = steps_[i].back();
      const Index down = lengths_.back() > step || lengths_.size() == 1 ? step * along : steps_[i].end()[-2];
      strides[i] = {down, along};
      char* const data = static_cast<char*>(view.data) + offset * static_cast<Index>(stave::size_of(view.dtype));
      inputs.push_back({data, view.dtype, shape, strides[i], view.is_host_constant});
    }
    // Operations write dense results. A block of some columns is computed in a buffer.
    const View& all = step_->outputs[0];
    const auto size = static_cast<Index>(stave::size_of(all.dtype));
    char* const to = static_cast<char*>(all.data) + first * size;
    const bool in_place = rows == 1 || columns == step;
    const Scratch<char> buffer = in_place ? nullptr : scratch<char>(static_cast<std::size_t>(rows * columns * size));
    const View out{in_place ? to : buffer.get(), all.dtype, shape, dense};
    backend_->run(*step_->op, step_->attributes, inputs, {&out, 1});
    if (!in_place) copy_tile(to, step * size, size, buffer.get(), columns * size, size, rows, columns, size);
  }

  CpuBackend* backend_;
  const Backend::Step* step_;
  Shape lengths_;                  // of the merged axes, outermost first
  SmallVector<Strides, 4> steps_;  // of each input along the merged axes
};

/// Runs a product. Returns false if `finished` received no blocks, because the product is too
/// small, for example.
bool run_step(CpuBackend& backend, const Backend::Step& step, const Finished* finished) {
  const std::span<const View> in = step.inputs;
  const View& out = step.outputs[0];
  if (out.dtype == stave::Dtype::float32 || out.dtype == stave::Dtype::float64) {
    if (step.op->id == stave::OpId::matmul)
      return run_matmul(in[0], in[1], out, {static_cast<const PackedMatrix*>(step.prepared), finished});
    if (step.op->id == stave::OpId::convolution) {
      const auto& attributes = stave_detail::as<stave::ConvolutionAttributes>(step.attributes);
      if (!step.prepared) return run_convolution(attributes, in[0], in[1], out, finished);
      run_winograd(attributes, in[0], in[1], out, static_cast<const WinogradWeights&>(*step.prepared), finished);
      return finished != nullptr;
    }
  }
  backend.run(*step.op, step.attributes, in, step.outputs);
  return false;
}

/// The number of results that are adjacent in each row of a product's matrices.
Index row_length(const Backend::Step& product) {
  const std::span<const Index> shape = product.outputs[0].shape;
  if (product.op->id == stave::OpId::matmul) return shape.back();
  Index places = 1;
  for (const Index length : shape.subspan(3)) places *= length;
  return places;
}

}  // namespace

std::shared_ptr<const stave::PreparedInput> CpuBackend::prepare(const Step& step) {
  const View &x = step.inputs[0], &constant = step.inputs[1], &out = step.outputs[0];
  if (step.op->id == stave::OpId::matmul) return packed_right_matrix(x, constant, out);
  if (step.op->id != stave::OpId::convolution) return nullptr;
  return winograd_weights(stave_detail::as<stave::ConvolutionAttributes>(step.attributes), x, constant, out);
}

void CpuBackend::run_product(const Step& product, const Step* epilogue) {
  if (!epilogue) return void(run_step(*this, product, nullptr));
  const std::optional<Epilogue> after = Epilogue::of(*this, *epilogue, row_length(product));
  std::optional<Finished> finished;
  if (after) finished.emplace(*after);
  if (!run_step(*this, product, finished ? &*finished : nullptr))
    run(*epilogue->op, epilogue->attributes, epilogue->inputs, epilogue->outputs);
}

}  // namespace stave_cpu
