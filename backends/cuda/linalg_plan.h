// Stacks, which are batches of matrices, as the kernels of linear algebra receive them.
#pragma once

#include <stave/backends/cuda/index_map.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

/// The largest number of rows or columns of a matrix that Stave's own kernels compute with a team
/// of lanes (kernels/team.cuh).
inline constexpr Index most_small = 32;

/// A batch of strided matrices, or of vectors, which count as matrices of one row. Steps are in
/// elements. `stack` maps the index of a matrix in the batch to the offset where it begins.
template <class T>
struct MatrixStack {
  const T* data = nullptr;
  Index rows = 1, columns = 0, row_step = 0, column_step = 0;
  IndexMap<1> stack;

  STAVE_BOTH const T* operator()(Index i) const { return data + stack(static_cast<std::uint64_t>(i))[0]; }
};

/// Makes a MatrixStack from a view.
class StackPlan {
 public:
  explicit StackPlan(const stave::View& view, std::size_t kept = 2)
      : view_(view), kept_(kept),
        plan_(view.shape.first(view.shape.size() - kept), {view.strides.first(view.shape.size() - kept)}) {}

  Index count() const { return plan_.elements(); }
  template <class T>
  MatrixStack<T> on_host() const {
    return with<T>(plan_.on_host());
  }
  template <class T>
  MatrixStack<T> on_device(const Launch& launch) const {
    return with<T>(plan_.on_device(launch));
  }

 private:
  template <class T>
  MatrixStack<T> with(const IndexMap<1>& map) const {
    const std::size_t last = view_.shape.size() - 1;
    MatrixStack<T> x{static_cast<const T*>(view_.data), 1, view_.shape[last], 0, view_.strides[last], map};
    if (kept_ == 2) x.rows = view_.shape[last - 1], x.row_step = view_.strides[last - 1];
    return x;
  }

  const stave::View& view_;
  std::size_t kept_;
  IndexPlan<1> plan_;
};

}  // namespace stave_cuda
