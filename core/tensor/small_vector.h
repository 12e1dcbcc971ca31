// A vector that stores its first N elements in place: shapes, strides and operand lists rarely need
// the heap.
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace stave {

template <class T, std::size_t N>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() noexcept {
    // Copies include the unused bytes, so these must be initialised.
    if constexpr (bytewise) std::memset(bytes_, 0, sizeof bytes_);
  }
  explicit SmallVector(std::size_t size, const T& value = T()) : SmallVector() { resize(size, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <std::forward_iterator It>
  SmallVector(It first, It last) : SmallVector() {
    append(first, last);
  }
  explicit SmallVector(std::span<const T> values) : SmallVector(values.begin(), values.end()) {}
  SmallVector(const SmallVector& other) { copy(other); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      clear();
      copy(other);
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~SmallVector() { release(); }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T& front() noexcept { return data_[0]; }
  const T& front() const noexcept { return data_[0]; }
  T& back() noexcept { return data_[size_ - 1]; }
  const T& back() const noexcept { return data_[size_ - 1]; }

  template <class... A>
  [[gnu::always_inline]] T& emplace_back(A&&... args) {
    if (size_ == capacity_) [[unlikely]]
      // The element is constructed before the vector grows: an argument may refer into this vector.
      return grow_with(make(std::forward<A>(args)...));
    return *::new (static_cast<void*>(data_ + size_++)) T(make(std::forward<A>(args)...));
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void pop_back() noexcept { std::destroy_at(data_ + --size_); }
  void clear() noexcept {
    std::destroy(begin(), end());
    size_ = 0;
  }
  template <class It>
  void append(It first, It last) {
    for (; first != last; ++first) emplace_back(*first);
  }
  void resize(std::size_t size, const T& value = T()) {
    reserve(size);
    while (size_ < size) emplace_back(value);
    while (size_ > size) pop_back();
  }
  void insert(const T* position, T value) {
    std::size_t at = static_cast<std::size_t>(position - data_);
    emplace_back(std::move(value));
    for (std::size_t i = size_ - 1; i > at; --i) std::swap(data_[i], data_[i - 1]);
  }
  void erase(const T* position) {
    for (std::size_t i = static_cast<std::size_t>(position - data_); i + 1 < size_; ++i)
      data_[i] = std::move(data_[i + 1]);
    pop_back();
  }
  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    T* grown = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), grown);
    const std::uint32_t size = size_;
    release();
    data_ = grown;
    size_ = size;
    capacity_ = static_cast<std::uint32_t>(capacity);
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  static constexpr bool trivial = std::is_trivially_copyable_v<T>;
  // Short lists of trivial elements are copied with their unused part: a fixed size costs less than
  // a counted loop.
  static constexpr bool bytewise = trivial && N * sizeof(T) <= 64;

  template <class... A>
  static T make(A&&... args) {
    if constexpr (std::is_constructible_v<T, A...>) return T(std::forward<A>(args)...);
    else return T{std::forward<A>(args)...};  // an aggregate
  }
  T* in_place() noexcept { return reinterpret_cast<T*>(bytes_); }
  const T* in_place() const noexcept { return reinterpret_cast<const T*>(bytes_); }
  void release() noexcept {
    if constexpr (!trivial) clear();
    size_ = 0;
    if (data_ != in_place()) [[unlikely]]
      free_heap();
  }
  void free_heap() noexcept {
    std::allocator<T>().deallocate(data_, capacity_);
    data_ = in_place();
    capacity_ = N;
  }
  [[gnu::noinline]] T& grow_with(T value) {
    reserve(2 * capacity_);
    return *std::construct_at(data_ + size_++, std::move(value));
  }
  void copy(const SmallVector& other) {  // this vector is empty
    if (other.size_ > capacity_) [[unlikely]]
      reserve(other.size_);
    if constexpr (bytewise) {
      if (other.data_ == other.in_place()) std::memcpy(data_, other.bytes_, sizeof bytes_);
      else std::memcpy(data_, other.data_, other.size_ * sizeof(T));
      size_ = other.size_;
    } else {
      append(other.begin(), other.end());
    }
  }
  void take(SmallVector& other) noexcept {  // this vector is empty, and in place
    if (other.data_ != other.in_place()) {
      data_ = std::exchange(other.data_, other.in_place());
      capacity_ = std::exchange(other.capacity_, static_cast<std::uint32_t>(N));
    } else if constexpr (bytewise) {
      std::memcpy(bytes_, other.bytes_, sizeof bytes_);
    } else {
      for (std::size_t i = 0; i < other.size_; ++i) {
        ::new (static_cast<void*>(data_ + i)) T(std::move(other.data_[i]));
        std::destroy_at(other.data_ + i);
      }
    }
    size_ = std::exchange(other.size_, 0);
  }

  alignas(T) std::byte bytes_[N * sizeof(T)];
  T* data_ = in_place();
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
};

}  // namespace stave
