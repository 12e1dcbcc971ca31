// Every x86-64 processor supports this set.
namespace stave_kernels_sse2 {

bool supported() { return true; }

}  // namespace stave_kernels_sse2
