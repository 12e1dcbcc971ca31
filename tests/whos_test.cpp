// whos: every value that lives, once, with what it holds.
#include <stave/stave.h>

#include <atomic>
#include <thread>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Whos, ListsWhatLivesLargestFirst) {
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
  EXPECT_EQ(live.tensors[1].bytes, 400u);  // the row keeps all of it
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

TEST(Whos, NamesTransformsWhoseNotesAValueCarries) {
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

TEST(Whos, SeesWhatATapeKeeps) {
  const TensorTracking tracking;
  const Tensor x = zeros({50}) + 1;
  {
    auto [y, pullback] = vjp([](const Tensor& v) { return sum(sin(v)); }, x);
    EXPECT_GT(whos().tensors.size(), 2u);
  }
  EXPECT_EQ(whos().tensors.size(), 1u);
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

TEST(Whos, NothingIsTrackedUnasked) {
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
      for (int j = 0; j < 10; ++j) y = std::move(y) + 1.;  // in the buffer that the value before had
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
