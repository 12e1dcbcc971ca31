// Compiles all public headers after the macros of other libraries that are named like ordinary
// words, none of which may affect the headers. The standard's headers are included first,
// as in programs that include such a library before Stave. Otherwise libstdc++,
// which undefines some of these macros, would hide an error.
#include <pthread.h>
#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <complex>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <iostream>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <shared_mutex>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
#include <version>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define BROKEN @a macro of another library @

// Qt, unless QT_NO_KEYWORDS is defined.
#define slots BROKEN
#define signals BROKEN
#define emit BROKEN
#define foreach BROKEN
#define forever BROKEN
#define Q_SLOTS BROKEN

// X11/X.h, Xlib.h and Xutil.h.
#define None BROKEN
#define Bool BROKEN
#define Status BROKEN
#define True BROKEN
#define False BROKEN
#define Success BROKEN
#define Always BROKEN
#define NotUseful BROKEN
#define WhenMapped BROKEN
#define Above BROKEN
#define Below BROKEN
#define Complex BROKEN
#define Convex BROKEN
#define Nonconvex BROKEN
#define Unsorted BROKEN
#define YSorted BROKEN
#define CursorShape BROKEN
#define FontChange BROKEN
#define KeyPress BROKEN
#define KeyRelease BROKEN
#define FocusIn BROKEN
#define FocusOut BROKEN
#define Expose BROKEN
#define CurrentTime BROKEN
#define InputOnly BROKEN
#define InputOutput BROKEN
#define InputFocus BROKEN
#define ParentRelative BROKEN
#define AnyKey BROKEN
#define AnyButton BROKEN
#define NoSymbol BROKEN
#define NoValue BROKEN
#define AllValues BROKEN
#define XValue BROKEN
#define YValue BROKEN
#define Opposite BROKEN
#define LineSolid BROKEN
#define GrabModeSync BROKEN

// <complex.h> of C.
#define I BROKEN
#define _Complex_I BROKEN

// <windows.h> and the headers that it includes.
#define min(a, b) BROKEN
#define max(a, b) BROKEN
#define near BROKEN
#define far BROKEN
#define small BROKEN
#define hyper BROKEN
#define interface BROKEN
#define cdecl BROKEN
#define pascal BROKEN
#define ERROR BROKEN
#define IN BROKEN
#define OUT BROKEN
#define OPTIONAL BROKEN
#define CONST BROKEN
#define VOID BROKEN
#define TRUE BROKEN
#define FALSE BROKEN
#define DELETE BROKEN
#define STRICT BROKEN
#define DIFFERENCE BROKEN
#define NO_ERROR BROKEN
#define THIS BROKEN
#define Yield() BROKEN
#define GetObject BROKEN
#define SendMessage BROKEN
#define CreateWindow BROKEN
#define LoadImage BROKEN
#define GetMessage BROKEN
#define ReportEvent BROKEN

// <termios.h> and Arduino.
#define B0 BROKEN
#define B1 BROKEN
#define B50 BROKEN
#define B110 BROKEN
#define ECHO BROKEN
#define F(text) BROKEN
#define PI BROKEN
#define TWO_PI BROKEN
#define EULER BROKEN
#define HIGH BROKEN
#define LOW BROKEN
#define INPUT BROKEN
#define OUTPUT BROKEN
#define DEFAULT BROKEN
#define sq(x) BROKEN
#define bit(b) BROKEN
#define lowByte(w) BROKEN

// <sys/sysmacros.h>, <sys/param.h> and gnu++20.
#define major(device) BROKEN
#define minor(device) BROKEN
#define makedev(a, b) BROKEN
#define MIN(a, b) BROKEN
#define MAX(a, b) BROKEN
#define unix BROKEN
#define linux BROKEN

// Apple's AssertMacros.h and Objective-C.
#define check(x) BROKEN
#define check_noerr(x) BROKEN
#define verify(x) BROKEN
#define verify_noerr(x) BROKEN
#define require(x, label) BROKEN
#define require_noerr(x, label) BROKEN
#define nil BROKEN
#define Nil BROKEN
#define YES BROKEN
#define NO BROKEN

// <assert.h>, <math.h>, <curses.h>, and libraries for logging and testing.
#undef assert
#define assert(x) BROKEN
#define DOMAIN BROKEN
#define SING BROKEN
#define OVERFLOW BROKEN
#define UNDERFLOW BROKEN
#define OK BROKEN
#define ERR BROKEN
#define CHECK(x) BROKEN
#define ASSERT(x) BROKEN
#define EXPECT(x) BROKEN
#define REQUIRE(x) BROKEN
#define LOG(x) BROKEN
#define DEBUG BROKEN
#define INFO BROKEN
#define WARNING BROKEN
#define FATAL BROKEN
#define VERSION BROKEN
#define UNUSED BROKEN
#define ALWAYS_INLINE BROKEN
#define NOINLINE BROKEN
#define likely(x) BROKEN
#define unlikely(x) BROKEN

#include <stave/backends/cpu/own_kernels.h>
#include <stave/stave.h>

#undef I
#undef min
#undef max
int main() {
  const stave::Tensor x = stave::tensor({{1., 2.}, {3., 4.}});
  return stave::max(x, {0, 1}).item<int>() + stave::min(x, 1)(0).item<int>() + x.at(0).max(1.)(0).item<int>() - 6;
}
