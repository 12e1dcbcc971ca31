// whos lists every live value once, with its memory and notes.
#include <stave/stave.h>

#include <atomic>
#include <thread>

#include "files.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Whos, ListsLiveTensorsLargestFirst) {
  const TensorTracking tracking;
  const Tensor small = label(zeros({2}, float64) + 1, "small"), large = zeros({100, 3}, int32) + 1;
  { const Tensor gone = zeros({1000}) + 1; }
  const LiveTensors live = whos();
  ASSERT_EQ(live.tensors.size(), 2u) << live;
  EXPECT_EQ(live.tensors[0].shape, large.shape());
  EXPECT_EQ(live.tensors[0].dtype, int32);
  EXPECT_EQ(live.tensors[0].bytes, 1200u);
  EXPECT_EQ(live.tensors[1].label, "small");
  EXPECT_EQ(live.tensors[1].bytes, 16u);
  EXPECT_EQ(live.bytes, 1216u);
  EXPECT_EQ(live.storages, 2u);
}

TEST(Whos, CountsASharedStorageOnce) {
  const TensorTracking tracking;
  const Tensor x = zeros({10, 10}) + 1, row = x[3], again = row;
  const LiveTensors live = whos();
  ASSERT_EQ(live.tensors.size(), 2u) << live;
  EXPECT_EQ(live.tensors[0].shape, x.shape());
  EXPECT_EQ(live.tensors[0].storage, live.tensors[1].storage);
  EXPECT_EQ(live.tensors[1].handles, 2u);
  EXPECT_EQ(live.tensors[1].bytes, 400u);  // the row keeps the whole storage alive
  EXPECT_EQ(live.bytes, 400u);
  EXPECT_EQ(live.storages, 1u);
}

TEST(Whos, PrintsATable) {
  const Tensor before = zeros({256}) + 1;
  const std::size_t untracked = memory_stats().live_bytes;
  const TensorTracking tracking;
  const Tensor w = label(zeros({16, 16}) + 1, "w"), t = permute_dims(w, {1, 0});
  const std::string text = whos().str();
  EXPECT_THAT(text, HasSubstr("shape      dtype    bytes  storage  handles  label  notes\n"));
  EXPECT_THAT(text, HasSubstr("[16,16]  float32  1.0 KiB        1        1      w\n"
                              "[16,16]  float32  1.0 KiB        1        1\n"));
  EXPECT_THAT(text, HasSubstr("\n2 tensors, 1.0 KiB in 1 storage; "));
  EXPECT_EQ(whos().untracked_bytes, untracked);
}

TEST(Whos, MappedFilesAreNotUntrackedMemory) {
  const Folder folder;
  save_safetensors(folder / "weights.safetensors", NamedTensors{{"w", ones({1000})}});
  const Tensor before = zeros({256}) + 1;
  const std::size_t untracked = memory_stats().live_bytes;
  const TensorTracking tracking;
  const Tensor w = load_safetensors<NamedTensors>(folder / "weights.safetensors").at("w");
  const LiveTensors live = whos();
  ASSERT_EQ(live.tensors.size(), 1u) << live;
  EXPECT_TRUE(live.tensors[0].lent);
  EXPECT_GE(live.bytes, 4000u);
  EXPECT_EQ(live.untracked_bytes, untracked) << live;
  const Tensor own = label(w + 1, "own");
  for (const LiveTensor& tensor : whos().tensors) EXPECT_EQ(tensor.lent, tensor.label != "own");
}

TEST(Whos, NamesTransformsThatTraceAValue) {
  const TensorTracking tracking;
  const Tensor x = zeros({3, 2}) + 1;
  std::vector<std::string> of_lane, of_real;
  vmap(grad([&](const Tensor& v) {
    const Tensor y = label(sin(v), "y");
    for (const LiveTensor& tensor : whos().tensors)
      if (tensor.label == "y") (tensor.storage ? of_real : of_lane) = tensor.notes;
    return sum(y);
  }))(x);
  EXPECT_THAT(of_lane, testing::UnorderedElementsAre("grad", "vmap"));
  EXPECT_THAT(of_real, ElementsAre());  // the batch of all lanes
  for (const LiveTensor& tensor : whos().tensors) EXPECT_THAT(tensor.notes, ElementsAre()) << whos();
}

TEST(Whos, ListsTensorsThatATapeKeeps) {
  const TensorTracking tracking;
  const Tensor x = zeros({50}) + 1;
  {
    auto [y, pullback] = vjp([](const Tensor& v) { return sum(sin(v)); }, x);
    EXPECT_GT(whos().tensors.size(), 2u);
  }
  EXPECT_EQ(whos().tensors.size(), 1u);
}

// The program's arena holds at least two arrays, the values between the products.
Tensor twice(const Tensor& a, const Tensor& w) { return matmul(tanh(matmul(a, w) + 1.), w); }

TEST(Whos, ListsWhatCompiledProgramsHold) {
  const Tensor w = ones({20, 20}), a = ones({25, 20}), captured = zeros({25, 20}) + 1;
  const std::size_t before = memory_stats().live_bytes;
  std::function<Tensor(const Tensor&)> f = compile([=](const Tensor& x) { return twice(x + captured, w); });
  const Tensor named = label(a + 0., "points");
  f(named);
  f(named);
  const std::size_t taken = memory_stats().live_bytes - before - 2000;  // without `named`
  const TensorTracking tracking;
  const LiveTensors live = whos();
  ASSERT_EQ(live.programs.size(), 1u) << live;
  const LiveProgram& program = live.programs[0];
  EXPECT_EQ(program.name, "compile(points:f32[25,20])");
  EXPECT_EQ(program.device, cpu);
  EXPECT_EQ(program.arenas, 1u);
  EXPECT_EQ(program.arena_bytes + 4, taken) << live;  // 4 bytes for the number 1
  EXPECT_GE(program.arena_bytes, 2u * 2000);
  EXPECT_EQ(program.constant_bytes, 2000u + 1600 + 4);
  EXPECT_EQ(live.program_bytes, program.arena_bytes + program.constant_bytes);
  EXPECT_EQ(live.untracked_bytes, memory_stats().live_bytes - live.program_bytes);
  f = nullptr;
  EXPECT_EQ(whos().programs.size(), 0u);
}

