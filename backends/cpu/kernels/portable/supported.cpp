// Every processor supports this set.
namespace stave_kernels_portable {

bool supported() { return true; }

}  // namespace stave_kernels_portable
