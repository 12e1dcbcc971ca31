// Tests CUDA graphs over a simulated driver. A stream in capture mode records its work;
// a graph runs the recorded work at each launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include <stave/backends/cuda/cusolver.h>
#include <stave/backends/cuda/graph_recording.h>
#include <stave/backends/cuda/launch.h>
#include <stave/core/effects/error.h>

// ---- the driver --------------------------------------------------------------------------------

namespace {

struct Node {
  cudaGraphNodeType type;
  cudaMemcpyKind kind = cudaMemcpyDefault;
  std::function<void()> work = [] {};
};
struct Driver {
  // The recorded work of the streams in capture mode.
  std::map<cudaStream_t, std::vector<Node>> recording;
  // True if the capture is invalid.
  bool broken = false;
  cudaError_t instantiates = cudaSuccess, launches = cudaSuccess, last = cudaSuccess;
  // The numbers of existing objects.
  int graphs = 0, executables = 0;
  std::set<cudaStream_t> streams = {reinterpret_cast<cudaStream_t>(0x5)};
};
Driver driver;
const auto stream = reinterpret_cast<cudaStream_t>(0x5);

/// Puts work on a stream, which runs it at once or records it.
void put(Node node, cudaStream_t at = stream) {
  ASSERT_TRUE(driver.streams.contains(at));
  if (const auto found = driver.recording.find(at); found != driver.recording.end())
    found->second.push_back(std::move(node));
  else node.work();
}
/// The result of a wait, which fails and invalidates the capture while a stream is recorded.
cudaError_t wait_for_stream() {
  if (driver.recording.empty()) return cudaSuccess;
  driver.broken = true;
  return driver.last = cudaErrorStreamCaptureUnsupported;
}

using Nodes = std::vector<Node>;
template <class Handle>
Nodes& nodes_of(Handle handle) {
  return *reinterpret_cast<Nodes*>(handle);
}

}  // namespace

