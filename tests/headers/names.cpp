// Names that programs commonly define, beside `using namespace stave`.
// None of them may be a name of Stave.
#include <stave/stave.h>
using namespace stave;

struct Linear {
  Tensor weights, bias;
};
struct Blocks {
  std::vector<Linear> all;
};
struct Forward {};
struct Reverse {};
struct Stop {
  using Result = void;
};
struct Cost {
  double dollars = 0;
};
struct Name {
  std::string text;
};
struct Stopwatch {
  double seconds = 0;
};
struct Starts {};
struct Bound {
  double low = 0, high = 1;
};
struct Surrounding {};
struct Root {};
struct Layer {};
struct Model {};
struct State {};
struct Step {};
struct Point {};
struct Range {};
struct Options {};
struct Result {};
struct Config {};
struct Batch {};
struct Data {};
struct Particle {};
enum class Pass { first, second };
enum class Mode { train, test };

const bool always = true, never = false, automatic = true, same = true, valid = true;
const double rate = 0.1, epsilon = 1e-6, alpha = 1, beta = 2;

Tensor cost(const Tensor& x) { return sum(square(x)); }
Tensor loss(const Tensor& x) { return mean(x); }
Tensor forward(const Tensor& x) { return tanh(x); }
Tensor model(const Tensor& x) { return sin(x); }
Tensor objective(const Tensor& x) { return sum(x); }
Tensor energy(const Tensor& x) { return sum(x); }
Tensor potential(const Tensor& x) { return sum(x); }
Tensor predict(const Tensor& x) { return x; }
Tensor step(const Tensor& x) { return x; }
Tensor update(const Tensor& x) { return x; }
Tensor simulate(const Tensor& x) { return x; }
Linear init(const Key& key) { return {normal(key, {2, 2}), zeros({2})}; }

Index use(const Tensor& x) {
  const Linear linear = init(Key(0));
  const Blocks blocks{{linear}};
  const Forward one{};
  const Reverse other{};
  const Cost total{1.};
  const Name name{"x"};
  const Stopwatch watch{1.};
  const Bound bound{};
  const Starts starts{};
  const Surrounding surrounding{};
  const Root root{};
  const Pass pass = Pass::first;
  static_cast<void>(std::tie(one, other, total, name, watch, bound, starts, surrounding, root, pass));
  if (always && !never && automatic && same && valid) perform(Stop{});
  const Tensor gradients = grad(cost)(x) + grad(loss)(x) + vmap(forward)(x) + vmap(model)(x) + grad(objective)(x) +
                           grad(energy)(x) + grad(potential)(x) + compile(predict)(x) + loop(2, step)(x);
  const Linear many = vmap(init)(split(Key(0), 3));
  return gradients.size() + many.weights.size();
}

int main() { return 0; }
