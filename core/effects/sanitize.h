// STAVE_ASAN and STAVE_TSAN are 1 if the code is compiled for AddressSanitizer or ThreadSanitizer,
// else 0.
#pragma once

#if defined(__has_feature)
#define STAVE_HAS_FEATURE(x) __has_feature(x)
#else
#define STAVE_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || STAVE_HAS_FEATURE(address_sanitizer)
#define STAVE_ASAN 1
#else
#define STAVE_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || STAVE_HAS_FEATURE(thread_sanitizer)
#define STAVE_TSAN 1
#else
#define STAVE_TSAN 0
#endif
