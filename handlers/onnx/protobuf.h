// A reader of protobuf's wire format, in which ONNX files are written.
//
// A message is a list of fields, each of which has a number, a wire type and a value:
//
//   for (ProtobufReader message(bytes, where); message.next();)
//     switch (message.field()) {
//       case 1: name = message.text(); break;
//       case 2: axes.push_back(message.integer()); break;
//     }                                     // fields that are not read are skipped
//
// The format has four wire types, and ONNX has a dozen messages, so that a reader by hand is
// smaller than a dependency on the protobuf library. Source:
// https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

using namespace stave;

/// The fields of one message, in their order. Each function that reads a value throws FileError if
/// the message ends too early, or if the field has another wire type than the value.
class ProtobufReader {
 public:
  /// `where` begins every error message, and must outlive the reader.
  ProtobufReader(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  /// Goes on to the next field. Returns false at the end of the message.
  bool next() {
    if (!read_) skip();
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    if (tag >> 32 || tag >> 3 == 0) fail<FileError>("{}: {} is not the tag of a field", where_, tag);
    field_ = static_cast<int>(tag >> 3);
    type_ = static_cast<Type>(tag & 7);
    read_ = false;
    return true;
  }
  int field() const noexcept { return field_; }
  const std::string& where() const noexcept { return where_; }

  std::int64_t integer() {
    expect(Type::varint);
    return static_cast<std::int64_t>(varint());
  }
  float number() {
    expect(Type::fixed32);
    return fixed<float>();
  }
  /// The bytes of a text, of raw data, or of another message. They are a view of the given bytes.
  std::string_view bytes() {
    expect(Type::bytes);
    return take(varint());
  }
  std::string text() { return std::string(bytes()); }

  // Repeated numbers may be packed into one field, or have a field each.
  template <class T>
  void integers(std::vector<T>& to) {
    if (type_ == Type::varint) return to.push_back(static_cast<T>(integer()));
    for (ProtobufReader packed(bytes(), where_); !packed.rest_.empty();) to.push_back(static_cast<T>(packed.varint()));
  }
  template <class T>
  void numbers(std::vector<T>& to) {
    if (constexpr Type one = sizeof(T) == 4 ? Type::fixed32 : Type::fixed64; type_ == one) {
      expect(one);
      return to.push_back(fixed<T>());
    }
    const std::string_view packed = bytes();
    if (packed.size() % sizeof(T) != 0)
      fail<FileError>("{}: field {} has {} bytes of numbers, which are not a multiple of {}", where_, field_,
                      packed.size(), sizeof(T));
    const std::size_t old = to.size(), more = packed.size() / sizeof(T);
    to.resize(old + more);
    if (more > 0) std::memcpy(to.data() + old, packed.data(), packed.size());
  }

 private:
  enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in the file");

  void expect(Type type) {
    if (type_ != type)
      fail<FileError>("{}: field {} has the wire type {} and not {}", where_, field_, static_cast<int>(type_),
                      static_cast<int>(type));
    read_ = true;
  }
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size())
      fail<FileError>("{}: field {} should have {} bytes, but only {} follow", where_, field_, n, rest_.size());
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    fail<FileError>("{}: field {} has an integer of more than ten bytes", where_, field_);
  }
  void skip() {
    read_ = true;
    switch (type_) {
      case Type::varint: varint(); return;
      case Type::fixed64: take(8); return;
      case Type::bytes: take(varint()); return;
      case Type::fixed32: take(4); return;
    }
    fail<FileError>("{}: field {} has the wire type {}, which does not exist", where_, field_, static_cast<int>(type_));
  }

  std::string_view rest_;
  const std::string& where_;
  int field_ = 0;
  Type type_ = Type::varint;
  bool read_ = true;
};

}  // namespace stave_detail
