// Tests of the two transforms in tests/handlers/transforms/anew, which are written with the public
// headers only: the length of their sources, identities, nesting, higher-order operations and
// errors. tests/handlers/transforms/anew/table.cpp tests their derivatives of each operation.

#include <fstream>
#include <regex>

#include "anew/jvp.h"
#include "anew/shift_reset.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using T = const Tensor&;

Tensor number(double x) { return tensor(x, float64); }
const Tensor x3 = tensor({0.3, -1.2, 2.5}, float64);
Tensor s(T x) { return sin(x) * x; }

/// Returns the derivative of a function of one number.
template <class F>
auto by_jvp(F f) {
  return [f](T x) { return anew::jvp(f, x, ones_like(x)).second; };
}
template <class F>
auto by_grad(F f) {
  return [f](T x) { return anew::grad(f, x); };
}

struct Text {
  int lines = 0;  // without blank lines and comments
  std::string code;
};
Text text_of(const std::string& name) {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/handlers/transforms/anew/" + name);
  const std::regex nothing(R"(\s*(//.*)?)");
  Text text;
  for (std::string line; std::getline(file, line);)
    if (!std::regex_match(line, nothing)) {
      ++text.lines;
      text.code += line + "\n";
    }
  return text;
}

class Program : public testing::TestWithParam<const char*> {};
TEST_P(Program, IsShortAndUsesOnlyPublicHeaders) {
  const Text text = text_of(GetParam());
  EXPECT_GT(text.lines, 30) << "is the file there?";
  EXPECT_LE(text.lines, 80);
  EXPECT_THAT(text.code, testing::Not(HasSubstr("stave_detail")));
  EXPECT_THAT(text.code, HasSubstr("#include <stave/stave.h>"));
  EXPECT_THAT(text.code, testing::Not(HasSubstr("#include \"")));
  EXPECT_THAT(text.code, testing::Not(HasSubstr("#include <stave/handlers")));
}
INSTANTIATE_TEST_SUITE_P(Anew, Program, testing::Values("jvp.h", "shift_reset.h"), [](const auto& file) {
  return std::string(file.param).substr(0, std::string(file.param).size() - 2);
});

// ---- identities ---------------------------------------------------------------------------------

TEST(Anew, ArgumentDiffersFromTheSameTensorCaptured) {
  const Tensor x = number(3);
  EXPECT_THAT(by_jvp([&](T y) { return x * y; })(x), IsNumber(3, 0));
  EXPECT_THAT(by_grad([&](T y) { return x * y; })(x), IsNumber(3, 0));
  const std::vector<Tensor> twice{x, x}, along{number(1), Tensor()};
  const auto f = [](std::span<const Tensor> xs) { return Outputs(xs[0] * xs[0] * xs[1]); };
  EXPECT_THAT(anew::jvp(f, twice, along).tangents[0], IsNumber(18, 0));
  const auto one = [](const Outputs&) { return std::vector{number(1)}; };
  EXPECT_THAT(anew::vjp(f, twice, one).cotangents[0], IsNumber(18, 0));
  EXPECT_THAT(anew::vjp(f, twice, one).cotangents[1], IsNumber(9, 0));
}

TEST(Anew, ResultsMayBeArgumentsConstantsOrIntegers) {
  const auto identity = [](T x) { return x; };
  const auto constant = [](T) { return number(7); };
  const auto sign_bit = [](T x) { return astype(x, int32) * 2; };
  EXPECT_THAT(by_jvp(identity)(number(3)), IsNumber(1, 0));
  EXPECT_THAT(by_grad(identity)(number(3)), IsNumber(1, 0));
  EXPECT_THAT(by_jvp(constant)(number(3)), IsNumber(0, 0));
  EXPECT_THAT(by_grad(constant)(number(3)), IsNumber(0, 0));
  EXPECT_THAT(anew::jvp(sign_bit, number(3), number(1)).second, Equals(tensor(0)));
  EXPECT_THAT(by_grad([&](T x) { return x * astype(sign_bit(x), float64); })(number(3)), IsNumber(6, 0));
}

TEST(Anew, LeavesNoNotesAndNoMemory) {
  const Tensor x = x3;
  const std::size_t before = memory_stats().live_bytes;
  anew::jvp(s, x, x);
  anew::grad([](T t) { return sum(s(t)); }, x);
  EXPECT_EQ(memory_stats().live_bytes, before);
  EXPECT_EQ(live_notes(x), 0);
  EXPECT_EQ(live_notes(anew::jvp(s, x, x).first), 0);
}

// ---- nests --------------------------------------------------------------------------------------

TEST(Anew, NestsInItselfAndWithTheLibrary) {
  const double at = 0.7;
  const auto is = [](double expected) { return IsNumber(expected, 1e-12); };
  const auto f = [](T x) { return sin(x); };
  EXPECT_THAT(by_grad(by_jvp(by_grad(by_jvp(f))))(number(at)), is(std::sin(at)));
  EXPECT_THAT(by_jvp(by_jvp(by_grad(by_grad(f))))(number(at)), is(std::sin(at)));
  EXPECT_THAT(by_grad(grad(by_jvp(grad(f))))(number(at)), is(std::sin(at)));
  EXPECT_THAT(grad(by_grad(f))(number(at)), is(-std::sin(at)));
  EXPECT_THAT(jvp(by_grad(f), number(at), number(1)).second, is(-std::sin(at)));
}

