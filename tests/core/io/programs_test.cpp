// Programs in files: a loaded program is the same program, and can be differentiated, batched,
// optimised and compiled; what a file cannot hold is refused by name; damaged text is an error that
// names the instruction. table/saved.cpp does so for each operation, fuzz/files.cpp with random
// damage.

#include <bit>
#include <functional>
#include <limits>

#include <stave/core/io/program_attributes.h>
#include <stave/core/io/program_text.h>
#include <stave/core/io/programs.h>
#include <stave/core/op/define.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace programs_test {

using namespace stave;
using namespace stave_test;
using stave_detail::same_bits;
using stave_detail::same_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

using T = const Tensor&;
using Tensors = std::vector<Tensor>;

const std::string data = STAVE_SOURCE_DIR "/tests/data/";

Program saved_and_loaded(const Program& program) {
  const Folder folder;
  save_program(folder / "p.stave", program);
  return load_program(folder / "p.stave");
}

/// Expects that a program is the same after saving and loading, and gives the same bits.
void expect_same(const Program& program, const Tensors& inputs) {
  const Program again = saved_and_loaded(program);
  EXPECT_EQ(again.str(), program.str());
  EXPECT_TRUE(same_program(program, again));
  const Outputs expected = program(inputs), found = again(inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined());
    if (found[i].defined()) {
      EXPECT_TRUE(same_bits(found[i], expected[i]));
    }
  }
}

const Tensor weights = tensor({1.5, -2.5}), rows = tensor({{1., 2.}, {3., 4.}, {5., 6.}});

Tensor layer(T w, T x) {
  const Scope scope("layer");
  return label(tanh(matmul(x, w)) * 0.5, "hidden");
}
Tensor loss(T w, T x) { return sum(square(layer(w, x)) + 1.); }
Tensor last_state(T w) {
  const auto step = [](T state, T row) { return std::pair(sin(state) * row, state + row); };
  return scan(step)(w, full({7, 2}, 0.25)).first;
}
Tensor nested(T w) {
  return loop(3, [](T state) { return cos(loop(2, [](T inner) { return sin(inner) + 0.5; })(state)); })(w);
}
Tensor forgotten(T w) {
  return sum(checkpoint([](T x) { return sin(x) * x; })(w) +
             checkpoint([](T x) { return label(exp(x), "exp"); }, save_only_these_labels("exp"))(w));
}

// ---- round trips --------------------------------------------------------------------------------

TEST(Programs, AreTheSameAfterLoading) {
  expect_same(trace(loss)(weights, rows), {weights, rows});
  expect_same(optimized(trace(loss)(weights, rows)), {weights, rows});
  expect_same(trace(grad(loss))(weights, rows), {weights, rows});
  expect_same(optimized(trace(grad(loss))(weights, rows)), {weights, rows});
}

TEST(Programs, LoopsSurviveSavingAndLoading) {
  expect_same(trace(last_state)(weights), {weights});
  expect_same(trace(nested)(weights), {weights});
  for (const auto& f : {last_state, nested}) {
    const auto gradient = trace(grad([f](T w) { return sum(f(w)); }))(weights);
    expect_same(gradient, {weights});
    expect_same(optimized(gradient), {weights});
  }
}

TEST(Programs, CheckpointsSurviveSavingAndLoading) {
  expect_same(trace(forgotten)(weights), {weights});
  expect_same(trace(grad(forgotten))(weights), {weights});
}

TEST(Programs, ReadsSurviveSavingAndLoading) {
  const auto branches = [](T w) { return sum(w).item<float>() < 0 ? w * 2. : w * 3.; };
  const Program program = trace(branches)(weights), again = saved_and_loaded(program);
  expect_same(program, {weights});
  EXPECT_THROW(again(Tensors{weights * 2.}), TransformError);
}

TEST(Programs, LoopAttributesAreKept) {
  const auto gradient =
      trace(grad([](T w) { return sum(loop(9, [](T s) { return sin(s); }, {.snapshots = 2})(w)); }))(weights);
  const Program again = saved_and_loaded(gradient);
  std::size_t also = 0;
  for (std::size_t k = 0; k < gradient.instructions.size(); ++k) {
    const LoopAttributes* const loop = stave_detail::loop_of(gradient.instructions[k]);
    if (!loop) continue;
    const LoopAttributes* const found = stave_detail::loop_of(again.instructions[k]);
    EXPECT_TRUE(found && loop->equals(*found));
    ASSERT_EQ(!found->also_body, !loop->also_body);
    EXPECT_EQ(found->also_inputs, loop->also_inputs);
    EXPECT_EQ(found->also_outputs, loop->also_outputs);
    if (loop->also_body) {
      EXPECT_TRUE(same_program(*loop->also_body, *found->also_body));
      ++also;
    }
  }
  EXPECT_GT(also, 0u);
}

