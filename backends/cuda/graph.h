// CUDA graphs: work on a stream, recorded once, and from then on put there by one call.
//
//   GraphCapture capture(stream);   // what is put on the stream from here on is recorded, not done
//   ...                             // kernels, memory set, copies within the device
//   const Graph graph = capture.end();
//   graph.launch(stream);           // does all of it, as often as wanted
//
// A graph works on the addresses that were recorded: whoever launches it keeps that memory. Hence the work takes none of its own,
// reads none of the host's, whose bytes would be others when it is launched, and waits for nothing: `end` refuses a graph that does. What is
// to be loaded or compiled for it has been before, by work of the same kind that was done. Nobody else puts work on the stream
// meanwhile, or it would be recorded as well.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>

namespace stave_cuda {

class Graph {
 public:
  /// On the stream of the device that it was recorded on, any number of times, one after the other. Throws stave::Error.
  void launch(cudaStream_t stream) const;
  /// How many kernels, copies and the like it holds.
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
  /// Throws stave::Error if the stream is being recorded already.
  explicit GraphCapture(cudaStream_t stream);
  /// Without `end`, as where the work throws: what was recorded is dropped, and the stream is as before.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  /// Once. Throws stave::Error if what was recorded cannot be a graph, and says why; it is dropped then.
  Graph end();

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

}  // namespace stave_cuda
