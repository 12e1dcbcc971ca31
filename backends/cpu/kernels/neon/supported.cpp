// Every 64-bit ARM processor supports this set.
namespace stave_kernels_neon {

bool supported() { return true; }

}  // namespace stave_kernels_neon
