// check(holds, "what should hold") makes the examples tests as well: if `holds` is false, the
// program prints the text and ends with exit code 1. throws<E>(f) returns whether f throws an E.
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
