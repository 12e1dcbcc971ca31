// What calls of functions need (instruction_walk_calls.cpp), with the System V calling convention.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/x86_64.h>

namespace stave_cpu {

void X86Encoder::store_in_frame(int offset, std::size_t bytes, int from) { store_to(ptr[rsp + offset], from, bytes); }
void X86Encoder::load_from_frame(int to, int offset, std::size_t bytes) { load_from(to, ptr[rsp + offset], bytes); }

Xbyak::Reg64 X86Encoder::argument(int number) const { return number == 0 ? rdi : number == 1 ? rsi : rdx; }
void X86Encoder::pass_frame_address(int to, int offset) { lea(argument(to), ptr[rsp + offset]); }
void X86Encoder::pass_number(int to, int number) { mov(argument(to).cvt32(), static_cast<std::uint32_t>(number)); }

void X86Encoder::call_address(const void* function) {
  mov(rax, reinterpret_cast<std::uint64_t>(function));
  call(rax);
}

}  // namespace stave_cpu

#endif
