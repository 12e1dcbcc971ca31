// All public headers, and uses of most of their templates, compiled with the warnings that careful
// projects enable. No warning may appear.
#include <stave/stave.h>

#include <stave/backends/cpu/own_kernels.h>
#include <stave/handlers/compile/write_c.h>

#include <map>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace program {

using stave::Index;
using stave::Tensor;

struct Layer {
  Tensor weights, bias;
};
struct Model {
  std::vector<Layer> layers;
  std::map<std::string, Tensor> named;
  std::optional<Tensor> last;
  int depth = 0;
};

struct Rate {
  using Result = float;
};
struct Ask {
  using Result = Tensor;
  Tensor about;
  friend bool operator==(const Ask&, const Ask&) { return true; }
};

struct Counts final : stave::Handler {
  int calls = 0;
  stave::Outputs handle(stave::Call& call) override {
    ++calls;
    return perform(std::move(call));
  }
};
struct Constant final : stave::Handles<Rate, Ask> {
  float handle(Rate&) override { return 0.1f; }
  Tensor handle(Ask& ask) override { return sin(ask.about); }
};
struct Later final : stave::Controls<Rate, Ask> {
  stave::Resumption<Ask> rest{};
  void handle(Rate&, stave::Resumption<Rate> given) override { given.resume_last(0.1f); }
  void handle(Ask& ask, stave::Resumption<Ask> given) override { given.resume(cos(ask.about)); }
};
struct Holds final : stave::Controller {
  void handle(stave::Call& call, stave::Resumption<stave::Call> rest) override {
    rest.resume_last(perform(std::move(call)));
  }
};

inline Tensor loss(const Model& model, const Tensor& x) {
  Tensor y = x;
  for (const Layer& layer : model.layers) y = tanh(matmul(y, layer.weights) + layer.bias);
  return stave::mean(square(y), {0}, stave::keepdims)(0);
}
inline std::pair<Tensor, int> loss_and_number(const Tensor& x) { return {sum(square(x)), 3}; }

Index use(const Model& model, const Tensor& x);
Index use(const Model& model, const Tensor& x) {
  namespace sv = stave;
  const auto f = [](const Tensor& y) { return sum(sin(y) * y); };
  const auto two = [](const Tensor& a, const Tensor& b) { return std::tuple(a + b, a * b); };
  std::ostringstream out;

  // Tensors, shapes and axes.
  const Tensor m = sv::tensor({{1, 2}, {3, 4}}, sv::float32);
  out << m << m.shape() << m.dtype() << sv::reshape(m, {4}) << sv::zeros({3}) << sv::max(m, {0, -1})
      << m(0, sv::slice(1, sv::none));
  out << m.at(m < 0).set(0.) << m(sv::ellipsis, sv::newaxis, 0) << sv::from(std::vector<float>{1, 2})
      << sv::permute_dims(m, {1, 0});
  std::vector<double> numbers = astype(m, sv::float64).to_vector<double>();
  out << numbers.size() << m.item<float>() << static_cast<double>(m(0, 0)) << sv::unstack<2>(m)[0];

  // Transforms, alone and nested.
  const Model gradient = sv::grad(loss)(model, x);
  const auto [value, by_two] =
      sv::value_and_grad<0, 1>([&](const Tensor& a, const Tensor& b) { return f(a) + f(b); })(x, x);
  const auto with_aux = sv::value_and_grad(loss_and_number)(x);
  const auto [primal, tangent] = sv::jvp(f, x, x);
  const auto [primals, tangents] = sv::jvp(two, std::tuple(x, x), std::tuple(x, x));
  auto [result, pullback] = sv::vjp(two, x, x);
  const auto cotangents = pullback(result);
  const Tensor lanes = sv::vmap(sv::grad(f), {.in_axes = {0}, .out_axes = {1}})(x);
  const auto second = sv::hessian(f)(x);
  const auto product = sv::hvp(f, x, x);
  const auto forward = sv::jacfwd(two)(x, x);
  const auto reverse = sv::jacrev(two)(x, x);
  const auto linear = sv::linearize(f, x);
  const auto kept = sv::checkpoint(f)(x);
  const auto many = sv::loop(3, [](const Tensor& y) { return sin(y); }, {.snapshots = 2})(x);
  const auto compiled = sv::compile(sv::vmap(sv::grad(f)));
  const auto program = sv::trace(two)(x, x);
  const auto custom =
      sv::custom_vjp([](const Tensor& y) { return sin(y); }, [](const Tensor& y) { return std::pair(sin(y), y); },
                     [](const Tensor& y, const Tensor& ct) { return cos(y) * ct; });
  out << compiled(x) << sv::grad([&](const Tensor& y) { return sv::sum(custom(y)); })(x) << second << product;
  sv::check_grads(f, x);

  // Handlers, effects and controllers.
  Counts counts;
  Constant constant;
  Later later;
  Holds holds;
  out << sv::with(counts, [&] { return f(x); }) << sv::with(constant, [] { return sv::perform(Rate{}); });
  const std::optional<Tensor> answered = sv::with(later, [&] { return sv::perform(Ask{x}); });
  const auto eventual = sv::with(std::make_shared<Holds>(), [&] { return sin(x); });
  sv::with(holds, [&] { return f(x); });
  sv::Profile profile;
  sv::with(profile, [&] { return sv::debug(f, {.out = &out})(x); });
  const sv::Scope scope("scope");
  sv::report("loss", sum(x));
  const auto sown = sv::sow("x", x);

  // Trees, random numbers, optimizers, files.
  const auto keys = sv::split<3>(sv::Key(1));
  const auto drawn = sv::vmap([](sv::Key key) { return sv::normal(key, {2}); })(sv::split(keys[0], 4));
  sv::save_npz("x.npz", model);
  const Model loaded = sv::load_npz<Model>("x.npz");
  const auto optimizer = sv::adam({.learning_rate = 0.1});
  return static_cast<Index>(out.str().size()) + sum(drawn).item<Index>();
}

}  // namespace program
