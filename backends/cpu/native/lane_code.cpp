#include <stave/backends/cpu/native/lane_code.h>

#include <exception>

#ifdef STAVE_HAVE_XBYAK
#include <cstring>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/native/functions.h>
#include <stave/backends/cpu/native/lane_encoder.h>
#include <stave/core/program/hoist_invariants.h>
#endif

namespace stave_cpu {

struct LaneCode::Text {
  std::span<const unsigned char> code;
  std::size_t entry, work_bytes;
  int lanes;
  double cost;
};

LaneCode::LaneCode(const Text& text, const stave_detail::Lowered& code)
    : memory_(text.code), lanes_(text.lanes), work_bytes_(text.work_bytes), cost_(text.cost) {
  if (memory_.address())
    entry_ = reinterpret_cast<Entry>(reinterpret_cast<std::uintptr_t>(memory_.address()) + text.entry);
  for (const stave_detail::Lowered::Buffer& buffer : code.buffers)
    if (buffer.kind == stave_detail::Lowered::Buffer::Kind::constant) constants_.push_back(buffer.constant);
}

#ifdef STAVE_HAVE_XBYAK

namespace {

// The time of a block, if an instruction takes half a nanosecond, and a call twenty.
double cost_of(const Lowered& code) {
  double cost = 0, repeats = 1;
  std::vector<double> outer;
  for (const Lowered::Instruction& it : code.instructions) {
    if (it.code == Lowered::Code::loop) {
      outer.push_back(repeats);
      repeats *= it.operands[0] < 0 ? static_cast<double>(it.number) : 8;
    } else if (it.code == Lowered::Code::end) {
      repeats = outer.back();
      outer.pop_back();
    }
    const bool calls = it.code == Lowered::Code::operation && function_on_vector(it.op, code.dtype(it.operands[0]));
    cost += repeats * (calls ? 20 : 0.5);
  }
  return cost;
}

}  // namespace

std::unique_ptr<const LaneCode> LaneCode::compile(const Lowered& code, const std::vector<bool>& is_uniform,
                                                  std::string* reason) {
  const auto refuse = [&](const char* why) {
    if (reason) *reason = why;
    return nullptr;
  };
  const bool avx512 = std::strcmp(kernels().isa, "avx512") == 0;
  if (!avx512 && std::strcmp(kernels().isa, "avx2") != 0) return refuse("lanes need the kernels of AVX2 or AVX-512");
  for (const stave::Dtype dtype : code.values)
    if (stave::is_float(dtype) && stave::size_of(dtype) == 2) return refuse("native code has no floats of 16 bits");
  try {
    const LaneValues values = find_lane_values(stave_detail::hoist_invariants(code), is_uniform, avx512);
    const LiveRanges ranges(values.code, values.vectors);
    LaneEncoder encoder(values, is_uniform, ranges, {static_cast<int>(kernels().vector_bytes), avx512});
    encoder.run();
    const Text text{
        encoder.text(), encoder.entry(),
        static_cast<std::size_t>(code.work_bytes) * static_cast<std::size_t>(encoder.lanes()) + encoder.slot_bytes(),
        encoder.lanes(), cost_of(values.code)};
    std::unique_ptr<const LaneCode> native(new LaneCode(text, code));
    if (!native->entry_) return refuse("the system gives no executable memory");
    return native;
  } catch (const std::exception& error) {  // These include Xbyak's errors.
    return refuse(error.what());
  }
}

#else

std::unique_ptr<const LaneCode> LaneCode::compile(const stave_detail::Lowered&, const std::vector<bool>&,
                                                  std::string* reason) {
  if (reason) *reason = "this build has no native code for the processor (it needs x86-64, Linux and Xbyak)";
  return nullptr;
}

#endif

}  // namespace stave_cpu
