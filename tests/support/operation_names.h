// The operations that a function performs, for tests.
#pragma once

#include <string>
#include <vector>

#include <stave/core/op/op.h>

namespace stave_test {

/// Returns the names of the operations that reach a handler around f.
template <class F>
std::vector<std::string> operations_in(const F& f) {
  struct Names : stave::Handler {
    std::vector<std::string> all;
    std::string describe() const override { return "names"; }
    stave::Outputs handle(stave::Call& call) override {
      all.emplace_back(call.op().name);
      return perform(std::move(call));
    }
  } names;
  stave::with(names, f);
  return names.all;
}

}  // namespace stave_test
