// Checks that a program which uses Stave is compiled with suitable settings. Every header includes
// this file first. A compiler with other settings then reports the cause once, instead of an error
// for each line, or no error at all while values are laid out in memory differently from what
// the library expects.
//
// The build records the library's own settings as STAVE_BUILT_WITH_... in <stave/built_with.h>
// (cmake/built_with.cmake). Settings that change no type shared by programs and the library are not
// checked: NDEBUG, _GLIBCXX_ASSERTIONS, -fshort-enums (no enumeration here leaves its underlying
// type to the compiler), -funsigned-char, sanitizers, optimisation.
#pragma once

#if __cplusplus < 202002L
#error "stave: the headers are C++20: compile with -std=c++20 or later"
#include <stave/older_than_cpp20>  // stops the compilation
#endif
#ifndef __cpp_exceptions
#error "stave: the library reports errors and ends programs early by exceptions: compile without -fno-exceptions"
#include <stave/without_exceptions>
#endif
#ifndef __cpp_rtti
#error "stave: the library identifies effects and handlers by their types at run time: compile without -fno-rtti"
#include <stave/without_rtti>
#endif

#define STAVE_WITH_POINTER_BYTES __SIZEOF_POINTER__

#ifndef STAVE_WRITES_SETTINGS
#include <stave/built_with.h>
#if STAVE_WITH_POINTER_BYTES != STAVE_BUILT_WITH_POINTER_BYTES
#error \
    "stave: the library was built for pointers of another size: compile without -m32 (-mx32, -m64), or build Stave with it as well"
#include <stave/other_layout>
#endif
#endif

#include <version>  // defines which standard library this is, and its settings

#ifdef _LIBCPP_VERSION
#define STAVE_WITH_LIBCPP 1
#define STAVE_WITH_LIBCPP_ABI _LIBCPP_ABI_VERSION
#else
#define STAVE_WITH_LIBCPP 0
#define STAVE_WITH_LIBCPP_ABI 0
#endif

#if defined(_GLIBCXX_DEBUG) && !STAVE_WITH_LIBCPP
#define STAVE_WITH_GLIBCXX_DEBUG 1
#else
#define STAVE_WITH_GLIBCXX_DEBUG 0
#endif

#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI && !STAVE_WITH_LIBCPP
#define STAVE_WITH_CXX11_ABI 1
#else
#define STAVE_WITH_CXX11_ABI 0
#endif

// Debug iterators, which know their container, and the alternative layout of strings.
#if defined(_LIBCPP_ENABLE_DEBUG_MODE) || (defined(_LIBCPP_DEBUG) && _LIBCPP_DEBUG + 0 >= 1)
#define STAVE_WITH_LIBCPP_DEBUG 1
#else
#define STAVE_WITH_LIBCPP_DEBUG 0
#endif
#if defined(_LIBCPP_ABI_BOUNDED_ITERATORS) || defined(_LIBCPP_ABI_BOUNDED_ITERATORS_IN_STRING) || \
    defined(_LIBCPP_ABI_BOUNDED_ITERATORS_IN_VECTOR) || defined(_LIBCPP_ABI_ALTERNATE_STRING_LAYOUT)
#define STAVE_WITH_LIBCPP_LAYOUT 1
#else
#define STAVE_WITH_LIBCPP_LAYOUT 0
#endif

// Under AddressSanitizer a vector marks its reserved memory: either all code that grows vectors
// must do so, or none.
#if defined(_GLIBCXX_SANITIZE_VECTOR) && defined(_GLIBCXX_SANITIZE_STD_ALLOCATOR) && !STAVE_WITH_LIBCPP
#define STAVE_WITH_SANITIZED_VECTORS _GLIBCXX_SANITIZE_STD_ALLOCATOR
#else
#define STAVE_WITH_SANITIZED_VECTORS 0
#endif

#ifdef STAVE_BOOST_CONTEXT  // core/effects/context.h
#define STAVE_WITH_BOOST_CONTEXT 1
#else
#define STAVE_WITH_BOOST_CONTEXT 0
#endif

#ifndef STAVE_WRITES_SETTINGS

#if STAVE_WITH_LIBCPP != STAVE_BUILT_WITH_LIBCPP || STAVE_WITH_LIBCPP_ABI != STAVE_BUILT_WITH_LIBCPP_ABI
#error \
    "stave: the library was built with another standard library: give this program the same -stdlib (libstdc++ or libc++, and its ABI version), or build Stave with this one"
#include <stave/other_layout>
#endif

#if STAVE_WITH_GLIBCXX_DEBUG && !STAVE_BUILT_WITH_GLIBCXX_DEBUG
#error \
    "stave: _GLIBCXX_DEBUG changes the memory layout of containers, and the library was built without it: compile without it, or build Stave with it as well (cmake -DCMAKE_CXX_FLAGS=-D_GLIBCXX_DEBUG)"
#include <stave/other_layout>
#elif !STAVE_WITH_GLIBCXX_DEBUG && STAVE_BUILT_WITH_GLIBCXX_DEBUG
#error \
    "stave: _GLIBCXX_DEBUG changes the memory layout of containers, and the library was built with it: compile with -D_GLIBCXX_DEBUG, or build Stave without it"
#include <stave/other_layout>
#endif

#if STAVE_WITH_CXX11_ABI != STAVE_BUILT_WITH_CXX11_ABI
#error \
    "stave: _GLIBCXX_USE_CXX11_ABI changes the memory layout of strings and lists, and the library was built with another value: use the same value for both"
#include <stave/other_layout>
#endif

#if STAVE_WITH_LIBCPP_DEBUG != STAVE_BUILT_WITH_LIBCPP_DEBUG || \
    STAVE_WITH_LIBCPP_LAYOUT != STAVE_BUILT_WITH_LIBCPP_LAYOUT
#error \
    "stave: _LIBCPP_ENABLE_DEBUG_MODE, _LIBCPP_DEBUG and _LIBCPP_ABI_... change the memory layout of containers and iterators, and the library was built with other values: use the same values for both"
#include <stave/other_layout>
#endif

#if STAVE_WITH_SANITIZED_VECTORS != STAVE_BUILT_WITH_SANITIZED_VECTORS
#error \
    "stave: _GLIBCXX_SANITIZE_VECTOR under AddressSanitizer marks the reserved memory of vectors, and all code that grows a vector must do so: compile this program and Stave alike, both with it (and -fsanitize=address) or both without"
#include <stave/other_layout>
#endif

#if STAVE_WITH_BOOST_CONTEXT != STAVE_BUILT_WITH_BOOST_CONTEXT
#error \
    "stave: STAVE_BOOST_CONTEXT changes how a computation is suspended, and the library was built with the other choice: define it for both, or for neither"
#include <stave/other_layout>
#endif

namespace stave_detail {
struct PacksMembers {
  char first;
  void* second;
};
static_assert(sizeof(PacksMembers) == 2 * sizeof(void*),
              "stave: -fpack-struct, or a #pragma pack that was not ended, packs the members of classes; the library "
              "was built without packing");
}  // namespace stave_detail

#endif
