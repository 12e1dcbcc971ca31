// Reference counting inside the object: one pointer wide, one atomic counter, usable across threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace stave {

/// Base of objects that count their own references; `destroy` is what the last one calls.
struct RefCounted {
  RefCounted() noexcept = default;
  RefCounted(const RefCounted&) noexcept {}
  RefCounted& operator=(const RefCounted&) noexcept { return *this; }
  mutable std::atomic<std::uint32_t> references{0};
};

template <class T>
void destroy(T* object) noexcept {
  delete object;
}

/// A shared owner of a RefCounted object. A type with storage of its own overloads `destroy(T*)`.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() noexcept = default;
  IntrusivePtr(std::nullptr_t) noexcept {}
  IntrusivePtr(T* object) noexcept : object_(object) {
    if (!object_) return;
    // A new object is known to nobody else: its first owner needs no locked instruction.
    if (object_->references.load(std::memory_order_relaxed) == 0)
      object_->references.store(1, std::memory_order_relaxed);
    else object_->references.fetch_add(1, std::memory_order_relaxed);
  }
  IntrusivePtr(const IntrusivePtr& other) noexcept : object_(other.object_) {
    if (object_) object_->references.fetch_add(1, std::memory_order_relaxed);
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
  /// True if nobody else owns the object.
  bool unique() const noexcept { return object_ && object_->references.load(std::memory_order_acquire) == 1; }
  /// Gives the reference away.
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  static void drop(T* object) noexcept {
    // A sole owner needs no locked instruction: nobody can copy a reference that he does not have.
    if (object->references.load(std::memory_order_acquire) == 1 ||
        object->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      destroy(object);
  }
  T* object_ = nullptr;
};

template <class T, class... A>
IntrusivePtr<T> make_intrusive(A&&... args) {
  return IntrusivePtr<T>(new T(std::forward<A>(args)...));
}

}  // namespace stave
