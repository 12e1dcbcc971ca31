// A resonant low-pass filter, whose frequency and quality are learnt from a sound that went through
// it. The filter multiplies the spectrum of the sound; the loss compares magnitudes of short-time
// transforms, as ears do, so it does not depend on phases.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

constexpr Index length = 4096;
constexpr double rate = 16000;  // samples per second

struct Filter {
  Tensor log_frequency, log_quality;
};

// The response 1 / (1 + i r / q - r^2) of a damped oscillator at r = frequency / resonance.
Tensor filtered(const Tensor& sound, const Filter& filter) {
  const Tensor r = rfftfreq(length, 1 / rate, float64) * exp(-filter.log_frequency);
  return irfft(rfft(sound) / complex(1 - square(r), r * exp(-filter.log_quality)));
}

int main() {
  const Tensor sound = normal(Key(1), {length}, float64);
  const Tensor window = square(sin(arange(0, 256, 1, float64) * (3.141592653589793 / 256)));
  const auto magnitudes = [&](const Tensor& x) { return log(1e-3 + abs(stft(x, window, {.hop = 64}))); };

  const Filter unknown{tensor(std::log(1500.), float64), tensor(std::log(4.), float64)};
  const Tensor target = magnitudes(filtered(sound, unknown));
  const auto loss = [&](const Filter& f) { return mean(square(magnitudes(filtered(sound, f)) - target)); };

  Filter filter{tensor(std::log(600.), float64), tensor(0., float64)};
  const auto optimizer = adam({.learning_rate = 0.05});
  auto state = optimizer.init(filter);
  for (int step = 0; step <= 300; ++step) {
    if (step % 100 == 0)
      std::cout << "step " << step << ": " << exp(filter.log_frequency).item<double>() << " Hz, quality "
                << exp(filter.log_quality).item<double>() << ", loss " << loss(filter).item<double>() << "\n";
    std::tie(filter, state) = optimizer.update(filter, grad(loss)(filter), state);
  }
  check(allclose(exp(filter.log_frequency), tensor(1500., float64), 1e-3), "the frequency is found");
  check(allclose(exp(filter.log_quality), tensor(4., float64), 1e-3), "the quality is found");
}