TEST(Programs, NumbersAreExact) {
  const double nan = std::bit_cast<double>(std::uint64_t{0x7ff8000000001234}), infinity = INFINITY;
  for (const double number : {0.1, -0.0, nan, infinity, -infinity, 1e308, 5e-324, 9007199254740993.0}) {
    Program program;
    const int in = program.add_variable({2}, float64), out = program.add_variable({4}, float64);
    program.inputs = {in};
    program.outputs = {out, -1};
    Program::Instruction pad{&op_pad, make_intrusive<PadAttributes>(Shape{4}, Shape{1}, Shape{1}, number)};
    pad.inputs.push_back(in);
    pad.outputs.push_back(out);
    pad.barrier = std::numeric_limits<std::uint64_t>::max();
    program.instructions.push_back(pad);
    const Program again = saved_and_loaded(program);
    EXPECT_TRUE(same_program(program, again)) << number;
    EXPECT_EQ(again.instructions[0].barrier, pad.barrier);
  }
  const auto most = std::numeric_limits<std::uint64_t>::max();
  expect_same(trace([=](T x) { return x + full({3}, most, uint64); })(zeros({3}, uint64)), {zeros({3}, uint64)});
  expect_same(trace([](T x) {
                return x + tensor({-0.0, INFINITY, NAN}, float64);
              })(zeros({3}, float64)),
              {zeros({3}, float64)});
}

TEST(Programs, ConstantsAreStoredOnce) {
  const Tensor big = ones({1000}) * 3.;
  const Program program = trace([&](T x) { return (x + big) * big + x * 2.; })(big);
  const stave_detail::ProgramText text = stave_detail::text_of(program, "");
  std::size_t elements = 0;
  for (const Tensor& x : text.tensors) elements += static_cast<std::size_t>(x.size());
  EXPECT_EQ(elements, 1001u);
}

// ---- loaded programs ----------------------------------------------------------------------------

TEST(LoadedPrograms, CanBeTransformed) {
  const Program again = saved_and_loaded(trace(loss)(weights, rows));
  const auto f = [&](T w, T x) { return again(Tensors{w, x})[0]; };
  EXPECT_TRUE(same_bits(f(weights, rows), loss(weights, rows)));
  EXPECT_TRUE(same_bits(grad(f)(weights, rows), grad(loss)(weights, rows)));
  EXPECT_TRUE(same_bits(compile(grad(f))(weights, rows), grad(loss)(weights, rows)));
  const Tensor both = stack({weights, weights * 2.});
  const auto by_lane = [&](const auto& g) { return vmap([&](T w) { return g(w, rows); })(both); };
  EXPECT_TRUE(same_bits(by_lane(f), by_lane(loss)));
  EXPECT_TRUE(same_program(optimized(again), optimized(trace(loss)(weights, rows))));
}

TEST(LoadedPrograms, LoopsHaveDerivatives) {
  const Program again = saved_and_loaded(trace([](T w) { return sum(nested(w)); })(weights));
  const auto f = [&](T w) { return again(Tensors{w})[0]; };
  EXPECT_TRUE(same_bits(grad(f)(weights), grad([](T w) { return sum(nested(w)); })(weights)));
}

TEST(LoadedPrograms, FilesOfTheFirstVersionCanBeLoaded) {
  const Program program = load_program(data + "program_1.stave");
  EXPECT_TRUE(same_program(program, optimized(trace(grad(loss))(weights, rows)))) << program;
  const Program loop = load_program(data + "program_loop_1.stave");
  EXPECT_THAT(loop(Tensors{weights})[0], IsNear(last_state(weights)));
}

// ---- what a file cannot hold --------------------------------------------------------------------

std::string refusal(const Program& program) {
  return message_of<TransformError>([&] { stave_detail::text_of(program, "save_program: p.stave"); });
}

