// C source of programs: it computes what the programs do, bit for bit except in functions of libm.
#include <cmath>
#include <fstream>
#include <sstream>

#include <stave/handlers/compile/write_c.h>
#include <stave/handlers/transforms/loop.h>
#include <stave/stave.h>

#include "compiled_c.h"
#include "files.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string text_of(const Program& program, COptions options = {.name = "f"}) {
  std::ostringstream out;
  write_c(out, program, options);
  return out.str();
}

Tensor some(const Shape& shape, int seed, Dtype dtype = float64) {
  return normal(Key(static_cast<std::uint64_t>(seed)), shape, dtype);
}

// Compares the C of a program, by each compiler, with the program. Without `ulps` bits are equal.
void expect_same(const Program& program, const std::vector<Tensor>& inputs, double tolerance = 0) {
  const stave_detail::Lowered code = stave_detail::lower(program);
  const Outputs wanted = program(inputs);
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    for (const bool sanitized : {false, true}) {
      if (sanitized && &compiler != &c_compilers().front()) continue;  // takes a second
      const std::vector<Tensor> found = sanitized ? compiled.sanitized(inputs) : compiled(inputs);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (tolerance == 0) EXPECT_THAT(found[i], Equals(wanted[i])) << compiler << ", output " << i;
        else EXPECT_THAT(found[i], IsNear(wanted[i], tolerance)) << compiler << ", output " << i;
      }
    }
  }
}

TEST(WriteCPrograms, ArithmeticHasTheBitsOfTheLibrary) {
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor c = a * b + 0.1 * a - b / (1.5 + square(a));
    return std::tuple(c, where(c > 0, sqrt(abs(c)), c));
  };
  for (const Shape& shape : {Shape{3}, Shape{5, 7}, Shape{20, 30}})
    for (const Dtype dtype : {float32, float64}) {
      const Tensor a = some(shape, 1, dtype), b = some(shape, 2, dtype);
      expect_same(trace(f)(a, b), {a, b});
    }
}
TEST(WriteCPrograms, SumsAreCompensated) {
  const auto f = [](const Tensor& a) { return std::tuple(sum(a), mean(a, 0), sum(a, 1)); };
  for (const Shape& shape : {Shape{5, 7}, Shape{20, 30}}) {
    const Tensor a = some(shape, 1);
    expect_same(trace(f)(a), {a}, 1e-15);
  }
}
TEST(WriteCPrograms, GradientsAndBatchesEqualTheProgram) {
  const auto f = [](const Tensor& w, const Tensor& x) { return sum(square(matmul(w, x) - 1.)); };
  const Tensor w = some({4, 3}, 1), x = some({3}, 2), xs = some({6, 3}, 3);
  expect_same(trace(grad(f))(w, x), {w, x}, 1e-13);
  expect_same(trace(vmap(grad<1>(f), {.in_axes = {unmapped, 0}}))(w, xs), {w, xs}, 1e-13);
}
TEST(WriteCPrograms, FunctionsOfLibmAreWithinRounding) {
  const auto f = [](const Tensor& x) {
    return std::tuple(exp(sin(x)), tanh(x) * log1p(square(x)), gelu(x), sigmoid(x));
  };
  for (const Index n : {5, 200})
    for (const Dtype dtype : {float32, float64}) {
      const Tensor x = some({n}, 4, dtype);
      expect_same(trace(f)(x), {x}, dtype == float64 ? 1e-14 : 1e-6);
    }
}
TEST(WriteCPrograms, IntegersAndBoolsEqualTheProgram) {
  const auto f = [](const Tensor& a, const Tensor& b) {
    return std::tuple(a * b + a, floor_divide(a, b), bitwise_xor(a, b), logical_and(a > b, a != 3), astype(a, float64));
  };
  for (const Dtype dtype : {int8, uint16, int32, int64}) {
    const Tensor a = astype(arange(0, 100), dtype), b = astype(remainder(arange(0, 100) * 7, 11), dtype);
    expect_same(trace(f)(a, b), {a, b});
  }
}
TEST(WriteCPrograms, LoopsStayLoops) {
  const auto f = [](const Tensor& x) {
    return loop(200, [](const Tensor& y) { return y + 0.01 * (1. - square(y)); })(x);
  };
  const Tensor x = tensor({0.1, -0.5, 2.}, float64);
  const auto program = trace(f)(x);
  EXPECT_THAT(text_of(program), HasSubstr("for (int64_t i0 = 0; i0 < 200; ++i0) {"));
  expect_same(program, {x});
}

