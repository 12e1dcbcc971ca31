// Fourier transforms as StableHLO, which transforms the last axis.
#include <stave/core/program/stablehlo_rules.h>

namespace stave_detail {

namespace {

// The transform of one kind, FFT, IFFT, RFFT or IRFFT, along the last axis. IFFT and IRFFT divide
// by the length, the others do not.
HloValue fft_along_last(HloBuilder& b, const char* kind, const HloValue& x, Index length, Dtype dtype,
                        Index out_length) {
  const Shape shape = hlo_with(x.shape, x.shape.size() - 1, out_length);
  return b.emit("fft", {x}, fmt::format(", type = {}, length = [{}]", kind, length), {dtype, shape});
}

HloValues transform(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<FftAttributes>();
  const auto axis = static_cast<std::size_t>(a.axis);
  const std::size_t last = c.in().shape.size() - 1;
  Shape exchanged = hlo_range(0, last + 1);  // this order of the axes is its own inverse
  std::swap(exchanged[axis], exchanged[last]);
  const auto moved = [&](const HloValue& x) { return axis == last ? x : b.transpose(x, exchanged); };
  const HloValue x = moved(c.in());
  const Index out_length = c.shape()[axis];
  const auto length = static_cast<double>(a.length);
  HloValue y;
  double factor = a.scale;
  switch (c.id()) {
    case OpId::fft:
      y = fft_along_last(b, a.inverse ? "IFFT" : "FFT", x, a.length, c.dtype(), out_length);
      if (a.inverse) factor *= length;
      break;
    case OpId::rfft:  // the signal is real: the other sign of the exponent gives the conjugates
      y = fft_along_last(b, "RFFT", x, a.length, c.dtype(), out_length);
      if (a.inverse) y = b.conj(y);
      break;
    default:
      y = fft_along_last(b, "IRFFT", a.inverse ? x : b.conj(x), a.length, c.dtype(), out_length);
      factor *= length;
  }
  if (factor != 1) y = b.times_real(y, b.number(factor, real_of(y.dtype), y.shape));
  return {moved(y)};
}

}  // namespace

HloRule hlo_rule_of_fourier(OpId id) {
  switch (id) {
    case OpId::fft:
    case OpId::rfft:
    case OpId::irfft: return transform;
    default: return nullptr;
  }
}

}  // namespace stave_detail
