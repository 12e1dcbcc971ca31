// The text of C source from lowered code: names, numbers, tables, memory, and what is refused.
#include <cmath>
#include <cstring>
#include <limits>
#include <locale>

#include <stave/core/program/write_c_text.h>
#include <stave/stave.h>

#include "compiled_c.h"
#include "lowered.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using stave_detail::Lowered;
using stave_detail::LoweredBuilder;
using stave_detail::ScalarOp;
using testing::HasSubstr;

// ---- the text -----------------------------------------------------------------------------------

using Kind = Lowered::Buffer::Kind;

std::string plain_text(const Lowered& code, stave_detail::CSignature signature = {.name = "f"},
                       std::string* header = nullptr) {
  std::ostringstream out, declarations;
  stave_detail::write_c_plain(out, &declarations, code, std::move(signature));
  if (header) *header = declarations.str();
  return out.str();
}

// out0[i] = sum over j of in0[i, j]
Lowered row_sums() {
  return code_with({{float64, {100, 8}, "w"}}, {{float64, {100}}}, [](Lowered&, LoweredBuilder& b) {
    const int i = b.begin_loop(100), zero = b.number(0., float64), sum = b.carried(zero), j = b.begin_loop(8);
    const int place = b.add(ScalarOp::add, b.add(ScalarOp::multiply, i, b.number(8, int64)), j);
    b.next(sum, b.add(ScalarOp::add, sum, b.load(0, place, 0)));
    b.end_loop();
    b.store(1, i, 0, sum);
    b.end_loop();
  });
}

TEST(WriteCText, LoopsStayLoopsAndIndicesAreReadable) {
  const std::string text = plain_text(row_sums());
  EXPECT_THAT(text, HasSubstr(R"(int f(const double* restrict w, double* restrict out0, f_workspace* restrict work)
{
  (void)work;
  for (int64_t i0 = 0; i0 < 100; ++i0) {
    double v2 = 0.0;
    for (int64_t i1 = 0; i1 < 8; ++i1) {
      const double v7 = w[i0 * 8 + i1];
      const double v8 = v2 + v7;
      v2 = v8;
    }
    out0[i0] = v2;
  }
  return 0;
}
)"));
}

TEST(WriteCText, TheHeaderHasSizesShapesNamesAndTheContract) {
  std::string header;
  plain_text(row_sums(), {.name = "sums", .inputs = {"layer.w"}, .outputs = {"total"}}, &header);
  for (const char* const line : {"#define sums_inputs 1\n", "#define sums_layer_w_size 800 /* float64[100,8] */\n",
                                 "#define sums_layer_w_shape {100, 8}\n", "#define sums_input_names {\"layer_w\"}\n",
                                 "#define sums_work_size sizeof(sums_workspace)\n",
                                 "int sums(const double* layer_w, double* total, sums_workspace* work);\n"})
    EXPECT_THAT(header, HasSubstr(line));
}

TEST(WriteCText, HeaderCompilesAsCPlusPlus) {
  Folder folder;
  std::string header;
  plain_text(row_sums(), {.name = "f"}, &header);
  with_bytes(folder / "f.h", header);
  with_bytes(folder / "f.cpp",
             "#include \"f.h\"\n#include \"f.h\"\nint (*g)(const double*, double*, f_workspace*) = f;\n");
  EXPECT_NO_THROW(
      run("cd " + folder.path + " && c++ -std=c++11 -Wall -Wextra -pedantic -Werror -c f.cpp", folder / "log"));
}

TEST(WriteCText, IsTheSameInEveryLocale) {
  const std::string text = plain_text(row_sums());
  std::ostringstream out;
  struct Grouped : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\1"; }
  };
  out.imbue(std::locale(std::locale::classic(), new Grouped));
  stave_detail::write_c_plain(out, nullptr, row_sums(), {.name = "f"});
  EXPECT_EQ(out.str(), text);
}

TEST(WriteCText, NamesBecomeUniqueUnreservedIdentifiers) {
  const Argument one{float64, {}};
  const auto named = [&](const char* label) { return Argument{float64, {}, label}; };
  const Lowered code =
      code_with({named("a.b"), named("a b"), named("double"), named("expf"), named("v1"), named("3d"), named(""),
                 named("work"), named("f_digamma"), named("größe"), named("__"), named("class")},
                {one}, [](Lowered&, LoweredBuilder& b) { b.store(12, -1, 0, b.load(0, -1, 0)); });
  EXPECT_THAT(
      plain_text(code),
      HasSubstr(
          "int f(const double* a_b, const double* a_b_2, const double* double_x, const double* expf_x, const double* "
          "v1_x, const double* x3d, const double* in6, const double* work_x, const double* x_f_digamma, const "
          "double* gr_e, const double* x, const double* class_x, double* out0, f_workspace* work);"));
  for (const std::string& compiler : c_compilers())
    EXPECT_EQ(CompiledC(code, compiler)(std::vector<Tensor>(12, tensor(2.5, float64)))[0].item<double>(), 2.5);
}