TEST(WriteCPrograms, TheSameProgramGivesTheSameText) {
  const auto f = [](const Tensor& x) { return sum(exp(x)); };
  const Tensor x = some({9}, 1);
  EXPECT_EQ(text_of(trace(grad(f))(x)), text_of(trace(grad(f))(x)));
}
TEST(WriteCPrograms, LabelsNameTheInputs) {
  const auto program = trace([](const Tensor& x) { return 2. * x; })(label(ones({3}, float64), "position"));
  EXPECT_THAT(text_of(program), HasSubstr("int f(const double* position, double* out0, f_workspace* work);"));
}
// docs/guides/c_source.md lists the functions that have no C, and factorizations that have.
TEST(WriteCPrograms, NamesOperationsThatHaveNoC) {
  const std::string guide = bytes_of(STAVE_SOURCE_DIR "/docs/guides/c_source.md");
  const std::string list = guide.substr(guide.find("## What cannot be written"));
  const Tensor a = eye(3, float64), v = ones({3}, float64);
  const auto refused = [&](const char* function, const char* operation, auto f, const Tensor& x) {
    SCOPED_TRACE(function);
    const std::string text = message_of<TransformError>([&] { text_of(trace(f)(x)); });
    EXPECT_THAT(text, HasSubstr(std::string("write_c: ") + operation + " ("));
    EXPECT_THAT(text, HasSubstr("compute it from other operations, or leave it out of the program"));
    EXPECT_THAT(list, HasSubstr(std::string("`") + function + "`"));
  };
#define REFUSED(function, operation, expression, x) \
  refused(                                          \
      function, operation, [](const Tensor& t) { return expression; }, x)
  REFUSED("eigh", "eigh", eigh(t).first, a);
  REFUSED("eigvalsh", "eigvalsh", eigvalsh(t), a);
  REFUSED("svd", "svd", std::get<1>(svd(t)), a);
  REFUSED("svdvals", "svdvals", svdvals(t), a);
  REFUSED("lstsq", "svd", lstsq(t, t), a);
  REFUSED("pinv", "svd", pinv(t), a);
  REFUSED("schur", "schur", schur(t).first, a);
  REFUSED("ldl", "ldl", std::get<0>(ldl(t)), a);
  REFUSED("expm", "expm", expm(t), a);
  REFUSED("sqrtm", "sqrtm", sqrtm(t), a);
  REFUSED("logm", "logm", logm(t), a);
  REFUSED("solve_sylvester", "sylvester", solve_sylvester(t, t, t), a);
  REFUSED("solve_banded", "solve_banded", solve_banded(t, t(0), {}), ones({1, 3}, float64));
  REFUSED("sinc", "sinc", sinc(t), v);
  REFUSED("gammainc", "gammainc", gammainc(t, 0.5), v);
  REFUSED("betainc", "betainc", betainc(t, t, 0.5), v);
  REFUSED("bessel_j0", "bessel_j", bessel_j0(t), v);
  REFUSED("expn", "expn", expn(2, t), v);
  REFUSED("scaled_dot_product_attention", "attention",
          scaled_dot_product_attention(t(newaxis), t(newaxis), t(newaxis))[0], a(newaxis));
  REFUSED("quantized_matmul", "quantized_matmul",
          quantized_matmul(t, quantize(ones({2, 8}, float64), {.group_size = 8})), ones({2, 8}, float64));
#undef REFUSED
  const auto draw = [&](const char* function, const char* operation, auto f) {
    EXPECT_THAT(message_of<TransformError>([&] { text_of(trace(f)(Key(1))); }),
                HasSubstr(std::string("write_c: ") + operation + " ("));
    EXPECT_THAT(list, HasSubstr(std::string("`") + function + "`"));
  };
  draw("gamma", "random_gamma", [](Key key) { return gamma(key, 2., {3}); });
  draw("permutation", "random_permutation", [](Key key) { return permutation(key, 5); });
  const auto written = [&](auto f) { return text_of(trace(f)(a)); };
  EXPECT_NO_THROW(written([](const Tensor& x) { return cholesky(x); }));
  EXPECT_NO_THROW(written([](const Tensor& x) { return qr(x).second; }));
  EXPECT_NO_THROW(written([](const Tensor& x) { return solve(x, x); }));
  EXPECT_NO_THROW(written([](const Tensor& x) { return inv(x); }));
  EXPECT_NO_THROW(written([](const Tensor& x) { return det(x) * x; }));
}
TEST(WriteCPrograms, NamesItselfWhereADtypeHasNoC) {
  const auto fault = [](auto f, const Tensor& x) { return message_of<DtypeError>([&] { text_of(trace(f)(x)); }); };
  const auto square = [](const Tensor& x) { return x * x; };
  EXPECT_THAT(fault(square, ones({3}, bfloat16)), HasSubstr("write_c: the program has values of bfloat16"));
  EXPECT_THAT(fault(square, ones({3}, float16)), HasSubstr("write_c: the program has values of float16"));
  EXPECT_THAT(fault([](const Tensor& x) { return solve(x, x); }, eye(2, complex128)),
              HasSubstr("write_c: lu on complex numbers"));
}

