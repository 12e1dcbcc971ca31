// The plugin's functions, and the effects that it shares with the program.
// Everything else in both is compiled with hidden visibility.
#pragma once

#include <stave/stave.h>

#define PLUGIN extern "C" __attribute__((visibility("default")))

struct Rate {
  using Result = double;
};
struct Loud {
  using Result = int;
  int unhandled() const { return -1; }
};

/// d(x^2)/dx at x = 3.
PLUGIN double plugin_gradient();
/// Each performs its effect: `plugin_asks_rate` performs Rate, `plugin_asks_loud` performs Loud.
PLUGIN double plugin_asks_rate();
PLUGIN int plugin_asks_loud();
/// The result of body() under a handler of the plugin that answers Rate with 7.
PLUGIN double plugin_answers(double (*body)());
/// The number of operations of body() that a handler of the plugin receives.
PLUGIN int plugin_counts(void (*body)());
/// Returns true if a Profile that the plugin installs records a sin in body().
PLUGIN bool plugin_profiles_sin(void (*body)());
/// Sets `result` to sin(x) with a note on it. The note's owner has ended when the function returns.
PLUGIN void plugin_notes(const stave::Tensor& x, stave::Tensor& result);
