// JSON values of a program's text as C++ values, with errors that name the place. For the .cpp
// files of core/io.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <stave/core/io/json.h>
#include <stave/core/tensor/device.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/scalar.h>

namespace stave_detail {

using namespace stave;

/// The place that is being read, for error messages.
struct JsonReader {
  std::string where;    // "load_program: p.stave"
  std::string at = {};  // "instruction 3 of program 0 ('sum')"; empty: the text as a whole

  /// Throws FileError: the text at this place has a fault, so save_program did not write it.
  [[noreturn]] void refuse(const std::string& fault) const;
  [[noreturn]] void refuse_value(const char* name, const char* wanted) const;
  /// Throws unless the value is an object with the required members, and has no other members than
  /// these and the optional ones.
  void check_members(const Json& object, std::initializer_list<const char*> required,
                     std::initializer_list<const char*> optional = {}) const;
  /// Returns a member that is a list.
  const Json& list(const Json& object, const char* name) const;

  /// Converts a JSON value. Errors call the value `name`.
  void read(const Json& value, const char* name, bool& to) const;
  void read(const Json& value, const char* name, int& to) const;
  void read(const Json& value, const char* name, std::int64_t& to) const;
  void read(const Json& value, const char* name, std::uint64_t& to) const;
  void read(const Json& value, const char* name, double& to) const;
  void read(const Json& value, const char* name, std::string& to) const;
  void read(const Json& value, const char* name, Dtype& to) const;
  void read(const Json& value, const char* name, Device& to) const;
  void read(const Json& value, const char* name, Scalar& to) const;
  template <class List>
    requires requires(List& list) { list.push_back(list[0]); }
  void read(const Json& value, const char* name, List& to) const {
    if (!value.is_array()) refuse_value(name, "a list");
    to.clear();
    for (const Json& entry : value) {
      std::decay_t<decltype(to[0])> one{};
      read(entry, name, one);
      to.push_back(one);
    }
  }

  /// Returns the member `name` of an object as a T.
  template <class T>
  T get(const Json& object, const char* name) const {
    T value{};
    read(object.at(name), name, value);
    return value;
  }
  /// Returns the member `name` of an object, which must be an index less than `count`.
  std::size_t index(const Json& object, const char* name, std::size_t count) const;
};

}  // namespace stave_detail
