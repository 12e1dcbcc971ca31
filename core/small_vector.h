// A vector that keeps its first N elements in place: shapes, strides and operand lists rarely need the heap.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

namespace stave {

template <class T, std::size_t N>
class SmallVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() noexcept = default;
  explicit SmallVector(std::size_t size, const T& value = T()) { resize(size, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector(values.begin(), values.end()) {}
  template <std::forward_iterator It>
  SmallVector(It first, It last) {
    append(first, last);
  }
  explicit SmallVector(std::span<const T> values) : SmallVector(values.begin(), values.end()) {}
  SmallVector(const SmallVector& other) : SmallVector(other.begin(), other.end()) {}
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      clear();
      append(other.begin(), other.end());
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
  T& emplace_back(A&&... args) {
    if (size_ == capacity_) {  // build first: an argument may live inside this vector
      T value(std::forward<A>(args)...);
      reserve(2 * capacity_);
      return *std::construct_at(data_ + size_++, std::move(value));
    }
    return *std::construct_at(data_ + size_++, std::forward<A>(args)...);
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
    for (std::size_t i = static_cast<std::size_t>(position - data_); i + 1 < size_; ++i) data_[i] = std::move(data_[i + 1]);
    pop_back();
  }
  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    T* grown = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), grown);
    std::size_t size = size_;
    release();
    data_ = grown;
    size_ = size;
    capacity_ = capacity;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

  operator std::span<const T>() const noexcept { return {data_, size_}; }
  operator std::span<T>() noexcept { return {data_, size_}; }

 private:
  T* in_place() noexcept { return reinterpret_cast<T*>(bytes_); }
  void release() noexcept {
    clear();
    if (data_ != in_place()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = in_place();
    capacity_ = N;
  }
  void take(SmallVector& other) noexcept {  // into an empty, in-place vector
    if (other.data_ != other.in_place()) {
      data_ = std::exchange(other.data_, other.in_place());
      capacity_ = std::exchange(other.capacity_, N);
    } else {
      std::uninitialized_move(other.begin(), other.end(), data_);
      std::destroy(other.begin(), other.end());
    }
    size_ = std::exchange(other.size_, 0);
  }

  alignas(T) std::byte bytes_[N * sizeof(T)];
  T* data_ = in_place();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace stave
