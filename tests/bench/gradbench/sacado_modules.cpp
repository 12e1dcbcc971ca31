// Sacado's reverse mode: a function is recorded in every run.
#include <Sacado_trad.hpp>

#include "plain_modules.h"

namespace gradbench {

namespace {

using Number = Sacado::Rad::ADvar<double>;

struct SacadoRad {
  // A sweep for each output.
  template <class F>
  auto record(const F& f, const Numbers&) const {
    return [=](const Numbers& at) {
      const std::vector<Number> x(at.begin(), at.end());
      std::vector<Number> outputs = f(x);
      std::vector<Number*> pointers;
      for (Number& output : outputs) pointers.push_back(&output);
      Numbers rows, weights(outputs.size());
      for (Size i = 0; i < outputs.size(); ++i) {
        std::fill(weights.begin(), weights.end(), 0.);
        weights[i] = 1;
        Number::Weighted_Gradcomp(outputs.size(), pointers.data(), weights.data());
        for (const Number& it : x) rows.push_back(it.adj());
      }
      return rows;
    };
  }
  template <class F>
  std::pair<double, Numbers> value_and_gradient(const F& f, const Numbers& at) const {
    const std::vector<Number> x(at.begin(), at.end());
    std::vector<Number> outputs = f(x);
    Number::Outvar_Gradcomp(outputs[0]);
    Numbers slopes;
    for (const Number& it : x) slopes.push_back(it.adj());
    return {outputs[0].val(), slopes};
  }
};

}  // namespace

Modules by_sacado() { return derivatives_by(SacadoRad()); }

}  // namespace gradbench
