#include <stave/core/effect.h>

#include <atomic>
#include <vector>

#include <stave/core/fail.h>
#include <stave/core/scope.h>

#if defined(__GNUG__)
#include <cxxabi.h>

#include <cstdlib>
#endif

namespace stave {

InstallationId next_installation_id() noexcept {
  // Ids are drawn in blocks: a transform in a tight loop should not wait for a cache line that all threads want.
  constexpr InstallationId block = 1024;
  static std::atomic<InstallationId> next_block{1};
  static constinit thread_local InstallationId next = 0, end = 0;
  if (next == end) {
    next = next_block.fetch_add(block, std::memory_order_relaxed);
    end = next + block;
  }
  return next++;
}

namespace {

std::string describe(const Frame& frame) {
  return frame.handler ? frame.handler->describe() : static_cast<const ScopeFrame&>(frame).name->text;
}

std::vector<const Frame*> frames_from_inside_out() {
  std::vector<const Frame*> frames;
  stave_detail::visit_frames(stave_detail::current, nullptr, [&](const Frame& frame) {
    if (frame.handler || frame.kind == Frame::Kind::scope) frames.push_back(&frame);
  });
  return frames;
}

}  // namespace

std::string current_handlers() {
  std::string list;
  for (const Frame* frame : frames_from_inside_out()) list += (list.empty() ? "" : ", ") + describe(*frame);
  return list;
}

std::string error_context() {
  std::string context;
  for (const Frame* frame : frames_from_inside_out())
    context += (context.empty() ? "\n  inside " : ", inside ") + describe(*frame);
  return context;
}

}  // namespace stave

namespace stave_detail {

constinit thread_local Frame* current = nullptr;
constinit thread_local int open_scopes = 0;

std::any& next_answer(LogFrame& frame) {
  if (frame.next == frame.log.answers.size())
    fail<TransformError>(
        "checkpoint: the function performed more effects when it ran again than at first, which were {}", frame.next);
  return frame.log.answers[frame.next++];
}

void throw_not_copyable(const std::type_info& effect) {
  fail<TransformError>(
      "checkpoint: the answer to the effect {} cannot be copied, so it cannot be given again when the "
      "function runs again",
      effect.name());
}

void throw_unhandled(const std::type_info& effect) {
  std::string name = effect.name();
#if defined(__GNUG__)
  int status = 0;
  if (char* demangled = abi::__cxa_demangle(effect.name(), nullptr, nullptr, &status)) {
    name = demangled;
    std::free(demangled);
  }
#endif
  fail<TransformError>("perform: no handler for the effect {}, and it has no unhandled() to fall back on", name);
}

}  // namespace stave_detail