extern "C" {
cudaError_t cudaGetLastError() { return std::exchange(driver.last, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorStreamCaptureInvalidated ? "cudaErrorStreamCaptureInvalidated" : "cudaErrorOther";
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *made = reinterpret_cast<cudaStream_t>(reinterpret_cast<std::uintptr_t>(*driver.streams.rbegin()) + 1);
  return driver.streams.insert(*made), cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t at) {
  EXPECT_FALSE(driver.recording.contains(at));
  return driver.streams.erase(at) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t at, cudaStreamCaptureStatus* status) {
  *status = driver.recording.contains(at) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t at, cudaStreamCaptureMode mode) {
  if (!driver.streams.contains(at) || mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;
  return driver.recording.try_emplace(at).second ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaStreamEndCapture(cudaStream_t at, cudaGraph_t* graph) {
  const auto ended = driver.recording.extract(at);
  if (ended.empty()) return driver.last = cudaErrorIllegalState;
  Nodes nodes = std::move(ended.mapped());
  *graph = nullptr;
  if (std::exchange(driver.broken, false)) return driver.last = cudaErrorStreamCaptureInvalidated;
  ++driver.graphs;
  return *graph = reinterpret_cast<cudaGraph_t>(new Nodes(std::move(nodes))), cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  Nodes& all = nodes_of(graph);
  for (std::size_t i = 0; nodes && i < *count; ++i) nodes[i] = reinterpret_cast<cudaGraphNode_t>(&all[i]);
  return *count = all.size(), cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return *type = reinterpret_cast<Node*>(node)->type, cudaSuccess;
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* copy) {
  return copy->kind = reinterpret_cast<Node*>(node)->kind, cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (driver.instantiates != cudaSuccess) return driver.last = driver.instantiates;
  ++driver.executables;
  return *executable = reinterpret_cast<cudaGraphExec_t>(new Nodes(nodes_of(graph))), cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t at) {
  if (at != stream || driver.launches != cudaSuccess) return driver.last = driver.launches;
  for (const Node& node : nodes_of(executable)) put(node);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &nodes_of(graph);
  return --driver.graphs, cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete &nodes_of(executable);
  return --driver.executables, cudaSuccess;
}
}

// ---- the tests ---------------------------------------------------------------------------------

namespace stave_cuda {
namespace {

using testing::ElementsAre, testing::HasSubstr;

class Graphs : public testing::Test {
 protected:
  Graphs() { driver = {}; }
  ~Graphs() override {
    EXPECT_EQ(driver.graphs, 0);
    EXPECT_EQ(driver.executables, 0);
    EXPECT_TRUE(driver.recording.empty());
    EXPECT_EQ(driver.streams.size(), 1u);
    // No error is left for the next call.
    EXPECT_EQ(driver.last, cudaSuccess);
  }
  void kernel(int number, cudaStream_t at = stream) {
    put({cudaGraphNodeTypeKernel, cudaMemcpyDefault, [this, number] { done.push_back(number); }}, at);
  }
  /// The error text of `end` for a graph with such a node.
  static std::string refusal(cudaGraphNodeType type, cudaMemcpyKind kind = cudaMemcpyDefault) {
    GraphCapture capture(stream);
    put({type, kind});
    try {
      capture.end();
      return "";
    } catch (const stave::Error& error) {
      return error.what();
    }
  }

  std::vector<int> done;
};

TEST_F(Graphs, RunTheRecordedWorkAtEachLaunch) {
  kernel(0);
  GraphCapture capture(stream);
  kernel(1);
  kernel(2);
  const Graph graph = capture.end();
  EXPECT_THAT(done, ElementsAre(0));
  EXPECT_EQ(graph.size(), 2u);
  graph.launch(stream);
  kernel(3);
  graph.launch(stream);
  EXPECT_THAT(done, ElementsAre(0, 1, 2, 3, 1, 2));
}
TEST_F(Graphs, MayBeEmptyAndMoved) {
  GraphCapture capture(stream);
  Graph empty = capture.end();
  const Graph moved = std::move(empty);
  moved.launch(stream);
  EXPECT_EQ(moved.size(), 0u);
}
TEST_F(Graphs, AcceptKernelsAndDeviceCopies) {
  EXPECT_EQ(refusal(cudaGraphNodeTypeKernel), "");
  EXPECT_EQ(refusal(cudaGraphNodeTypeMemset), "");
  EXPECT_EQ(refusal(cudaGraphNodeTypeEmpty), "");
  EXPECT_EQ(refusal(cudaGraphNodeTypeMemcpy, cudaMemcpyDeviceToDevice), "");
}
TEST_F(Graphs, RefuseUnrepeatableWork) {
  const auto refused = [](const char* why) {
    return std::string("cuda: graph: what was recorded cannot be repeated: ") + why;
  };
  for (const auto kind : {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDefault})
    EXPECT_EQ(refusal(cudaGraphNodeTypeMemcpy, kind), refused("it copies from or to the host's memory"));
  EXPECT_EQ(refusal(cudaGraphNodeTypeMemAlloc), refused("it allocates or frees memory"));
  EXPECT_EQ(refusal(cudaGraphNodeTypeMemFree), refused("it allocates or frees memory"));
  EXPECT_EQ(refusal(cudaGraphNodeTypeHost), refused("it calls a function on the host"));
  EXPECT_EQ(refusal(cudaGraphNodeTypeEventRecord), refused("it records an event, or waits for one"));
  EXPECT_EQ(refusal(cudaGraphNodeTypeGraph), refused("it contains work of a kind that Stave does not use"));
}
TEST_F(Graphs, ErrorsNameWhatBrokeTheRecording) {
  GraphCapture capture(stream);
  kernel(1);
  EXPECT_THROW(check(wait_for_stream(), "synchronize"), stave::Error);
  try {
    capture.end();
    FAIL();
  } catch (const stave::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("something in it waits for the device"));
    EXPECT_THAT(error.what(), HasSubstr("cudaErrorStreamCaptureInvalidated"));
  }
  kernel(2);
  EXPECT_THAT(done, ElementsAre(2));  // the stream works as before
}
TEST_F(Graphs, AreDroppedWhereTheWorkThrows) {
  for (const bool waits : {false, true}) {
    EXPECT_THROW(
        {
          GraphCapture capture(stream);
          kernel(1);
          if (waits) check(wait_for_stream(), "synchronize");
          throw stave::Error("of the work");
        },
        stave::Error);
    kernel(2);
  }
  EXPECT_THAT(done, ElementsAre(2, 2));
}
TEST_F(Graphs, AreRecordedOneAtATime) {
  GraphCapture capture(stream);
  EXPECT_THROW(GraphCapture{stream}, stave::Error);
  kernel(1);
  EXPECT_EQ(capture.end().size(), 1u);  // the first capture is not affected
  EXPECT_THROW(capture.end(), stave::Error);
}
TEST_F(Graphs, ThrowErrorsOfTheDriver) {
  {
    GraphCapture capture(stream);
    driver.instantiates = cudaErrorMemoryAllocation;
    EXPECT_THROW(capture.end(), std::bad_alloc);
  }
  driver.instantiates = cudaSuccess;
  GraphCapture capture(stream);
  const Graph graph = capture.end();
  driver.launches = cudaErrorLaunchFailure;
  EXPECT_THROW(graph.launch(stream), stave::Error);
}

// ---- recordings of operations ------------------------------------------------------------------

// A memory source that gives out consecutive numbers as addresses.
class Numbered final : public MemorySource {
 public:
  void* take(std::size_t) override { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(++taken) << 20); }
  void give(void*, std::size_t) noexcept override { --taken; }
  void settle() override {}
  std::string free_memory() const override { return "none"; }
  int taken = 0;
};

class Recordings : public Graphs {
 protected:
  Numbered source;
  MemoryCache memory{source, "cuda:0"};
  std::size_t live() const { return memory.stats().live_bytes; }
};

TEST_F(Recordings, ExcludeWorkOfOtherThreads) {
  Recording recording(memory);
  EXPECT_EQ(Recording::current(), &recording);
  std::thread([] { EXPECT_EQ(Recording::current(), nullptr); }).join();
  kernel(1, recording.stream());
  // Work of another thread runs at once and is not part of the graph.
  kernel(2);
  kernel(3, recording.stream());
  EXPECT_THAT(done, ElementsAre(2));
  const RecordedGraph graph = recording.end();
  EXPECT_EQ(Recording::current(), nullptr);
  EXPECT_EQ(graph.size(), 2u);
  graph.launch(stream);
  graph.launch(stream);
  EXPECT_THAT(done, ElementsAre(2, 1, 3, 1, 3));
}
TEST_F(Recordings, KeepScratchMemoryAndReuseItBetweenOperations) {
  void *first = nullptr, *second = nullptr;
  const auto record = [&] {
    Recording recording(memory);
    first = recording.scratch().allocate(1000);
    second = recording.scratch().allocate(1000);
    EXPECT_NE(first, second);
    recording.scratch().end_operation();
    EXPECT_EQ(recording.scratch().allocate(900), first);
    // Blocks of another size are not shared.
    EXPECT_NE(recording.scratch().allocate(100000), second);
    return recording.end();
  };
  {
    const RecordedGraph graph = record();
    EXPECT_GE(live(), 2000u + 100000);
    void* const others = memory.take(1000);
    EXPECT_NE(others, first);
    EXPECT_NE(others, second);
    memory.give(others, 1000);
    EXPECT_EQ(source.taken, 4);
  }
  EXPECT_EQ(live(), 0u);
}
TEST_F(Recordings, UnrepeatableOnesReleaseEverything) {
  const auto refused = [&](auto work) {
    EXPECT_THROW(
        {
          Recording recording(memory);
          recording.scratch().allocate(500);
          kernel(1, recording.stream());
          work(recording);
          recording.end();
        },
        stave::Error);
    EXPECT_EQ(Recording::current(), nullptr);
    EXPECT_EQ(live(), 0u);
    kernel(2);
  };
  refused([](Recording&) { throw stave::Error("of an operation"); });
  refused([](Recording& recording) { put({cudaGraphNodeTypeMemcpy, cudaMemcpyHostToDevice}, recording.stream()); });
  refused([](Recording&) { check(wait_for_stream(), "synchronize"); });
  EXPECT_THAT(done, ElementsAre(2, 2, 2));
}
// The libraries' handles use another stream. Their work would run at once and be missing
// from the graph.
TEST_F(Recordings, RefuseLibraryHandles) {
  Recording recording(memory);
  const Launch launch{recording.stream(), 1, recording.scratch(), nullptr, 1};
  const auto refused = testing::ThrowsMessage<stave::Error>(testing::HasSubstr("cannot be recorded"));
  EXPECT_THAT([&] { cusolver_handle(launch); }, refused);
  EXPECT_THAT([&] { cublas_handle(launch); }, refused);
}
TEST_F(Recordings, AllowOnePerThread) {
  Recording recording(memory);
  EXPECT_THROW(Recording{memory}, stave::Error);
  EXPECT_EQ(Recording::current(), &recording);
  kernel(1, recording.stream());
  EXPECT_EQ(recording.end().size(), 1u);
}
TEST_F(Recordings, AreAbandonedInAForkedChild) {
  Recording recording(memory);
  recording.scratch().allocate(500);
  RecordedGraph graph = recording.end();
  graph.abandon();
  { const RecordedGraph gone = std::move(graph); }
  EXPECT_EQ(driver.executables--, 1);
  EXPECT_GE(live(), 500u);
}

}  // namespace
}  // namespace stave_cuda