// ---- CasADi -------------------------------------------------------------------------------------

TEST(WriteCForCasadi, RefusesOtherDtypesAndRanks) {
  const auto twice = [](const Tensor& x) { return 2 * x; };
  const COptions options{.name = "f", .interface = Interface::casadi};
  EXPECT_THAT([&] { text_of(trace(twice)(ones({3}, float32)), options); },
              ThrowsMessage<DtypeError>(HasSubstr("input 0 is float32[3], but CasADi's numbers are float64")));
  EXPECT_THAT([&] { text_of(trace([](const Tensor& x) { return x > 0; })(ones({3}, float64)), options); },
              ThrowsMessage<DtypeError>(HasSubstr("output 0 is bool[3], but CasADi's numbers are float64")));
  EXPECT_THAT(
      [&] {
        text_of(trace(twice)(ones({2, 3, 4}, float64)), options);
      },
      ThrowsMessage<ShapeError>(HasSubstr("input 0 is float64[2,3,4], but CasADi's matrices have two axes")));
}
TEST(WriteCForCasadi, DerivativesAreWrittenOnRequest) {
  const auto program = trace([](const Tensor& x) { return sum(square(x)); })(ones({3}, float64));
  const std::string text =
      text_of(program, {.name = "f", .interface = Interface::casadi, .inputs = {"x"}, .outputs = {"y"}});
  EXPECT_THAT(text, HasSubstr("/* f:(x[3])->(y) */"));
  EXPECT_THAT(text, testing::Not(HasSubstr("jac_f")));
  const std::string all = text_of(program, {.name = "f",
                                            .interface = Interface::casadi,
                                            .inputs = {"x"},
                                            .outputs = {"y"},
                                            .jacobian = true,
                                            .forward = true,
                                            .reverse = true,
                                            .hessian = true});
  for (const char* const signature :
       {"/* f:(x[3])->(y) */", "/* jac_f:(x[3],out_y)->(jac_y_x[1x3]) */",
        "/* fwd1_f:(x[3],out_y,fwd_x[3])->(fwd_y) */", "/* adj1_f:(x[3],out_y,adj_y)->(adj_x[3]) */",
        "/* jac_adj1_f:(x[3],out_y,adj_y,out_adj_x[3])->(jac_adj_x_x[3x3],jac_adj_x_out_y[3],jac_adj_x_adj_y[3]) */"})
    EXPECT_THAT(all, HasSubstr(signature));
  EXPECT_THAT([&] { text_of(program, {.name = "f", .jacobian = true}); },
              ThrowsMessage<TransformError>(HasSubstr("derivatives by option are for Interface::casadi")));
}
TEST(WriteCForCasadi, DerivativesMayBeTracedAtExampleArguments) {
  const auto f = [](const Tensor& a) { return sum(cholesky(a - 3. * eye(2, float64))); };
  const Tensor a = tensor({{5., 1.}, {1., 6.}}, float64);
  COptions options{.name = "f", .interface = Interface::casadi, .jacobian = true};
  EXPECT_THROW(text_of(trace(f)(a), options), LinalgError);
  options.examples = {a};
  EXPECT_THAT(text_of(trace(f)(a), options), HasSubstr("int jac_f("));
}
// The file compiles strictly, as C and with its header as C++.
TEST(WriteCForCasadi, CompilersDoNotWarn) {
  const auto f = [](const Tensor& a, const Tensor& x, const Tensor& big) {
    return std::tuple(matmul(a, x), 3. * a, sum(where(big > 0, big, 0.5 * big)));
  };
  const auto program = trace(f)(some({2, 3}, 1), some({3}, 2), some({10, 10}, 3));
  Folder folder;
  std::ostringstream header;
  with_bytes(folder / "f.c", text_of(program, {.name = "f",
                                               .header = &header,
                                               .interface = Interface::casadi,
                                               .jacobian = true,
                                               .forward = true,
                                               .reverse = true,
                                               .hessian = true}));
  with_bytes(folder / "f.h", header.str());
  with_bytes(folder / "f.cpp",
             "#include \"f.h\"\nint (*g)(const double**, double**, long long*, double*, int) = jac_f;\n");
  for (const std::string& compiler : c_compilers())
    EXPECT_NO_THROW(run("cd " + folder.path + " && " + compiler + strict_c + "-c f.c", folder / "log"));
  EXPECT_NO_THROW(
      run("cd " + folder.path + " && c++ -std=c++11 -Wall -Wextra -pedantic -Werror -Wno-long-long -c f.cpp",
          folder / "log"));
}

}  // namespace
