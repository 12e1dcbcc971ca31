namespace stave_kernels_neon {

bool supported() { return true; }

}  // namespace stave_kernels_neon
