// Compiled as the library is, but only preprocessed: cmake/built_with.cmake makes
// <stave/built_with.h> of what comes out.
#define STAVE_WRITES_SETTINGS
#include <stave/core/effects/settings.h>

enum class BuiltWith {
  POINTER_BYTES = STAVE_WITH_POINTER_BYTES,
  LIBCPP = STAVE_WITH_LIBCPP,
  LIBCPP_ABI = STAVE_WITH_LIBCPP_ABI,
  LIBCPP_DEBUG = STAVE_WITH_LIBCPP_DEBUG,
  LIBCPP_LAYOUT = STAVE_WITH_LIBCPP_LAYOUT,
  GLIBCXX_DEBUG = STAVE_WITH_GLIBCXX_DEBUG,
  CXX11_ABI = STAVE_WITH_CXX11_ABI,
  SANITIZED_VECTORS = STAVE_WITH_SANITIZED_VECTORS,
  BOOST_CONTEXT = STAVE_WITH_BOOST_CONTEXT,
};