TEST(Anew, NoPerturbationConfusion) {
  // d/dx [x d/dy (x + y)] = 1, d/dx [x d/dy (x y)] = 2 x
  const auto outer_jvp = by_jvp([](T x) { return x * by_grad([&](T y) { return x + y; })(x); });
  const auto outer_grad = by_grad([](T x) { return x * by_jvp([&](T y) { return x * y; })(x); });
  EXPECT_THAT(outer_jvp(number(5)), IsNumber(1, 0));
  EXPECT_THAT(outer_grad(number(5)), IsNumber(10, 0));
}

TEST(Anew, WorksInsideAndAroundVmap) {
  const Tensor expected = cos(x3) * x3 + sin(x3);
  EXPECT_THAT(vmap(by_grad(s))(x3), IsNear(expected));
  EXPECT_THAT(vmap(by_jvp(s))(x3), IsNear(expected));
  EXPECT_THAT(by_grad([](T x) { return sum(vmap(s)(x)); })(x3), IsNear(expected));
  EXPECT_THAT(by_jvp([](T x) { return vmap(s)(x); })(x3), IsNear(expected));
}

TEST(Anew, InnerAndOuterHandlersSeeItsOperations) {
  CountOps inside, outside;
  const auto f = [&](T x) { return with(inside, [&] { return sum(s(x)); }); };
  EXPECT_THAT(with(outside, [&] { return by_grad(f)(x3); }), IsNear(cos(x3) * x3 + sin(x3)));
  EXPECT_EQ(inside.n, 3);
  EXPECT_GT(outside.n, 3);
}

TEST(Anew, ValuesAreConcrete) {
  const auto f = [](T x) {
    Tensor y = x;
    while (y.item<double>() < 10) y = y * y;
    return y;
  };
  EXPECT_THAT(by_grad(f)(number(2)), IsNumber(4 * 8, 0));  // x^4
  EXPECT_THAT(by_jvp(f)(number(2)), IsNumber(4 * 8, 0));
}

TEST(Anew, DifferentiatesLongPrograms) {
  const auto chain = [](T x) {
    Tensor y = x;
    for (int i = 0; i < 1000; ++i) y = y * 1.001;
    return y;
  };
  EXPECT_THAT(by_grad(chain)(number(1)), IsNumber(std::pow(1.001, 1000), 1e-10));
  EXPECT_THAT(by_jvp(chain)(number(1)), IsNumber(std::pow(1.001, 1000), 1e-10));
}

// ---- higher-order operations --------------------------------------------------------------------

TEST(Anew, DifferentiatesValuesCapturedByCheckpoints) {
  int runs = 0;
  const auto f = [&](T w) {
    const auto layer = [&runs, w](T x) {
      ++runs;
      return sin(w * x);
    };
    return checkpoint(layer)(number(3));
  };
  EXPECT_THAT(by_grad(f)(number(0.4)), IsNumber(3 * std::cos(1.2), 1e-12));
  EXPECT_EQ(runs, 2);
  EXPECT_THAT(by_jvp(f)(number(0.4)), IsNumber(3 * std::cos(1.2), 1e-12));
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(by_grad(by_grad(f))(number(0.4)), IsNumber(-9 * std::sin(1.2), 1e-12));
  EXPECT_THAT(by_jvp(by_grad(f))(number(0.4)), IsNumber(-9 * std::sin(1.2), 1e-12));
  EXPECT_THAT(grad(by_grad(f))(number(0.4)), IsNumber(-9 * std::sin(1.2), 1e-12));
  EXPECT_THAT(by_grad(grad(f))(number(0.4)), IsNumber(-9 * std::sin(1.2), 1e-12));
}

// ---- errors -------------------------------------------------------------------------------------

TEST(Anew, ErrorsOfTheFunctionNameTheTransform) {
  const auto throws = [](T x) { return sum(x + zeros({7}, float64)); };
  EXPECT_THAT(message_of<ShapeError>([&] { by_grad(throws)(x3); }), HasSubstr("inside anew::vjp"));
  EXPECT_THAT(message_of<ShapeError>([&] { by_jvp(throws)(x3); }), HasSubstr("inside anew::jvp"));
  EXPECT_EQ(error_context(), "");
}

TEST(Anew, WrongDirectionsAreErrors) {
  EXPECT_THAT(message_of<ShapeError>([] { anew::jvp(s, x3, number(1)); }),
              HasSubstr("anew::jvp: the direction of primal 0 has another shape or dtype"));
  EXPECT_THAT(message_of<ShapeError>([] {
                anew::jvp([](auto xs) { return Outputs(xs[0]); }, std::span(&x3, 1), std::span<const Tensor>());
              }),
              HasSubstr("anew::jvp: give one direction for each primal"));
}

// A backend may add an operation like this one before anyone has written its rules.
TEST(Anew, AMissingRuleIsAnErrorThatNamesTheOperation) {
  const Op ruleless{.id = op_sin.id, .name = "ruleless", .infer = op_sin.infer};
  const auto f = [&](T x) { return apply(ruleless, {x}); };
  EXPECT_THAT(message_of<TransformError>([&] { by_jvp(f)(x3); }), HasSubstr("anew::jvp: no JVP rule: ruleless"));
  EXPECT_THAT(message_of<TransformError>([&] { by_grad(f)(x3); }), HasSubstr("anew::vjp: no VJP rule: ruleless"));
}

}  // namespace
