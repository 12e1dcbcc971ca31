namespace stave_kernels_sse2 {

bool supported() { return true; }

}  // namespace stave_kernels_sse2
