#include <stave/backends/cuda/graph.h>

#include <vector>

#include <stave/backends/cuda/launch.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave_detail::fail;

namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const noexcept { cudaGraphDestroy(graph); }
};
using Recorded = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

/// Returns the reason why a node cannot be repeated, or null if it can.
const char* why_not_repeated(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
  switch (type) {
    case cudaGraphNodeTypeKernel:
    case cudaGraphNodeTypeMemset:
    case cudaGraphNodeTypeEmpty: return nullptr;
    case cudaGraphNodeTypeMemcpy: break;
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree: return "it allocates or frees memory";
    case cudaGraphNodeTypeHost: return "it calls a function on the host";
    case cudaGraphNodeTypeEventRecord:
    case cudaGraphNodeTypeWaitEvent: return "it records an event, or waits for one";
    default: return "it contains work of a kind that Stave does not use";
  }
  cudaMemcpy3DParms copy{};
  check(cudaGraphMemcpyNodeGetParams(node, &copy), "cudaGraphMemcpyNodeGetParams");
  return copy.kind == cudaMemcpyDeviceToDevice ? nullptr : "it copies from or to the host's memory";
}

/// Returns the number of nodes. Throws if one of them cannot be repeated.
std::size_t expect_repeatable(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  for (const cudaGraphNode_t node : nodes)
    if (const char* const why = why_not_repeated(node))
      fail<stave::Error>("cuda: graph: what was recorded cannot be repeated: {}", why);
  return count;
}

}  // namespace

Graph::Graph(cudaGraph_t recorded, std::size_t size) : size_(size) {
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiateWithFlags(&executable, recorded, 0), "cudaGraphInstantiate");
  executable_.reset(executable);
}

void Graph::launch(cudaStream_t stream) const { check(cudaGraphLaunch(executable_.get(), stream), "cudaGraphLaunch"); }

// The capture is thread-local: calls of other threads on other streams are not restricted.
GraphCapture::GraphCapture(cudaStream_t stream) : stream_(stream) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) fail<stave::Error>("cuda: graph: the stream is being recorded already");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

GraphCapture::~GraphCapture() {
  if (!open_) return;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
  // Clears the error of the capture: the exception that ended the recording reports it.
  cudaGetLastError();
}

Graph GraphCapture::end() {
  if (!open_) fail<stave::Error>("cuda: graph: this recording has ended already");
  open_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
  if (status != cudaSuccess) {
    cudaGetLastError();
    fail<stave::Error>(
        "cuda: graph: what was recorded cannot be repeated: something in it waits for the device, or cannot be "
        "deferred: {} ({})",
        cudaGetErrorString(status), cudaGetErrorName(status));
  }
  const Recorded recorded(graph);
  return Graph(graph, expect_repeatable(graph));
}

}  // namespace stave_cuda
