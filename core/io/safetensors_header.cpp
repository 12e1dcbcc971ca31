#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include <stave/core/io/elements.h>
#include <stave/core/io/json.h>
#include <stave/core/io/safetensors.h>
#include <stave/core/io/zip_records.h>

namespace stave_detail {

namespace {

// ---- JSON ---------------------------------------------------------------------------------------

// Returns the members of an object whose values are all strings, or nothing for another value.
std::optional<std::map<std::string, std::string>> strings_of(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  std::map<std::string, std::string> strings;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) return std::nullopt;
    strings.emplace(name, value.get<std::string>());
  }
  return strings;
}

// ---- entries ------------------------------------------------------------------------------------

std::optional<Dtype> dtype_of_code(const std::string& code) {
  for (const auto& [dtype, known] : safetensors_dtypes)
    if (code == known) return dtype;
  return std::nullopt;
}

// Returns the numbers of an array. Returns nothing if the value is not an array, or if a number has
// a minus sign, a point or an exponent, or exceeds 2^62.
std::optional<Shape> numbers_of(const Json& array) {
  if (!array.is_array()) return std::nullopt;
  Shape numbers;
  for (const Json& value : array) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{1} << 62) return std::nullopt;
    numbers.push_back(value.get<Index>());
  }
  return numbers;
}

[[noreturn]] void refuse(const std::string& name, const char* fault, const std::string& where) {
  fail<FileError>("{}: the header is damaged: '{}' {}", where, shown(name), fault);
}

SafetensorsEntry entry_of(const std::string& name, const Json& value, const std::string& where) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    refuse(name, "should have a dtype, a shape and data_offsets, and nothing else", where);
  if (!value["dtype"].is_string()) refuse(name, "has a dtype that is not text", where);
  const std::optional<Shape> shape = numbers_of(value["shape"]), offsets = numbers_of(value["data_offsets"]);
  if (!shape) refuse(name, "has a shape that is not a list of lengths", where);
  if (shape->size() > most_axes) refuse(name, "has more than 64 axes", where);
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1])
    refuse(name, "has data_offsets that are not a beginning and an end", where);
  const auto code = value["dtype"].get<std::string>();
  return {{name, code, dtype_of_code(code), *shape},
          static_cast<std::uint64_t>((*offsets)[0]),
          static_cast<std::uint64_t>((*offsets)[1])};
}

void check_bytes(const SafetensorsEntry& entry, const std::string& where) {
  if (!entry.dtype) return;
  const std::optional<std::uint64_t> bytes = bytes_of(*entry.dtype, entry.shape);
  if (!bytes) fail<FileError>("{}: '{}' has a shape {} that is too large", where, shown(entry.name), entry.shape);
  if (*bytes != entry.end - entry.begin)
    fail<FileError>("{}: '{}', {} {}, has {} bytes, but its data_offsets [{},{}] are {}", where, shown(entry.name),
                    *entry.dtype, entry.shape, *bytes, entry.begin, entry.end, entry.end - entry.begin);
}

// Sorts entries by their bytes, and checks that these cover `bytes` bytes without gaps.
void check_layout(std::vector<SafetensorsEntry>& entries, std::uint64_t bytes, const std::string& where) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != end)
      fail<FileError>("{}: '{}' should begin at byte {} of the data, where what comes before it ends, but begins at {}",
                      where, shown(entry.name), end, entry.begin);
    end = entry.end;
  }
  if (end != bytes)
    fail<FileError>("{}: its tensors have {} bytes, but {} follow the header{}", where, end, bytes,
                    end > bytes ? ": it is cut off" : "");
}

std::string header_text(const InputFile& file) {
  char length[8];
  if (file.size() < sizeof length) fail<FileError>("{}: is not a .safetensors file: it is too short", file.where());
  file.read(0, length, sizeof length);
  const std::uint64_t bytes = read64(length), left = file.size() - sizeof length;
  if (bytes > most_header_bytes || bytes > left)
    fail<FileError>(
        "{}: is not a .safetensors file, or is cut off: its header should have {} bytes, but {} are left, and no "
        "header "
        "has more than {}",
        file.where(), bytes, left, most_header_bytes);
  std::string text(bytes, '\0');
  file.read(sizeof length, text.data(), text.size());
  if (!text.starts_with('{'))
    fail<FileError>("{}: is not a .safetensors file: its header does not begin with {{", file.where());
  return text;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const std::string& where = file.where();
  const std::string text = header_text(file);
  const Json json = parse_json(text, where, "the header");
  SafetensorsHeader header;
  header.data = 8 + text.size();
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      auto metadata = strings_of(value);
      if (!metadata) fail<FileError>("{}: the header is damaged: its __metadata__ is not text under names", where);
      header.metadata = std::move(*metadata);
      continue;
    }
    check_bytes(header.entries.emplace_back(entry_of(name, value, where)), where);
  }
  check_layout(header.entries, file.size() - header.data, where);
  return header;
}

std::map<std::string, std::string> read_safetensors_index(const InputFile& file) {
  const std::string& where = file.where();
  if (file.size() > most_header_bytes)
    fail<FileError>("{}: has {} bytes, and no index has more than {}", where, file.size(), most_header_bytes);
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  const Json index = parse_json(text, where, "the index");
  auto files = index.is_object() && index.contains("weight_map") ? strings_of(index["weight_map"]) : std::nullopt;
  if (!files)
    fail<FileError>("{}: is not an index of .safetensors files: it has no weight_map of files' names by tensors' names",
                    where);
  for (const auto& [tensor, name] : *files)
    if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos)
      fail<FileError>("{}: the file of '{}' should be one beside it, but is '{}'", where, shown(tensor), shown(name));
  return *files;
}

}  // namespace stave_detail
