// Repeats each element a few times, for operands that are broadcast along a short last axis.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

namespace STAVE_KERNELS {

using stave_cpu::Index;

// Returns vector `part` of the elements of x, each repeated `copies` times:
// lane j is element (part * lanes + j) / copies.
template <int copies, int part, class Raw, int... lane>
STAVE_INLINE Raw repeated_part(Raw x, std::integer_sequence<int, lane...>) {
  constexpr int lanes = sizeof...(lane);
  return __builtin_shufflevector(x, x, ((part * lanes + lane) / copies)...);
}

template <class T, int copies, int... part>
STAVE_INLINE void repeat_vector(T* to, const T* from, std::integer_sequence<int, part...>) {
  using Vector = Vec<T>;
  const auto x = Vector::load(from).raw;
  (Vector{repeated_part<copies, part>(x, std::make_integer_sequence<int, Vector::lanes>())}.store(to +
                                                                                                  part * Vector::lanes),
   ...);
}

template <class T, int copies>
void repeat(void* out, const void* in, Index n) {
  T* to = static_cast<T*>(out);
  const T* const from = static_cast<const T*>(in);
  constexpr Index lanes = Vec<T>::lanes;
  Index i = 0;
  for (; i + lanes <= n; i += lanes, to += copies * lanes)
    repeat_vector<T, copies>(to, from + i, std::make_integer_sequence<int, copies>());
  for (; i < n; ++i)
    for (int k = 0; k < copies; ++k) *to++ = from[i];
}

template <class T, int... copies>
void fill_repeat_of(stave_cpu::RepeatKernel* kernels, std::integer_sequence<int, copies...>) {
  ((kernels[copies + 2] = repeat<T, copies + 2>), ...);
}

void fill_repeat(stave_cpu::Kernels& table) {
  const std::make_integer_sequence<int, stave_cpu::most_repeats - 1> from_two;
  fill_repeat_of<std::uint32_t>(table.repeat[0], from_two);
  fill_repeat_of<std::uint64_t>(table.repeat[1], from_two);
}

}  // namespace STAVE_KERNELS