TEST(Programs, RefuseOperationsThatAFileCannotHold) {
  static const Op twice = {.name = "twice",
                           .infer =
                               [](const Call& call, SmallVector<Abstract, 1>& outputs) {
                                 outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
                               },
                           .cpu = [](const Attributes*, std::span<const View>, std::span<const View>) {}};
  EXPECT_THAT(refusal(trace([](T w) { return apply(twice, {w}); })(weights)),
              StartsWith("save_program: p.stave: the operation 'twice' is not one of all_ops.h"));
  const auto clipped = custom_vjp([](T x) { return sin(x); }, [](T x) { return std::pair(sin(x), x); },
                                  [](T x, T ct) { return ct * cos(x); });
  EXPECT_THAT(refusal(trace([&](T w) { return clipped(w); })(weights)),
              HasSubstr("custom_vjp called has rules that are C++ functions"));
  EXPECT_THAT(refusal(trace([](T w) { return checkpoint([](T x) { return sin(x); }, products_saveable)(w); })(weights)),
              HasSubstr("the policy of checkpoint is a C++ function"));
  // A program without the rules can be saved.
  expect_same(with_calls_inlined(trace([&](T w) { return clipped(w); })(weights)), {weights});
}

// ---- damage -------------------------------------------------------------------------------------

/// Returns the fault of the program's text in which `what` is replaced.
std::string fault(const Program& program, const std::string& what, const std::string& by) {
  const stave_detail::ProgramText written = stave_detail::text_of(program, "");
  std::string text = written.text;
  const std::size_t at = text.find(what);
  if (at == text.npos) return "the text has no " + what + ": " + text;
  text.replace(at, what.size(), by);
  std::map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < written.tensors.size(); ++i) tensors.emplace(std::to_string(i), written.tensors[i]);
  return message_of<FileError>([&] { stave_detail::program_of(text, tensors, "p.stave"); });
}

TEST(DamagedPrograms, ErrorNamesTheInstruction) {
  const Program p = trace(loss)(weights, rows);
  EXPECT_EQ(fault(p, "\"op\":\"tanh\"", "\"op\":\"tanhh\""),
            "p.stave: instruction 3 of program 0 ('tanhh'): this version of the library has no operation 'tanhh': load "
            "the program with the version that saved it");
  EXPECT_EQ(fault(p, "\"version\":1", "\"version\":2"),
            "p.stave: it has version 2 of the format of programs, and this version of the library reads versions 1 to "
            "1: load it with a later version of the library");
  EXPECT_EQ(fault(p, "\"axes\":[0]", "\"axes\":[1]"),
            "p.stave: the program is damaged: instruction 7 of program 0 ('sum'): sum: an axis is out of range: save "
            "it again with save_program");
}

TEST(DamagedPrograms, AreRefused) {
  const Program p = trace(loss)(weights, rows);
  const std::vector<std::array<std::string, 3>> faults = {
      {"\"axes\":[0]", "\"axes\":0", "'axes' is not a list"},
      {"\"axes\":[0]", "\"axes\":[0.5]", "'axes' is not an integer"},
      {"\"axes\":[0]", "\"axes\":[0,0]", "the axes are not sorted"},
      {"\"keepdims\":false", "\"keepdims\":0", "'keepdims' is not true or false"},
      {"\"keepdims\":false", "\"keepdims\":true", "but the operation gives"},
      {"\"keepdims\":false", "\"more\":1", "'keepdims' is missing"},
      {"\"keepdims\":false", "\"keepdims\":false,\"more\":1", "'more' is not known here"},
      {"\"outputs\":[2]", "\"outputs\":[0]", "variable 0 is assigned twice"},
      {"\"outputs\":[2]", "\"outputs\":[99]", "there is no variable 99"},
      {"\"outputs\":[2]", "\"outputs\":[]", "it has 0 outputs, but gives 1 values"},
      {"\"inputs\":[1,2]", "\"inputs\":[1]", "matmul: it does not take 1 inputs"},
      {"\"inputs\":[1,2]", "\"inputs\":[1,3]", "variable 3 is read, but nothing assigns it before"},
      {"\"inputs\":[1,2]", "\"inputs\":[2,1]", "matmul: shapes"},
      {"\"scope\":0", "\"scope\":1", "'scope' is 1, but there are only 1 before"},
      {"\"tensor\":0", "\"tensor\":7", "there is no tensor '7'"},
      {"\"repeated\":[3]", "\"repeated\":[4]", "and its variable is"},
      {"\"shape\":[2]", "\"shape\":[-2]", "negative lengths"},
      {"\"shape\":[2]", "\"shape\":[4611686018427387904]", "too many"},
      {"\"dtype\":\"float32\"", "\"dtype\":\"float33\"", "which is not a dtype"},
      {"\"programs\":[", "\"programs\":[],\"more\":[", "'more' is not known here"},
      {"\"inputs\":[0,1]", "\"inputs\":[0,0]", "variable 0 is assigned twice"},
  };
  for (const auto& [what, by, expected] : faults) {
    EXPECT_THAT(fault(p, what, by), AllOf(StartsWith("p.stave: "), HasSubstr(expected))) << what << " -> " << by;
  }
}

