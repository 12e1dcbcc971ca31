// CUDA graphs: work on a stream that is recorded once and then launched by one call.
//
//   GraphCapture capture(stream);   // from here on, work on the stream is recorded and not run
//   ...                             // kernels, memory set, copies within the device
//   const Graph graph = capture.end();
//   graph.launch(stream);           // runs all of the work; may be repeated
//
// A graph uses the recorded addresses, so the caller must keep that memory alive. Therefore the
// recorded work must not allocate memory, read host memory (whose bytes would differ at launch) or
// wait for anything; `end` rejects a graph that does. Code that needs loading or compiling must
// already be loaded, by running the same work once before. No other thread may put work on the
// stream meanwhile, because it would be recorded as well.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>

namespace stave_cuda {

class Graph {
 public:
  /// Launches the work on a stream of the device it was recorded on. It may be launched any number
  /// of times, one after the other. Throws stave::Error.
  void launch(cudaStream_t stream) const;
  /// Returns the number of nodes of the graph: kernels, copies and so on.
  std::size_t size() const noexcept { return size_; }

 private:
  friend class GraphCapture;
  explicit Graph(cudaGraph_t recorded, std::size_t size);

  struct Destroy {
    void operator()(cudaGraphExec_t graph) const noexcept { cudaGraphExecDestroy(graph); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> executable_;
  std::size_t size_;
};

class GraphCapture {
 public:
  /// Throws stave::Error if the stream is already being recorded.
  explicit GraphCapture(cudaStream_t stream);
  /// Discards the recorded work if `end` was not called, for example after an
  /// exception, and restores the stream.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  /// Ends the recording and returns the graph. Call it once. Throws stave::Error with the reason,
  /// and discards the recorded work, if that work cannot be a graph.
  Graph end();

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace stave_cuda
