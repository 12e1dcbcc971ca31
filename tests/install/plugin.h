// What a program may ask of the plugin, and what effects they share. Both are compiled with everything else hidden.
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

/// d(x^2)/dx at 3.
PLUGIN double plugin_gradient();
/// Perform these effects.
PLUGIN double plugin_asks_rate();
PLUGIN int plugin_asks_loud();
/// body() under a handler of the plugin's that answers Rate by 7.
PLUGIN double plugin_answers(double (*body)());
/// The operations of body that a handler of the plugin's sees.
PLUGIN int plugin_counts(void (*body)());
/// Whether a Profile that the plugin installs sees a sin in body.
PLUGIN bool plugin_profiles_sin(void (*body)());
/// sin(x), with a note on it that has ended since.
PLUGIN void plugin_notes(const stave::Tensor& x, stave::Tensor& result);
