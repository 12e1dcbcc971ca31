// Arguments that are stored beyond their call, for later runs of a function or for comparison
// with the arguments of later calls.
//
// A std::string_view, a std::span of const numbers or enumerators, and a C string (const char*) are
// stored as copies of their contents, an array as an array, and a function by its address. Other
// arguments are copied: a pointer, or another view, still refers to the caller's objects.
//
//   StoredArgument<std::string_view> name("hidden");     // copies
//   f(passed(name), x);                                  // a std::string_view again
#pragma once

#include <stave/core/effects/settings.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace stave_detail {

template <class T>
class StoredFunction {
 public:
  StoredFunction(T& function) : function_(&function) {}
  T& passed() const noexcept { return *function_; }
  bool shows(T& other) const noexcept { return function_ == &other; }

 private:
  T* function_;
};

template <class T, std::size_t size>
class StoredArray {
 public:
  StoredArray(const T (&given)[size]) : StoredArray(given, std::make_index_sequence<size>()) {}
  T (&passed() noexcept)[size] { return elements_; }
  const T (&elements() const noexcept)[size] { return elements_; }

 private:
  template <std::size_t... i>
  StoredArray(const T (&given)[size], std::index_sequence<i...>) : elements_{given[i]...} {}
  T elements_[size];
};
// Specialisation for an array of arrays. Their elements are default-constructed and then assigned.
template <class T, std::size_t inner, std::size_t size>
class StoredArray<T[inner], size> {
 public:
  using Row = T[inner];
  StoredArray(const Row (&given)[size]) { copy(given, elements_); }
  Row (&passed() noexcept)[size] { return elements_; }
  const Row (&elements() const noexcept)[size] { return elements_; }

 private:
  template <class Element>
  static void copy(const Element& from, Element& to) {
    if constexpr (std::is_array_v<Element>)
      for (std::size_t i = 0; i < std::extent_v<Element>; ++i) copy(from[i], to[i]);
    else to = from;
  }
  Row elements_[size];
};

template <class C, class Traits>
class StoredText {
 public:
  using View = std::basic_string_view<C, Traits>;
  StoredText(View given) : text_(given), view_(text_) {}
  StoredText(const StoredText& other) : StoredText(other.view_) {}
  StoredText& operator=(const StoredText&) = delete;
  View& passed() noexcept { return view_; }
  bool shows(View other) const noexcept { return view_ == other; }

 private:
  std::basic_string<C, Traits> text_;
  View view_;
};

class StoredCString {
 public:
  StoredCString(const char* given) : text_(given ? given : ""), pointer_(given ? text_.c_str() : nullptr) {}
  StoredCString(const StoredCString& other) : StoredCString(other.pointer_) {}
  StoredCString& operator=(const StoredCString&) = delete;
  const char*& passed() noexcept { return pointer_; }
  bool shows(const char* other) const noexcept { return pointer_ && other ? text_ == other : pointer_ == other; }

 private:
  std::string text_;
  const char* pointer_;
};

template <class T, std::size_t extent>
class StoredSpan {
 public:
  using View = std::span<const T, extent>;
  StoredSpan(View given) : elements_(new T[given.size()]), view_(elements_.get(), given.size()) {
    std::copy(given.begin(), given.end(), elements_.get());
  }
  StoredSpan(const StoredSpan& other) : StoredSpan(other.view_) {}
  StoredSpan& operator=(const StoredSpan&) = delete;
  View& passed() noexcept { return view_; }
  const View& elements() const noexcept { return view_; }

 private:
  std::unique_ptr<T[]> elements_;
  View view_;
};

template <class T>
struct StoredAs {
  using type = T;
};
template <class T>
  requires std::is_function_v<T>
struct StoredAs<T> {
  using type = StoredFunction<T>;
};
template <class T, std::size_t size>
  requires std::is_copy_constructible_v<std::remove_all_extents_t<T>>
struct StoredAs<T[size]> {
  using type = StoredArray<T, size>;
};
template <class C, class Traits>
struct StoredAs<std::basic_string_view<C, Traits>> {
  using type = StoredText<C, Traits>;
};
template <>
struct StoredAs<const char*> {
  using type = StoredCString;
};
template <class T, std::size_t extent>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
struct StoredAs<std::span<const T, extent>> {
  using type = StoredSpan<T, extent>;
};

/// The type in which an argument of type T is stored. T is neither a reference nor const.
template <class T>
using StoredArgument = typename StoredAs<T>::type;

/// Returns the part of a stored argument that is passed to a function: an lvalue
/// of the argument's type.
template <class T>
T& passed(T& stored) {
  return stored;
}
template <class T>
T& passed(StoredFunction<T>& stored) {
  return stored.passed();
}
template <class T, std::size_t size>
T (&passed(StoredArray<T, size>& stored))
[size] {
  return stored.passed();
}
template <class C, class Traits>
std::basic_string_view<C, Traits>& passed(StoredText<C, Traits>& stored) {
  return stored.passed();
}
inline const char*& passed(StoredCString& stored) { return stored.passed(); }
template <class T, std::size_t extent>
std::span<const T, extent>& passed(StoredSpan<T, extent>& stored) {
  return stored.passed();
}

}  // namespace stave_detail