TEST(Whos, CountsAConstantThatATensorHoldsOnce) {
  const TensorTracking tracking;
  const Tensor captured = zeros({100}) + 1, x = zeros({100}) + 1;
  const auto f = compile([=](const Tensor& a) { return a * captured + a; });
  EXPECT_EQ(whos().programs.size(), 0u);
  f(x);
  f(x);
  const LiveTensors live = whos();
  ASSERT_EQ(live.programs.size(), 1u) << live;
  EXPECT_EQ(live.programs[0].constant_bytes, 400u);
  EXPECT_EQ(live.programs[0].arena_bytes, 0u);
  EXPECT_EQ(live.program_bytes, 0u);
  EXPECT_EQ(live.bytes, 800u) << live;
  EXPECT_THAT(live.str(), HasSubstr("\nprogram            arenas  bytes  constants\n"
                                    "compile(f32[100])       1    0 B      400 B\n"));
  EXPECT_THAT(live.str(), HasSubstr(" storages; 1 program, 0 B"));
}

// A copy that ends only when `meet` runs have reached it.
std::atomic<int> meet{1}, waiting{0};
const Op op_meeting = define_op({
    .name = "meeting",
    .infer = [](const Call& call, auto& outputs) { outputs.push_back(abstract(call.input(0))); },
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          std::ranges::copy(elements<const float>(in[0]), elements<float>(out[0]).begin());
          ++waiting;
          while (waiting < meet) std::this_thread::yield();
        },
});

TEST(Whos, CountsArenasOfConcurrentRuns) {
  const TensorTracking tracking;
  const Tensor a = ones({1000});
  const auto f = compile([=](const Tensor& x) { return matmul(apply(op_meeting, {sin(x)}), x); });
  f(a);
  f(a);
  EXPECT_EQ(whos().programs.at(0).arenas, 1u);
  const std::size_t each = whos().programs.at(0).arena_bytes;
  EXPECT_GE(each, 4000u);
  waiting = 0;
  meet = 4;  // three runs, and this thread
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back([&] { f(a); });
  while (waiting < 3) std::this_thread::yield();
  const LiveProgram running = whos().programs.at(0);
  waiting = 4;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(running.arenas, 3u);
  EXPECT_EQ(running.arena_bytes, 3 * each);
  EXPECT_EQ(whos().programs.at(0).arenas, 1u);
}

TEST(Whos, NamesAProgramOfManyInputs) {
  const TensorTracking tracking;
  const auto f = compile([](const std::vector<Tensor>& xs) { return xs[0] + xs[1] + xs[2] + xs[3] + xs[4] + xs[5]; });
  // The first call records the program, and the second one prepares it.
  for (int call = 0; call < 2; ++call) f(std::vector<Tensor>(6, ones({2})));
  EXPECT_EQ(whos().programs.at(0).name, "compile(f32[2], f32[2], f32[2], f32[2] and 2 more)");
}

TEST(Whos, PerformsNothing) {
  const TensorTracking tracking;
  const Tensor x = zeros({2}) + 1;
  CountOps count;
  with(count, [] { return whos().str(); });
  EXPECT_EQ(count.n, 0);
}

TEST(Whos, WithoutTrackingIsAnError) {
  const std::string expected =
      "whos: no tensors are tracked: write `const TensorTracking tracking;` before the tensors of interest are made";
  EXPECT_EQ(message_of<TransformError>([] { whos(); }), expected);
  { const TensorTracking tracking; }
  EXPECT_EQ(message_of<TransformError>([] { whos(); }), expected);
}

TEST(Whos, TensorsMayOutliveTheTracking) {
  Tensor x;
  {
    const TensorTracking tracking;
    x = zeros({2}) + 1;
  }
  x = Tensor();
  const TensorTracking tracking;
  EXPECT_EQ(whos().tensors.size(), 0u);
}

TEST(Whos, NothingIsTrackedByDefault) {
  const Tensor x = zeros({2}) + 1;
  EXPECT_FALSE(x.node().registered);
}

TEST(Whos, ReadsWhileOtherThreadsWork) {
  const TensorTracking tracking;
  std::atomic<bool> done{false};
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      vmap(grad([](const Tensor& x) { return sum(label(sin(x), "s")); }))(zeros({3, 2}) + 1);
      Tensor y = zeros({400}) + 1;
      // The new value takes over the buffer of the old one.
      for (int j = 0; j < 10; ++j) y = std::move(y) + 1.;
    }
  };
  std::thread first(work), second(work), reader([&] {
    while (!done)
      for (const LiveTensor& tensor : whos().tensors)
        if (tensor.shape == Shape{400} && tensor.storage) {
          EXPECT_EQ(tensor.bytes, 1600u);
        }
  });
  first.join();
  second.join();
  done = true;
  reader.join();
  EXPECT_EQ(whos().tensors.size(), 0u) << whos();
}

TEST(Whos, SeesTensorsOfAllThreads) {
  const TensorTracking tracking;
  Tensor x;
  std::thread([&] { x = label(zeros({7}) + 1, "from a thread"); }).join();
  const LiveTensors live = whos();
  ASSERT_EQ(live.tensors.size(), 1u) << live;
  EXPECT_EQ(live.tensors[0].label, "from a thread");
}

}  // namespace
