// The exchange of stacks: `exchange` leaves one stack and continues on another one. fiber_state.h
// has the other parts of a switch.
//
// On x86-64 the exchange is a few inlined instructions without a call or a return. A processor
// expects each return to go to the last caller; a call that returns on another stack spoils all
// following predictions, at 5 ns each. The inline assembly declares every register as clobbered,
// so the compiler saves those that it needs. On other processors Boost.Context does the exchange.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__LP64__) && !defined(STAVE_BOOST_CONTEXT)
#define STAVE_OWN_CONTEXT 1
#else
#define STAVE_OWN_CONTEXT 0
#endif

#if STAVE_OWN_CONTEXT
#include <xmmintrin.h>
#endif

namespace stave_detail {

#if STAVE_OWN_CONTEXT

/// The point at which a stack was left. The flags of floating-point exceptions are sticky
/// and belong to the thread, like errno; the rounding mode and the masks belong to the stack.
/// The mode and the masks are loaded only if they differ, because loading them empties the
/// pipeline: 130 ns.
struct Context {
  void* stack;
  void* instruction;
  void* frame;  // rbp, the one register that the compiler may be unable to save
  std::uint32_t floats;
  std::uint16_t x87_floats;

  /// Makes this the start of a new stack, which grows downwards from `high`. The first exchange to
  /// it calls entry(the context that was left), with the rounding mode and masks of that context.
  void begin_at(char* high, std::size_t, void (*entry)(Context*)) noexcept {
    void** const top = reinterpret_cast<void**>(high - reinterpret_cast<std::uintptr_t>(high) % 16) - 1;
    *top = nullptr;  // a null return address, at which unwinders stop
    *this = {top, reinterpret_cast<void*>(entry), nullptr, 0, 0};
  }
  void save_floats() noexcept { asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(floats), "=m"(x87_floats)); }
  void restore_floats(const Context& left) const noexcept {
    constexpr std::uint32_t flags = _MM_EXCEPT_MASK;
    if ((floats ^ left.floats) & ~flags) [[unlikely]]
      _mm_setcsr((floats & ~flags) | (left.floats & flags));
    if (x87_floats != left.x87_floats) [[unlikely]] {
      asm volatile("fldcw %0" : : "m"(x87_floats));
    }
  }
};

/// Leaves this stack at `here` and continues at `to`. Returns when other code continues at `here`;
/// the result is the context that was left then.
[[gnu::always_inline]] inline Context* exchange(Context& here, const Context& to) noexcept {
  here.save_floats();
  Context* left = &here;
  const Context* next = &to;
  asm volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rsp, 0(%%rdi)\n\t"
      "movq %%rax, 8(%%rdi)\n\t"
      "movq %%rbp, 16(%%rdi)\n\t"
      "movq 16(%%rsi), %%rbp\n\t"
      "movq 0(%%rsi), %%rsp\n\t"
      "jmpq *8(%%rsi)\n"
      "1:"
      : "+D"(left), "+S"(next)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "st", "st(1)", "st(2)",
        "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
        "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
#ifdef __AVX512F__
        "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",
        "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#endif
        "cc", "memory");
  return left;
}

#else

struct Context {
  void* at;  // the fcontext_t of Boost.Context
  void (*entry)(Context*);

  void begin_at(char* high, std::size_t size, void (*begin)(Context*)) noexcept;
  void restore_floats(const Context&) const noexcept {}  // Boost.Context does it
};

Context* exchange(Context& here, const Context& to) noexcept;

#endif

/// A stack that is about to be left, and the point where the program continues. If `here` is null,
/// the stack is not left.
struct Departure {
  Context* here = nullptr;
  const Context* to = nullptr;
  // Inlined, because TSan counts calls per fiber and is notified before the switch.
  [[gnu::always_inline]] Context* leave() const noexcept { return exchange(*here, *to); }
};

}  // namespace stave_detail
