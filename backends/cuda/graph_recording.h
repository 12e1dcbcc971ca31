// Operations of a program recorded as a CUDA graph; this implements
// Backend::record on a CUDA device.
//
//   Recording recording(memory);     // from here on, operations of this thread go to the stream of
//                                    // the recording, and do not run
//   ...                              // CudaBackend::run
//   const RecordedGraph graph = recording.end();
//   graph.launch(stream);
//
// The work of all threads goes to one stream of a device (runtime.h). A recording has its own
// stream, because otherwise it would capture the work of other threads. It also has its own scratch
// memory. Memory that one operation releases is reused by later operations of the recording, and it
// stays with the graph, which uses it at each launch.
#pragma once

#include <vector>

#include <stave/backends/cuda/graph.h>
#include <stave/backends/cuda/launch.h>
#include <stave/backends/cuda/memory_cache.h>

namespace stave_cuda {

/// Scratch memory shared by several operations, which run one after the other.
class GraphScratch final : public Scratch {
 public:
  explicit GraphScratch(MemoryCache& memory) : memory_(memory) {}
  ~GraphScratch();
  GraphScratch(const GraphScratch&) = delete;
  void* allocate(std::size_t bytes) override;
  /// Ends an operation. The next operation may reuse its memory.
  void end_operation();

 private:
  struct Block {
    void* data;
    std::size_t bytes;
    bool free;
  };
  MemoryCache& memory_;
  std::vector<Block> blocks_;
};

/// A recorded graph and its scratch memory. It may be destroyed while the device still runs the
/// graph: CUDA destroys the graph when it has run, and later uses of the memory follow on the
/// stream.
class RecordedGraph {
 public:
  RecordedGraph(std::unique_ptr<Graph> graph, std::unique_ptr<GraphScratch> scratch)
      : graph_(std::move(graph)), scratch_(std::move(scratch)) {}
  void launch(cudaStream_t stream) const { graph_->launch(stream); }
  std::size_t size() const noexcept { return graph_->size(); }
  /// Drops the graph and the memory without releasing them. A child of fork(), which does not own
  /// them, calls it.
  void abandon() noexcept;

 private:
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphScratch> scratch_;
};

/// Records the operations of this thread. A thread has at most one recording
/// at a time. Throws stave::Error.
class Recording {
 public:
  explicit Recording(MemoryCache& memory);
  ~Recording();
  Recording(const Recording&) = delete;

  /// Returns the recording of this thread, or null if there is none.
  static Recording* current() noexcept;
  cudaStream_t stream() const noexcept { return stream_.get(); }
  GraphScratch& scratch() noexcept { return *scratch_; }
  /// Ends the recording; later operations run normally. Call it once.
  RecordedGraph end();

 private:
  struct DestroyStream {
    void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
  };
  std::unique_ptr<GraphScratch> scratch_;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream> stream_;
  GraphCapture capture_;
};

}  // namespace stave_cuda
