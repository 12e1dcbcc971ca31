// RunRecord and RunComparison find the first operation at which two runs differ.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include <stave/stave.h>

#include <stave/handlers/observe/run_record.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

Tensor loss(const Tensor& w, const Tensor& x) {
  Tensor h;
  {
    const Scope layer("layer1");
    h = tanh(matmul(x, w));
  }
  const Scope layer("layer2");
  return sum(square(h)) + sum(w);
}

template <class F>
void record(const std::string& path, F f) {
  RunRecord run;
  with(run, f);
  run.write(path);
}
template <class F>
std::optional<RunDifference> compared(const std::string& path, F f) {
  RunComparison comparison(path, {.stop = false});
  with(comparison, f);
  return comparison.difference();
}

// Changes the last bit of the result of the n-th operation of this name.
struct Disturb : Handler {
  OpId id;
  int left;
  Disturb(OpId which, int n) : id(which), left(n) {}
  Outputs handle(Call& call) override {
    const bool now = call.op().id == id && left-- == 0;
    Outputs outputs = perform(std::move(call));
    if (now) outputs[0] = outputs[0] * (1 + 0x1p-23f);
    return outputs;
  }
};

const Tensor w = full({3, 2}, 0.25f), x = full({4, 3}, 0.5f);

class RunRecordTest : public testing::Test {
 protected:
  const std::string path = ::testing::TempDir() + "stave_run_record_" + std::to_string(::getpid());
  ~RunRecordTest() override { std::remove(path.c_str()); }
};

TEST_F(RunRecordTest, EqualRuns) {
  const auto run = [] { return hessian([](const Tensor& v) { return loss(v, x); })(w); };
  record(path, run);
  EXPECT_FALSE(compared(path, run));
  RunComparison comparison(path);
  EXPECT_NO_THROW(with(comparison, run));
  EXPECT_FALSE(comparison.difference());
  // Labels, views with other strides and other scopes do not count as differences.
  record(path, [] { return sum(label(matmul(x, w), "h")); });
  const Tensor turned = matrix_transpose(contiguous(matrix_transpose(x)));
  EXPECT_FALSE(compared(path, [&] {
    const Scope other("other");
    return sum(matmul(turned, w));
  }));
}

TEST_F(RunRecordTest, TheFirstOtherBitIsFoundWithItsScope) {
  const auto run = [] { return grad(loss)(w, x); };
  record(path, run);
  Disturb disturb(OpId::tanh, 0);
  const auto difference = with(disturb, [&] { return compared(path, run); });
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->found->text, "tanh f32[4,2] -> f32[4,2]");
  EXPECT_EQ(difference->recorded->text, difference->found->text);
  EXPECT_EQ(difference->recorded->scopes, "[layer1]");
  EXPECT_EQ(difference->number, 1u);
  EXPECT_EQ(difference->recorded->operands, difference->found->operands);
  EXPECT_THAT(difference->str(), AllOf(HasSubstr("operation 1: the operation gives other bits for equal operands"),
                                       HasSubstr("in [layer1]")));
  // An operation of the backward pass.
  Disturb later(OpId::scale, 1);
  const auto behind = with(later, [&] { return compared(path, run); });
  ASSERT_TRUE(behind);
  EXPECT_THAT(behind->found->scopes, HasSubstr("[backward of grad]"));
  Disturb again(OpId::tanh, 0);
  EXPECT_THAT(message_of<RunDifferenceError>([&] {
                RunComparison comparison(path);
                with(again, [&] { return with(comparison, run); });
              }),
              AllOf(HasSubstr("Recorded: tanh f32[4,2] -> f32[4,2], outputs "), HasSubstr("This run: tanh"),
                    HasSubstr("inside run comparison")));
}

TEST_F(RunRecordTest, OperandsFromOutside) {
  record(path, [] { return loss(w, x); });
  const auto difference = compared(path, [] { return loss(w, x * (1 + 0x1p-23f)); });
  const Tensor other = x * (1 + 0x1p-23f);
  const auto outside = compared(path, [&] { return loss(w, other); });
  EXPECT_THAT(difference->str(), HasSubstr("operation 0: the runs perform different operations"));
  EXPECT_THAT(outside->str(), HasSubstr("operation 0: an operand differs that no observed operation made"));
  EXPECT_NE(outside->recorded->operands, outside->found->operands);
}

