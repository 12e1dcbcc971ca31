// check(holds, "what should hold"): the examples are tests as well. Where it does not, the program says so and ends with 1.
// throws<E>(f): whether f throws an E.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string_view>

template <class E, class F>
bool throws(F f) {
  try {
    f();
  } catch (const E&) {
    return true;
  }
  return false;
}

inline void check(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << std::endl;
  std::exit(1);
}