TEST(WriteCText, RefusesInvalidNames) {
  for (const char* const name : {"", "3f", "a b", "while", "f-g"})
    EXPECT_THAT([&] { plain_text(row_sums(), {.name = name}); },
                testing::ThrowsMessage<TransformError>(HasSubstr("is not a name of C: give one as .name")));
  for (const char* const name : {"sin", "sinf", "y0", "INT32_MAX", "HUGE_VAL", "M_PI", "int_fast8_t", "double_t"})
    EXPECT_THAT([&] { plain_text(row_sums(), {.name = name}); },
                testing::ThrowsMessage<TransformError>(HasSubstr("is a name of the C library: give another one")));
  EXPECT_THAT(plain_text(row_sums(), {.name = "f", .inputs = {"INT32_MAX"}}), HasSubstr("INT32_MAX_x"));
  EXPECT_THAT(plain_text(row_sums(), {.name = "INT8_model", .inputs = {"M_in"}}), HasSubstr("M_in"));
  EXPECT_THAT(
      [&] {
        plain_text(row_sums(), {.name = "f", .inputs = {"a", "b"}});
      },
      testing::ThrowsMessage<TransformError>(HasSubstr("2 names of inputs are given, but there are 1")));
}

TEST(WriteCText, RefusesHalfFloats) {
  const Lowered code = code_with({{float16, {}}}, {{float16, {}}},
                                 [](Lowered&, LoweredBuilder& b) { b.store(1, -1, 0, b.load(0, -1, 0)); });
  EXPECT_THAT(
      [&] { plain_text(code); },
      testing::ThrowsMessage<DtypeError>(HasSubstr("C has no type for elements of float16; convert them with astype")));
}

// ---- loops and memory ---------------------------------------------------------------------------

TEST(WriteC, CarriedValuesAreUpdatedTogether) {
  // (a, b, c) -> (b, a, b + c), 7 times
  const Lowered code = code_with({{int32, {3}}}, {{int32, {3}}}, [](Lowered&, LoweredBuilder& b) {
    const int x = b.load(0, -1, 0), y = b.load(0, -1, 1), z = b.load(0, -1, 2);
    const int p = b.carried(x), q = b.carried(y), r = b.carried(z);
    b.begin_loop(7);
    const int sum = b.add(ScalarOp::add, q, r);
    b.next(p, q);
    b.next(q, p);
    b.next(r, sum);
    b.end_loop();
    b.store(1, -1, 0, p);
    b.store(1, -1, 1, q);
    b.store(1, -1, 2, r);
  });
  for (const std::string& compiler : c_compilers())
    EXPECT_THAT(CompiledC(code, compiler)({tensor({1, 10, 100})})[0], Equals(tensor({10, 1, 100 + 4 * 10 + 3 * 1})));
}

TEST(WriteC, LoopsMayHaveAComputedNumberOfSteps) {
  const Lowered code = code_with({{int64, {}}}, {{int64, {}}}, [](Lowered&, LoweredBuilder& b) {
    const int n = b.load(0, -1, 0), zero = b.number(0, int64), sum = b.carried(zero), i = b.begin_loop_of(n);
    b.next(sum, b.add(ScalarOp::add, sum, i));
    b.end_loop();
    b.store(1, -1, 0, sum);
  });
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    for (const std::int64_t n : {-3, 0, 1, 5})
      EXPECT_EQ(compiled({tensor(n, int64)})[0].item<std::int64_t>(), n > 0 ? n * (n - 1) / 2 : 0);
  }
}