TEST(DamagedPrograms, DamagedLoopsAndCallsAreRefused) {
  const Program loop = trace(last_state)(weights), call = trace(forgotten)(weights);
  EXPECT_THAT(fault(loop, "\"steps\":7", "\"steps\":-1"), HasSubstr("the number of steps is negative"));
  EXPECT_THAT(fault(loop, "\"steps\":7", "\"steps\":8"), HasSubstr("loop: input 1 has the shape [7,2], not [8,2]"));
  EXPECT_THAT(fault(loop, "\"states\":1", "\"states\":4000000000"), HasSubstr("too few for 4000000000 states"));
  EXPECT_THAT(fault(loop, "\"rows\":1", "\"rows\":18446744073709551615"), HasSubstr("too few"));
  EXPECT_THAT(fault(loop, "\"body\":0", "\"body\":1"), HasSubstr("'body' is 1, but there are only 1 before"));
  const Program jvp_of_loop = trace([](T w) {
    const auto [state, tangent] = jvp(last_state, w, w);
    return std::tuple(last_state(w), state, tangent);
  })(weights);
  EXPECT_THAT(fault(jvp_of_loop, "\"also_inputs\":[0", "\"also_inputs\":[90"),
              HasSubstr("input 0 of the other loop has index 90 of"));
  EXPECT_THAT(fault(jvp_of_loop, "\"also_outputs\":[0", "\"also_outputs\":[90"),
              HasSubstr("output 0 of the other loop has index 90 of"));
  EXPECT_THAT(fault(call, "\"captured\":0", "\"captured\":9"), HasSubstr("it captures more values"));
  EXPECT_THAT(fault(call, "\"function\":0", "\"function\":-1"), HasSubstr("'function' is not an integer"));
}

TEST(DamagedPrograms, TooDeepNestingIsRefused) {
  // Each program runs the one before it twice.
  std::string programs;
  const std::string variables = R"({"variables":[{"shape":[],"dtype":"float32"},{"shape":[],"dtype":"float32"},)"
                                R"({"shape":[],"dtype":"float32"}],"inputs":[0],"constants":[],"instructions":[)";
  for (int k = 0; k < 60; ++k) {
    const auto step = [&](int from, int to) {
      const std::string ends = ",\"inputs\":[" + std::to_string(from) + "],\"outputs\":[" + std::to_string(to) + "]}";
      if (k == 0) return "{\"op\":\"sin\"" + ends;
      return R"({"op":"call","attributes":{"name":"f","rematerializes":false,"captured":0,"function":)" +
             std::to_string(k - 1) + "}" + ends;
    };
    programs += (k ? "," : "") + variables + step(0, 1) + "," + step(1, 2) + "],\"outputs\":[2]}";
  }
  const std::string text = R"({"version":1,"regions":[],"scopes":[],"programs":[)" + programs + "]}";
  EXPECT_THAT(message_of<FileError>([&] { stave_detail::program_of(text, {}, "p.stave"); }),
              HasSubstr("loops and calls are"));
}

TEST(DamagedPrograms, FilesWithoutAProgramAreRefused) {
  const Folder folder;
  save_safetensors(folder / "x", std::map<std::string, Tensor>{{"x", weights}});
  EXPECT_THAT(message_of<FileError>([&] { load_program(folder / "x"); }), HasSubstr("it holds no program"));
  save_program(folder / "p", trace(loss)(weights, rows));
  const std::string bytes = bytes_of(folder / "p");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(load_program(with_bytes(folder / "p", bytes.substr(0, length))), FileError) << length;
}

}  // namespace programs_test