TEST_F(RunRecordTest, ShorterAndLongerRuns) {
  const auto steps = [](int n) {
    return [n] {
      Tensor y = x;
      for (int i = 0; i < n; ++i) y = sin(y);
      return y;
    };
  };
  record(path, steps(3));
  EXPECT_FALSE(compared(path, steps(3)));
  const auto shorter = compared(path, steps(2)), longer = compared(path, steps(4));
  EXPECT_EQ(shorter->number, 2u);
  EXPECT_FALSE(shorter->found);
  EXPECT_THAT(shorter->str(), HasSubstr("This run: the run had ended"));
  EXPECT_EQ(longer->number, 3u);
  EXPECT_FALSE(longer->recorded);
}

TEST_F(RunRecordTest, BitsCount) {
  const auto of = [](const Tensor& v) { return [v] { return contiguous(broadcast_to(v, {2, 3})); }; };
  record(path, of(tensor({0., 1., 2.})));
  EXPECT_FALSE(compared(path, of(tensor({0., 1., 2.}))));
  EXPECT_TRUE(compared(path, of(tensor({-0., 1., 2.}))));
  EXPECT_TRUE(compared(path, of(tensor({0., 1., 2.}, float64))));
  for (int i = 0; i < real_dtype_count; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    record(path, of(tensor({0, 1, 1}, dtype)));
    EXPECT_FALSE(compared(path, of(tensor({0, 1, 1}, dtype)))) << name_of(dtype);
    EXPECT_TRUE(compared(path, of(tensor({0, 1, 0}, dtype)))) << name_of(dtype);
  }
}

TEST_F(RunRecordTest, TransformsLoopsKeysAndCompiledFunctions) {
  const auto run = [] {
    const Tensor a = vmap(grad(loss), {.in_axes = {unmapped, 0}})(w, ones({5, 4, 3}));
    const Tensor b = compile(grad(checkpoint(loss)))(w, x);
    const Tensor c = loop(4, [](const Tensor& v) { return v + normal(Key(3), {2}); })(zeros({2}));
    return sum(a) + sum(b) + sum(c);
  };
  record(path, run);
  EXPECT_FALSE(compared(path, run));
  Disturb disturb(OpId::random_uniform, 2);
  EXPECT_THAT(with(disturb, [&] { return compared(path, run); })->found->text, HasSubstr("random_uniform"));
  // Inside vmap: the values of all lanes.
  RunRecord inside;
  vmap([&](const Tensor& v) { return with(inside, [&] { return sin(v); }); })(tensor({1., 2.}));
  inside.write(path);
  RunComparison other(path, {.stop = false});
  vmap([&](const Tensor& v) { return with(other, [&] { return sin(v); }); })(tensor({1., 3.}));
  EXPECT_EQ(other.difference()->found->text, "sin f32[] -> f32[]");
}

TEST_F(RunRecordTest, ThreadsMayComeInAnyOrder) {
  const auto worker = [](int number) {
    return [number] {
      Tensor y = full({3}, static_cast<double>(number));
      for (int i = 0; i <= number; ++i) y = sin(y);
    };
  };
  const auto run = [&](Handler& handler, std::initializer_list<int> order) {
    for (const int number : order) std::thread([&] { with(handler, worker(number)); }).join();
  };
  RunRecord recorder;
  run(recorder, {0, 1, 2});
  recorder.write(path);
  RunComparison backwards(path);
  run(backwards, {2, 0, 1});
  EXPECT_FALSE(backwards.difference());
  RunComparison fewer(path);
  run(fewer, {2, 0});
  EXPECT_FALSE(fewer.difference()->found);
  RunComparison more(path, {.stop = false});
  run(more, {2, 0, 1, 1});
  EXPECT_FALSE(more.difference()->recorded);
  // At the same time.
  RunComparison together(path);
  std::vector<std::thread> threads;
  for (const int number : {1, 2, 0}) threads.emplace_back([&, number] { with(together, worker(number)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(together.difference());
}

TEST_F(RunRecordTest, Files) {
  EXPECT_THAT(message_of<FileError>([&] { RunComparison("/nowhere/a.run"); }),
              HasSubstr("/nowhere/a.run cannot be read"));
  EXPECT_THAT(message_of<FileError>([&] { RunRecord().write("/nowhere/a.run"); }), HasSubstr("cannot be written"));
  std::ofstream(path) << "something\n";
  EXPECT_THAT(message_of<FileError>([&] { RunComparison{path}; }), HasSubstr("is not a file of RunRecord"));
  record(path, [] {
    const Scope scope("a\tb\nc");
    return sin(x);
  });
  EXPECT_EQ(compared(path, [] { return sin(x); }), std::nullopt);
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("\tsin f32[4,3] -> f32[4,3]\t[a b c]\t"));
  std::ofstream(path, std::ios::app) << "0\tx\n";
  EXPECT_THAT(message_of<FileError>([&] { RunComparison{path}; }), HasSubstr("line 3: six columns are expected"));
}

}  // namespace
