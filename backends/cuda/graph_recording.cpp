#include <stave/backends/cuda/graph_recording.h>

#include <algorithm>

#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave_detail::fail;

namespace {

constinit thread_local Recording* recording = nullptr;

cudaStream_t new_stream() {
  if (recording) fail<stave::Error>("cuda: graph: this thread is recording already");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

}  // namespace

// ---- scratch memory ---------------------------------------------------------------------------

GraphScratch::~GraphScratch() {
  for (const Block& block : blocks_) memory_.give(block.data, block.bytes);
}

void* GraphScratch::allocate(std::size_t bytes) {
  const std::size_t size = SizeClass::of(bytes).bytes;
  const auto spare = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& block) { return block.free && block.bytes == size; });
  if (spare != blocks_.end()) return spare->free = false, spare->data;
  blocks_.reserve(blocks_.size() + 1);
  return blocks_.emplace_back(Block{memory_.take(size), size, false}).data;
}

void GraphScratch::end_operation() {
  for (Block& block : blocks_) block.free = true;
}

// ---- recordings -------------------------------------------------------------------------------

void RecordedGraph::abandon() noexcept {
  static_cast<void>(graph_.release());
  static_cast<void>(scratch_.release());
}

Recording::Recording(MemoryCache& memory)
    : scratch_(std::make_unique<GraphScratch>(memory)), stream_(new_stream()), capture_(stream_.get()) {
  recording = this;
}
Recording::~Recording() { recording = nullptr; }

Recording* Recording::current() noexcept { return recording; }

RecordedGraph Recording::end() {
  recording = nullptr;
  return {std::make_unique<Graph>(capture_.end()), std::move(scratch_)};
}

}  // namespace stave_cuda
