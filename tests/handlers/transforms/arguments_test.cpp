// Arguments that are not tensors, through every function that wraps a function: string literals,
// views, C strings, enums, C arrays, functions, nullptr. A wrapper that stores an argument stores a
// copy, which refers to none of the caller's memory.
#include <span>
#include <string>
#include <string_view>

#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;

namespace {

enum Plain { once = 1, twice = 2 };
enum class Scoped { sine, cosine };
Tensor halved(const Tensor& x) { return x / 2.; }
Tensor doubled(const Tensor& x) { return 2. * x; }

// The factor by which each kind of argument scales.
double factor(const std::string& text) { return static_cast<double>(text.size()); }
Tensor by_string(const std::string& text, const Tensor& x) { return factor(text) * sin(x); }
Tensor by_view(std::string_view text, const Tensor& x) { return factor(std::string(text)) * sin(x); }
Tensor by_c_string(const char* text, const Tensor& x) { return (text ? factor(text) : 0.5) * sin(x); }
Tensor by_enum(Plain plain, const Tensor& x) { return static_cast<double>(plain) * sin(x); }
Tensor by_scoped(Scoped which, const Tensor& x) { return which == Scoped::sine ? sin(x) : 3. * sin(x); }
Tensor by_array(const int (&numbers)[3], const Tensor& x) { return (numbers[0] + numbers[2]) * sin(x); }
Tensor by_rows(const double (&rows)[2][2], const Tensor& x) { return (rows[0][1] + rows[1][0]) * sin(x); }
Tensor by_span(std::span<const float> numbers, const Tensor& x) { return numbers.back() * sin(x); }
Tensor by_null(std::nullptr_t, const Tensor& x) { return 7. * sin(x); }
Tensor by_function(Tensor (&f)(const Tensor&), const Tensor& x) { return f(sin(x)); }
Tensor by_pointer(Tensor (*f)(const Tensor&), const Tensor& x) { return f(sin(x)); }

const Tensor x = tensor({0.5, 1., 2.}, float64), xs = stack({x, 2. * x});

// Expects f(argument, x) to be by * sin(x), under every wrapper of f.
template <class F, class A>
void expect_scales(const F& f, A&& argument, double by, const char* what) {
  const auto loss = [&f](auto&& a, const Tensor& y) { return sum(f(a, y)); };
  const Tensor value = by * sin(x), slope = by * cos(x), values = by * sin(xs), slopes = by * cos(xs);
  EXPECT_THAT(f(argument, x), IsNear(value)) << what;
  EXPECT_THAT(compile(f)(argument, x), IsNear(value)) << what;
  const auto c = compile(f);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(c(argument, x), IsNear(value)) << what;
  EXPECT_EQ(c.recordings(), 1u) << what;
  EXPECT_THAT(vmap(c)(argument, xs), IsNear(values)) << what;
  EXPECT_THAT(grad<1>([&](auto&& a, const Tensor& y) { return sum(c(a, y)); })(argument, x), IsNear(slope)) << what;
  EXPECT_THAT(trace(f)(argument, x)(x), IsNear(value)) << what;
  EXPECT_THAT(vmap(f)(argument, xs), IsNear(values)) << what;
  EXPECT_THAT(debug(f, {.print = false})(argument, x), IsNear(value)) << what;
  EXPECT_THAT(grad<1>(loss)(argument, x), IsNear(slope)) << what;
  EXPECT_THAT((value_and_grad<1>(loss)(argument, x).grad), IsNear(slope)) << what;
  EXPECT_THAT(vmap(grad<1>(loss))(argument, xs), IsNear(slopes)) << what;
  EXPECT_THAT(jacrev<1>(f)(argument, x), IsNear(diag(slope))) << what;
  EXPECT_THAT(jacfwd<1>(f)(argument, x), IsNear(diag(slope))) << what;
  const auto checkpointed = [&](auto&& a, const Tensor& y) { return sum(checkpoint(f)(a, y)); };
  EXPECT_THAT(grad<1>(checkpointed)(argument, x), IsNear(slope)) << what;
  const auto with_rule =
      custom_jvp(f, [&](auto&& a, const Tensor& y, const Tensor& dy) { return std::pair(f(a, y), by * cos(y) * dy); });
  EXPECT_THAT(grad<1>([&](auto&& a, const Tensor& y) { return sum(with_rule(a, y)); })(argument, x), IsNear(slope))
      << what;
}

TEST(Arguments, PassThroughEveryWrapper) {
  expect_scales(by_string, "hidden", 6, "a string literal for a string");
  expect_scales(by_view, "hidden", 6, "a string literal for a view");
  expect_scales(by_c_string, "hidden", 6, "a string literal for a C string");
  expect_scales(by_string, std::string("four"), 4, "a string");
  expect_scales(by_view, std::string_view("hidden", 3), 3, "a view");
  const char* const text = "five!";
  const char* none = nullptr;
  expect_scales(by_c_string, text, 5, "a C string");
  expect_scales(by_c_string, none, 0.5, "no C string");
  expect_scales(by_enum, twice, 2, "an enum");
  expect_scales(by_scoped, Scoped::cosine, 3, "an enum class");
  const int numbers[3] = {1, 2, 3};
  expect_scales(by_array, numbers, 4, "an array");
  const double rows[2][2] = {{1, 2}, {3, 4}};
  expect_scales(by_rows, rows, 5, "an array of arrays");
  const float floats[2] = {1, 8};
  expect_scales(by_span, std::span<const float>(floats), 8, "a span");
  expect_scales(by_null, nullptr, 7, "nullptr");
  expect_scales(by_pointer, doubled, 2, "a function");
  expect_scales(by_pointer, &halved, 0.5, "a pointer to a function");
  expect_scales(by_function, doubled, 2, "a function by reference");
}

TEST(Arguments, DifferentContentsGiveDifferentSignatures) {
  const auto c = compile(by_view);
  std::string text = "one";
  EXPECT_THAT(c(text, x), IsNear(3. * sin(x)));
  EXPECT_THAT(c(std::string_view(text), x), IsNear(3. * sin(x)));
  text = "three";
  EXPECT_THAT(c(std::string_view(text), x), IsNear(5. * sin(x)));
  const auto of_array = compile(by_array);
  int numbers[3] = {1, 2, 3};
  EXPECT_THAT(of_array(numbers, x), IsNear(4. * sin(x)));
  numbers[2] = 5;
  EXPECT_THAT(of_array(numbers, x), IsNear(6. * sin(x)));
  const auto of_function = compile(by_pointer);
  EXPECT_THAT(of_function(doubled, x), IsNear(2. * sin(x)));
  EXPECT_THAT(of_function(halved, x), IsNear(sin(x) / 2.));
  EXPECT_THAT(of_function(doubled, x), IsNear(2. * sin(x)));
}

// Each argument's memory is changed, and then freed, before the wrapper uses its copy again.
TEST(Arguments, StoredArgumentsAreCopies) {
  const auto c = compile(by_view);
  const auto of_chars = compile(by_c_string);
  const auto of_span = compile(by_span);
  for (int i = 0; i < 3; ++i) {
    auto text = std::make_unique<std::string>("a text that is longer than small strings are");
    std::vector<float> floats{1, 9};
    EXPECT_THAT(c(std::string_view(*text), x), IsNear(44. * sin(x)));
    EXPECT_THAT(of_chars(text->c_str(), x), IsNear(44. * sin(x)));
    EXPECT_THAT(of_span(std::span<const float>(floats), x), IsNear(9. * sin(x)));
    text->assign(44, '-');
    floats.back() = 0;
  }
  EXPECT_EQ(c.recordings(), 1u);
  EXPECT_EQ(of_chars.recordings(), 1u);
  EXPECT_EQ(of_span.recordings(), 1u);
  auto text = std::make_unique<std::string>("a text that is longer than small strings are");
  const auto [value, pullback] = vjp(
      [&](const Tensor& y) {
        Tensor result = checkpoint(by_view)(std::string_view(*text), y) + checkpoint(by_c_string)(text->c_str(), y);
        text = nullptr;
        return result;
      },
      x);
  EXPECT_THAT(std::get<0>(pullback(ones_like(x))), IsNear(88. * cos(x)));
}

}  // namespace
