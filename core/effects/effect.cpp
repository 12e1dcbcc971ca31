// Installation ids, the end of installations, and the texts and errors of effects.
#include <stave/core/effects/effect.h>

#include <atomic>
#include <memory>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/effects/scope.h>

#if defined(__GNUG__)
#include <cxxabi.h>

#include <cstdlib>
#endif

namespace stave {

InstallationId next_installation_id() noexcept {
  // Ids are drawn in blocks: a transform in a tight loop should not wait for a cache line that all
  // threads write.
  constexpr InstallationId block = 1024;
  static std::atomic<InstallationId> next_block{1};
  static constinit thread_local InstallationId next = 0, end = 0;
  if (next == end) {
    next = next_block.fetch_add(block, std::memory_order_relaxed);
    end = next + block;
  }
  return next++;
}

std::any AnyHandler::answer_recordable(const EffectType& effect, std::any) {
  stave_detail::throw_unhandled(effect.type);
}

std::string AnyHandler::describe() const { return stave_detail::type_name(typeid(*this)); }

// A computation that is notified here may suspend further computations inside the handler, so the
// list is read anew each time. Each computation is notified once.
void HandlerFrame::end() noexcept {
  known->installed = false;
  while (!known->listeners.empty()) {
    InstallationListener* const listener = known->listeners.back();
    known->listeners.pop_back();
    listener->installation_ends(handler->describe(), owner);
  }
}

namespace {

// The names of the handlers from inside out. Handlers without a name are internal to the library
// and are left out.
std::vector<std::string> names_of_handlers() {
  std::vector<std::string> names;
  stave_detail::visit_frames(stave_detail::current, nullptr, [&](const Frame& frame) {
    if (!frame.handler) return;
    if (std::string name = frame.handler->describe(); !name.empty()) names.push_back(std::move(name));
  });
  return names;
}

}  // namespace

std::string current_handlers() {
  std::string list;
  for (const std::string& name : names_of_handlers()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::string error_context() {
  // At most 32 names are listed, so that the message stays readable if handlers are
  // nested very deeply by mistake.
  constexpr std::size_t most = 32;
  const std::vector<std::string> names = names_of_handlers();
  std::string context;
  for (std::size_t i = 0; i < names.size() && i < most; ++i)
    context += (context.empty() ? "\n  inside " : ", inside ") + names[i];
  if (names.size() > most) context += ", inside " + std::to_string(names.size() - most) + " more";
  return context;
}

}  // namespace stave

namespace stave_detail {

constinit thread_local Frame* current = nullptr;

std::string type_name(const std::type_info& type) {
#if defined(__GNUG__)
  struct Free {
    void operator()(char* text) const noexcept { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> demangled(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status));
  if (demangled) return demangled.get();
#endif
  return type.name();
}

void fail_transform(const std::string& text) { throw TransformError(text + error_context()); }

void throw_not_copyable(const std::type_info& effect) {
  fail_transform("the answer to the effect " + type_name(effect) +
                 " cannot be copied, so it cannot be given again when the function runs again");
}

void throw_other_effect(const std::type_info& effect) {
  fail_transform("the function performed different effects when it ran again, " + type_name(effect) +
                 " among them: it must perform the same effects each time it runs");
}

void throw_unhandled(const std::type_info& effect) {
  fail_transform("perform: no handler for the effect " + type_name(effect) +
                 ", and it has no unhandled() to fall back on");
}

}  // namespace stave_detail
