// Reference counting inside the object. A pointer is one word, and there is one counter: atomic,
// or plain for objects that only one thread owns.
#pragma once

#include <stave/core/effects/settings.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace stave {

/// Base class of objects that count their own references. The last owner calls `destroy`.
struct RefCounted {
  RefCounted() noexcept = default;
  RefCounted(const RefCounted&) noexcept {}
  RefCounted& operator=(const RefCounted&) noexcept { return *this; }
  mutable std::atomic<std::uint32_t> references{0};
};

/// Base class like RefCounted for objects that only one thread ever owns: counting
/// needs no locked instructions.
struct ThreadCounted {
  ThreadCounted() noexcept = default;
  ThreadCounted(const ThreadCounted&) noexcept {}
  ThreadCounted& operator=(const ThreadCounted&) noexcept { return *this; }
  mutable std::uint32_t references = 0;
};

}  // namespace stave

namespace stave_detail {

inline void count_new(const stave::RefCounted& object) noexcept {
  // No other owner knows a new object: its first owner needs no locked instruction.
  if (object.references.load(std::memory_order_relaxed) == 0) object.references.store(1, std::memory_order_relaxed);
  else object.references.fetch_add(1, std::memory_order_relaxed);
}
inline void count(const stave::RefCounted& object) noexcept {
  object.references.fetch_add(1, std::memory_order_relaxed);
}
/// Gives up a reference; returns true if it was the last one.
inline bool uncount(const stave::RefCounted& object) noexcept {
  // A sole owner needs no locked instruction: no other code has a reference that it could copy.
  return object.references.load(std::memory_order_acquire) == 1 ||
         object.references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}
inline bool counted_once(const stave::RefCounted& object) noexcept {
  return object.references.load(std::memory_order_acquire) == 1;
}

inline void count_new(const stave::ThreadCounted& object) noexcept { ++object.references; }
inline void count(const stave::ThreadCounted& object) noexcept { ++object.references; }
inline bool uncount(const stave::ThreadCounted& object) noexcept { return --object.references == 0; }
inline bool counted_once(const stave::ThreadCounted& object) noexcept { return object.references == 1; }

}  // namespace stave_detail

namespace stave {

template <class T>
void destroy(T* object) noexcept {
  delete object;
}

/// A shared owner of a RefCounted or ThreadCounted object. A type with its own way of freeing
/// overloads `destroy(T*)`.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() noexcept = default;
  IntrusivePtr(std::nullptr_t) noexcept {}
  IntrusivePtr(T* object) noexcept : object_(object) {
    if (object_) stave_detail::count_new(*object_);
  }
  IntrusivePtr(const IntrusivePtr& other) noexcept : object_(other.object_) {
    if (object_) stave_detail::count(*object_);
  }
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
    requires std::is_convertible_v<U*, T*>
  IntrusivePtr(IntrusivePtr<U> other) noexcept : object_(other.release()) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~IntrusivePtr() {
    if (object_) drop(object_);
  }

  /// Takes over a reference that is counted already.
  static IntrusivePtr adopt(T* object) noexcept {
    IntrusivePtr adopted;
    adopted.object_ = object;
    return adopted;
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const IntrusivePtr& a, const IntrusivePtr& b) noexcept { return a.object_ == b.object_; }
  /// Returns true if this pointer is the only owner.
  bool unique() const noexcept { return object_ && stave_detail::counted_once(*object_); }
  /// Gives up ownership without a change of the count; the caller owns the reference.
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  static void drop(T* object) noexcept {
    if (stave_detail::uncount(*object)) destroy(object);
  }
  T* object_ = nullptr;
};

template <class T, class... A>
IntrusivePtr<T> make_intrusive(A&&... args) {
  return IntrusivePtr<T>(new T(std::forward<A>(args)...));
}

}  // namespace stave
