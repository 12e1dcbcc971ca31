// ADOL-C: a function is traced once; the drivers evaluate the tape for given variables.
#include <adolc/adolc.h>

#include "plain_modules.h"

namespace gradbench {

namespace {

// The number of a tape, free again at the end.
class Tag {
 public:
  Tag() : number_(free().empty() ? next()++ : free().back()) {
    if (!free().empty()) free().pop_back();
  }
  ~Tag() { free().push_back(number_); }
  Tag(const Tag&) = delete;
  operator short() const { return number_; }

 private:
  static std::vector<short>& free() {
    static std::vector<short> numbers;
    return numbers;
  }
  static short& next() {
    static short number = 1;
    return number;
  }
  const short number_;
};

// Traces f, and returns its outputs. The buffers have many elements, so that tapes do not go
// through files. keep: 1 if a reverse sweep follows.
template <class F>
Numbers trace(short tag, const F& f, const Numbers& at, int keep = 0) {
  constexpr unsigned buffer = 1 << 24;
  trace_on(tag, keep, buffer, buffer, buffer, buffer);
  std::vector<adouble> variables(at.size());
  for (Size i = 0; i < at.size(); ++i) variables[i] <<= at[i];
  std::vector<adouble> outputs = f(variables);
  Numbers values(outputs.size());
  for (Size i = 0; i < outputs.size(); ++i) outputs[i] >>= values[i];
  trace_off();
  return values;
}

struct Adolc {
  static constexpr bool has_second_order = true;

  template <class F>
  auto record(const F& f, const Numbers& at) const {
    const auto tag = std::make_shared<Tag>();
    const int m = static_cast<int>(trace(*tag, f, at).size()), n = static_cast<int>(at.size());
    return [=](const Numbers& x) {
      Numbers all(static_cast<Size>(m * n));
      if (m == 1) {
        ::gradient(*tag, n, x.data(), all.data());
        return all;
      }
      std::vector<double*> rows;
      for (int i = 0; i < m; ++i) rows.push_back(all.data() + i * n);
      ::jacobian(*tag, m, n, x.data(), rows.data());
      return all;
    };
  }
  template <class F>
  std::pair<double, Numbers> value_and_gradient(const F& f, const Numbers& x) const {
    const Tag tag;
    const double value = trace(tag, f, x, 1)[0];
    double one = 1;
    Numbers slopes(x.size());
    ::reverse(tag, 1, static_cast<int>(x.size()), 0, &one, slopes.data());
    return {value, slopes};
  }
  template <class F>
  std::pair<Numbers, Numbers> gradient_and_product(const F& f, Numbers x, Numbers v) const {
    const Tag tag;
    const int n = static_cast<int>(x.size());
    trace(tag, f, x);
    Numbers slopes(x.size()), product(x.size());
    ::gradient(tag, n, x.data(), slopes.data());
    ::hess_vec(tag, n, x.data(), v.data(), product.data());
    return {slopes, product};
  }
};

}  // namespace

Modules by_adolc() { return derivatives_by(Adolc()); }

}  // namespace gradbench