TEST(WriteC, EachDtypeHasAWorkspaceOfItsOwn) {
  // Doubles, floats and bools at overlapping and at distinct places.
  const Lowered code = code_with({{float64, {100}}}, {{float64, {100}}}, [](Lowered& to, LoweredBuilder& b) {
    const int doubles = b.add_buffer({Kind::work, float64, 100, -1, {}, 64});
    const int more = b.add_buffer({Kind::work, float64, 100, -1, {}, 896});
    const int floats = b.add_buffer({Kind::work, float32, 100, -1, {}, 1728});
    const int bools = b.add_buffer({Kind::work, bool_, 100, -1, {}, 0});
    to.work_bytes = 2176;
    int i = b.begin_loop(100);
    const int x = b.load(0, i, 0);
    b.store(doubles, i, 0, b.add(ScalarOp::multiply, x, x));
    b.store(more, i, 0, b.add(ScalarOp::add, x, x));
    b.store(floats, i, 0, b.add(ScalarOp::convert, x, -1, -1, float32));
    b.store(bools, i, 0, b.add(ScalarOp::less, x, b.number(0., float64)));
    b.end_loop();
    i = b.begin_loop(100);
    const int single = b.add(ScalarOp::convert, b.load(floats, i, 0), -1, -1, float64);
    const int sum = b.add(ScalarOp::add, b.load(doubles, i, 0), b.add(ScalarOp::add, b.load(more, i, 0), single));
    b.store(1, i, 0, b.add(ScalarOp::select, b.load(bools, i, 0), b.add(ScalarOp::negative, sum), sum));
    b.end_loop();
  });
  std::string header;
  plain_text(code, {.name = "f"}, &header);
  EXPECT_THAT(header, HasSubstr("  double float64[204];\n  float float32[100];\n  bool bool_[100];\n"));
  const Tensor x = linspace(-1, 1, 100, float64);
  const Tensor sum = x * x + ((x + x) + astype(astype(x, float32), float64)), wanted = where(x < 0, -sum, sum);
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    EXPECT_THAT(compiled({x})[0], Equals(wanted)) << compiler;
    EXPECT_THAT(compiled.sanitized({x})[0], Equals(wanted)) << compiler;
  }
}

TEST(WriteC, ReturnsTheNumberOfAnError) {
  const Lowered code = code_with({{float64, {2}}}, {{float64, {}}}, [](Lowered&, LoweredBuilder& b) {
    const int zero = b.number(0., float64), x = b.load(0, -1, 0), y = b.load(0, -1, 1);
    b.check(b.add(ScalarOp::less, zero, x), "the first \"number\" */ is not positive\?\?/\n");
    b.check(b.add(ScalarOp::less, zero, y), "the second one is not positive");
    b.store(1, -1, 0, b.add(ScalarOp::divide, x, y));
  });
  EXPECT_THAT(plain_text(code), HasSubstr("Returns 0, or the number of an error; then the outputs are undefined:\n"
                                          "     1  the first \"number\" * / is not positive? ?/_\n"
                                          "     2  the second one is not positive\n"));
  EXPECT_THAT(plain_text(code), HasSubstr(R"(case 1: return "the first \"number\" */ is not positive\?\?/\012";)"));
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    EXPECT_EQ(compiled({tensor({3., 2.}, float64)})[0].item<double>(), 1.5);
    compiled({tensor({-3., 2.}, float64)}, 1);
    compiled({tensor({3., 0.}, float64)}, 2);
  }
}

// Compilers do not warn of unused values and arguments, operations on numbers alone, comparisons
// that are always true, or arrays without elements.
TEST(WriteC, CompilersDoNotWarnOfDegenerateCode) {
  const Lowered code = code_with({{uint8, {2}}, {float64, {0}}, {float32, {3}}},
                                 {{bool_, {4}}, {float64, {2}}, {float64, {0}}}, [](Lowered&, LoweredBuilder& b) {
                                   const int x = b.load(0, -1, 0), most = b.number(255, uint8),
                                             zero = b.number(0, uint8);
                                   b.load(2, -1, 1);
                                   b.store(3, -1, 0, b.add(ScalarOp::less_equal, x, most));
                                   b.store(3, -1, 1, b.add(ScalarOp::less, x, zero));
                                   b.store(3, -1, 2, b.add(ScalarOp::equal, x, x));
                                   b.store(3, -1, 3, b.add(ScalarOp::not_equal, x, x));
                                   const int huge = b.number(1e308, float64), ten = b.number(10., float64);
                                   b.store(4, -1, 0, b.add(ScalarOp::multiply, huge, ten));
                                   b.store(4, -1, 1, b.add(ScalarOp::divide, ten, b.number(0., float64)));
                                   b.begin_loop(0);
                                   b.end_loop();
                                 });
  for (const std::string& compiler : c_compilers()) {
    const std::vector<Tensor> found =
        CompiledC(code, compiler)({tensor({7, 8}, uint8), zeros({0}, float64), zeros({3}, float32)});
    EXPECT_THAT(found[0], Equals(tensor({true, false, true, false})));
    EXPECT_THAT(found[1], Equals(tensor({HUGE_VAL, HUGE_VAL}, float64)));
  }
}

}  // namespace
