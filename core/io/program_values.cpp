#include <stave/core/io/program_values.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>

#include <stave/core/io/file.h>

namespace stave_detail {

void JsonReader::refuse(const std::string& fault) const {
  fail<FileError>("{}: the program is damaged: {}{}{}: save it again with save_program", where, at,
                  at.empty() ? "" : ": ", fault);
}

void JsonReader::refuse_value(const char* name, const char* wanted) const {
  refuse(fmt::format("'{}' is not {}", name, wanted));
}

void JsonReader::check_members(const Json& object, std::initializer_list<const char*> required,
                               std::initializer_list<const char*> optional) const {
  if (!object.is_object()) refuse("a value is not an object");
  std::size_t known = required.size();
  for (const char* name : required)
    if (!object.contains(name)) refuse(fmt::format("'{}' is missing", name));
  for (const char* name : optional) known += object.contains(name);
  if (known == object.size()) return;
  const auto is_in = [](std::initializer_list<const char*> names, const std::string& name) {
    return std::any_of(names.begin(), names.end(), [&](const char* one) { return name == one; });
  };
  for (const auto& member : object.items())
    if (!is_in(required, member.key()) && !is_in(optional, member.key()))
      refuse(fmt::format("'{}' is not known here", shown(member.key())));
}

const Json& JsonReader::list(const Json& object, const char* name) const {
  const Json& value = object.at(name);
  if (!value.is_array()) refuse_value(name, "a list");
  return value;
}

void JsonReader::read(const Json& value, const char* name, bool& to) const {
  if (!value.is_boolean()) refuse_value(name, "true or false");
  to = value.get<bool>();
}

void JsonReader::read(const Json& value, const char* name, int& to) const {
  std::int64_t number = 0;
  read(value, name, number);
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max())
    refuse_value(name, "an integer of 32 bits");
  to = static_cast<int>(number);
}

void JsonReader::read(const Json& value, const char* name, std::int64_t& to) const {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62);
  if (!fits) refuse_value(name, "an integer of at most 2^62");
  to = value.get<std::int64_t>();
}

void JsonReader::read(const Json& value, const char* name, std::uint64_t& to) const {
  if (!value.is_number_unsigned()) refuse_value(name, "an integer that is not negative");
  to = value.get<std::uint64_t>();
}

void JsonReader::read(const Json& value, const char* name, double& to) const {
  if (value.is_number()) {
    to = value.get<double>();
    return;
  }
  const std::string bits = value.is_string() ? value.get<std::string>() : "";
  std::uint64_t number = 0;
  const char* const end = bits.data() + bits.size();
  if (bits.size() != 18 || !bits.starts_with("0x") || std::from_chars(bits.data() + 2, end, number, 16).ptr != end)
    refuse_value(name, "a number, or the bits of a double such as \"0x7ff0000000000000\"");
  to = std::bit_cast<double>(number);
}

void JsonReader::read(const Json& value, const char* name, std::string& to) const {
  if (!value.is_string()) refuse_value(name, "text");
  to = value.get<std::string>();
}

void JsonReader::read(const Json& value, const char* name, Dtype& to) const {
  std::string text;
  read(value, name, text);
  for (int i = 0; i < dtype_count; ++i)
    if (text == dtype_records[i].name) {
      to = static_cast<Dtype>(i);
      return;
    }
  refuse(fmt::format("'{}' is '{}', which is not a dtype", name, shown(text)));
}

void JsonReader::read(const Json& value, const char* name, Device& to) const {
  std::string text;
  read(value, name, text);
  to = cpu;
  if (text == to.str()) return;
  for (int index = 0; index < 256; ++index)
    if (to = cuda(index); text == to.str()) return;
  refuse(fmt::format("'{}' is '{}', which is not a device", name, shown(text)));
}

void JsonReader::read(const Json& value, const char*, Scalar& to) const {
  if (value.is_boolean()) {
    to = value.get<bool>();
  } else if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    to = number >> 63 ? Scalar(number) : Scalar(static_cast<std::int64_t>(number));
  } else if (value.is_number_integer()) {
    to = value.get<std::int64_t>();
  } else {
    if (value.is_object() && value.contains("complex")) {
      check_members(value, {"complex"});
      const Json& parts = value.at("complex");
      if (!parts.is_array() || parts.size() != 2) refuse_value("complex", "two numbers");
      ComplexElement<double> number(0);
      read(parts[0], "complex", number.re);
      read(parts[1], "complex", number.im);
      to = Scalar(number);
      return;
    }
    check_members(value, {"float"});
    to = get<double>(value, "float");
  }
}

std::size_t JsonReader::index(const Json& object, const char* name, std::size_t count) const {
  const auto number = get<std::uint64_t>(object, name);
  if (number >= count) refuse(fmt::format("'{}' is {}, but there are only {} before", name, number, count));
  return number;
}

}  // namespace stave_detail
