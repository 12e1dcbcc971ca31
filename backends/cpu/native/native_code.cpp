#include <stave/backends/cpu/native/native_code.h>

#include <exception>

#include <stave/backends/cpu/native/group_calls.h>
#include <stave/core/program/hoist_invariants.h>

#ifdef STAVE_HAVE_XBYAK
#include <cstring>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/native/x86_64.h>
#elif defined(STAVE_NATIVE_AARCH64)
#include <stave/backends/cpu/native/aarch64.h>
#endif

namespace stave_cpu {

struct NativeCode::Text {
  std::span<const unsigned char> code;
  std::size_t entry, work_bytes;
};

NativeCode::NativeCode(const Text& text, const stave_detail::Lowered& code)
    : memory_(text.code), work_bytes_(text.work_bytes), code_bytes_(text.code.size()) {
  if (memory_.address())
    entry_ = reinterpret_cast<Entry>(reinterpret_cast<std::uintptr_t>(memory_.address()) + text.entry);
  for (const stave_detail::Lowered::Buffer& buffer : code.buffers)
    if (buffer.kind == stave_detail::Lowered::Buffer::Kind::constant) constants_.push_back(buffer.constant);
}

#if defined(STAVE_HAVE_XBYAK) || defined(STAVE_NATIVE_AARCH64)

namespace {

#ifdef STAVE_HAVE_XBYAK

// Returns the instruction sets that native code may use: those of the kernels in use, which a test
// may choose.
Features features_in_use() {
  const bool has_vectors = std::strcmp(kernels().isa, "avx2") == 0 || std::strcmp(kernels().isa, "avx512") == 0;
  return {has_vectors && __builtin_cpu_supports("avx"), has_vectors && __builtin_cpu_supports("fma")};
}

X86Encoder encoder_of(const LiveRanges& ranges) { return {ranges, features_in_use()}; }
#else
Aarch64Encoder encoder_of(const LiveRanges& ranges) { return Aarch64Encoder(ranges); }
#endif

}  // namespace

std::unique_ptr<const NativeCode> NativeCode::compile(const stave_detail::Lowered& code, std::string* reason) {
  const auto refuse = [&](const char* why) {
    if (reason) *reason = why;
    return nullptr;
  };
  for (const Dtype dtype : code.values)
    if (stave::is_float(dtype) && stave::size_of(dtype) == 2) return refuse("native code has no floats of 16 bits");
  try {
    const stave_detail::Lowered prepared = group_calls(stave_detail::hoist_invariants(code));
    const LiveRanges ranges(prepared);
    auto encoder = encoder_of(ranges);
    encoder.run();
    const Text text{encoder.text(), encoder.entry(), static_cast<std::size_t>(code.work_bytes) + encoder.slot_bytes()};
    std::unique_ptr<const NativeCode> native(new NativeCode(text, code));
    if (!native->entry_) return refuse("the system gives no executable memory");
    return native;
  } catch (const std::exception& error) {  // These include the encoders' errors.
    return refuse(error.what());
  }
}

#else

std::unique_ptr<const NativeCode> NativeCode::compile(const stave_detail::Lowered&, std::string* reason) {
  if (reason)
    *reason =
        "this build has no native code for the processor (it needs Linux, and either x86-64 and Xbyak or aarch64)";
  return nullptr;
}

#endif

}  // namespace stave_cpu
