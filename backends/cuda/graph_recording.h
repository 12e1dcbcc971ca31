// Operations of a program, recorded as a CUDA graph: what Backend::record is on a CUDA device.
//
//   Recording recording(memory);     // what this thread runs from here on goes to a stream of the recording's, and is not done
//   ...                              // CudaBackend::run
//   const RecordedGraph graph = recording.end();
//   graph.launch(stream);
//
// All threads' work goes to one stream of a device (runtime.h); a recording has one of its own, or it would take in what others run
// meanwhile. And scratch memory of its own: what an operation gives back serves the recording's later operations, and stays with the
// graph, which works on it whenever it is launched.
#pragma once

#include <vector>

#include <stave/backends/cuda/graph.h>
#include <stave/backends/cuda/launch.h>
#include <stave/backends/cuda/memory_cache.h>

namespace stave_cuda {

/// Scratch memory of several operations, one after the other.
class GraphScratch final : public Scratch {
 public:
  explicit GraphScratch(MemoryCache& memory) : memory_(memory) {}
  ~GraphScratch();
  GraphScratch(const GraphScratch&) = delete;
  void* allocate(std::size_t bytes) override;
  /// An operation is over: what it took, the next may take.
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

/// May be destroyed while the device is still at it: the graph then goes when it is done, and what is put into its memory comes later.
class RecordedGraph {
 public:
  RecordedGraph(std::unique_ptr<Graph> graph, std::unique_ptr<GraphScratch> scratch)
      : graph_(std::move(graph)), scratch_(std::move(scratch)) {}
  void launch(cudaStream_t stream) const { graph_->launch(stream); }
  std::size_t size() const noexcept { return graph_->size(); }
  /// Forgets both, and gives nothing back: in a child of fork(), to which they do not belong.
  void abandon() noexcept;

 private:
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphScratch> scratch_;
};

/// One on a thread at a time. Throws stave::Error.
class Recording {
 public:
  explicit Recording(MemoryCache& memory);
  ~Recording();
  Recording(const Recording&) = delete;

  /// Of this thread; null: none.
  static Recording* current() noexcept;
  cudaStream_t stream() const noexcept { return stream_.get(); }
  GraphScratch& scratch() noexcept { return *scratch_; }
  /// Once; what is run from then on is done again.
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
