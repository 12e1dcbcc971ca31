// Runs samplers: gathers keys and parameters row by row, and divides the work among threads.
#include <stave/backends/cpu/samplers.h>

#include <algorithm>

#include <stave/backends/cpu/layout.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/sampler_numbers.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/op/all_ops.h>

namespace stave_cpu {

using stave::OpId;
using stave::View;

namespace {

/// The elements of an input in row-major order: its own, or those of a copy.
class Rows {
 public:
  explicit Rows(const View& x) : data_(x.data) {
    const stave::Strides contiguous = stave::contiguous_strides(x.shape);
    if (std::equal(x.strides.begin(), x.strides.end(), contiguous.begin())) return;
    copy_ = scratch<char>(static_cast<std::size_t>(element_count(x.shape)) * stave::size_of(x.dtype));
    run_copy(x, {copy_.get(), x.dtype, x.shape, contiguous});
    data_ = copy_.get();
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  Scratch<char> copy_;
};

bool is_one_number(const View& x) {
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.strides[i] != 0 && x.shape[i] != 1) return false;
  return true;
}

/// The inputs of a sampler. `each` elements share a key.
class Inputs {
 public:
  Inputs(std::span<const View> inputs, const View& out)
      : total_(element_count(out.shape)), keys_(inputs[0]), is_double_(inputs.back().dtype == stave::Dtype::float64) {
    each_ = total_ == 0 ? 0 : total_ / (element_count(inputs[0].shape) / 2);
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      const bool is_double = inputs[k].dtype == stave::Dtype::float64, is_one = is_one_number(inputs[k]);
      rows_.emplace_back(is_one ? View{inputs[k].data, inputs[k].dtype, {}, {}} : inputs[k]);
      parameters_.push_back({rows_.back().data(), is_double, is_one ? 0 : 1});
    }
  }
  Index total() const { return total_; }
  Index each() const { return each_; }
  bool is_double() const { return is_double_; }
  SamplerKey key(Index i) const {
    const auto* words = static_cast<const std::uint32_t*>(keys_.data()) + 2 * i;
    return {words[0], words[1]};
  }
  const Parameter& operator[](std::size_t k) const { return parameters_[k]; }

 private:
  Index total_, each_;
  Rows keys_;
  bool is_double_;
  stave::SmallVector<Rows, 3> rows_;
  stave::SmallVector<Parameter, 3> parameters_;
};

/// Calls draw(key of the element, element) for each element of the output.
template <class Draw>
void for_elements(const Inputs& in, Draw draw) {
  parallel_for(in.total(), sampler_grain, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      draw(in.key(i / in.each()).child(static_cast<std::uint64_t>(i % in.each())), i);
  });
}

/// Calls draw(key, first element, their number) for each key.
template <class Draw>
void for_arrays(const Inputs& in, Draw draw) {
  if (in.total() == 0) return;
  const Index grain = std::max<Index>(1, sampler_grain / in.each());
  parallel_for(in.total() / in.each(), grain, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) draw(in.key(i), i * in.each(), in.each());
  });
}

template <class T>
void draw_gammas(const Inputs& in, T* to, bool logarithm) {
  for_elements(in, [&](SamplerKey key, Index i) { to[i] = static_cast<T>(gamma_draw<T>(key, in[0][i], logarithm)); });
}
template <class T>
void draw_von_mises(const Inputs& in, T* to) {
  for_elements(in, [&](SamplerKey key, Index i) { to[i] = static_cast<T>(von_mises_draw(key, in[0][i])); });
}

}  // namespace

void run_sampler(OpId op, std::span<const View> inputs, const View& out) {
  const Inputs in(inputs, out);
  auto* const counts = static_cast<std::int32_t*>(out.data);
  const auto in_floats = [&](auto draw) {
    in.is_double() ? draw(static_cast<double*>(out.data)) : draw(static_cast<float*>(out.data));
  };
  switch (op) {
    case OpId::random_gamma:
    case OpId::random_loggamma: return in_floats([&](auto* to) { draw_gammas(in, to, op == OpId::random_loggamma); });
    case OpId::random_von_mises: return in_floats([&](auto* to) { draw_von_mises(in, to); });
    case OpId::random_poisson:
      return for_arrays(
          in, [&](SamplerKey key, Index first, Index n) { poisson_draws(key, in[0].from(first), counts + first, n); });
    case OpId::random_binomial:
      return for_arrays(in, [&](SamplerKey key, Index first, Index n) {
        binomial_draws(key, in[0].from(first), in[1].from(first), counts + first, n);
      });
    default:
      return for_elements(
          in, [&](SamplerKey key, Index i) { counts[i] = hypergeometric_draw(key, in[0][i], in[1][i], in[2][i]); });
  }
}

}  // namespace stave_cpu
