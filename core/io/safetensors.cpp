// The functions of io.h for .safetensors files.
#include <stave/core/io/safetensors.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <tuple>

#include <stave/core/io/elements.h>
#include <stave/core/io/io.h>
#include <stave/core/io/mapping.h>
#include <stave/core/io/named_arrays.h>
#include <stave/core/io/zip_records.h>
#include <stave/core/tensor/utf8.h>

namespace stave_detail {

namespace {

constexpr bool is_native = std::endian::native == std::endian::little;
constexpr const char* metadata_name = "__metadata__";

// Replaces the separator between the parts of a name. Throws if the name contains the new separator
// already, since two names might become equal.
std::string with_separator(std::string name, char separator, char wanted, const std::string& where) {
  if (separator == wanted) return name;
  if (name.find(wanted) != name.npos)
    fail<FileError>(
        "{}: the name '{}' contains a '{}', which would be confused with the '{}' between the parts of names when that "
        "is replaced",
        where, shown(name), wanted, separator);
  std::replace(name.begin(), name.end(), separator, wanted);
  return name;
}

// ---- reading ------------------------------------------------------------------------------------

// Returns the arrays of a file: the result of read(entry) for each entry whose dtype Stave has, and
// for the other entries the reason why they cannot be read.
template <class Read>
ArraysOfFile arrays_of(const SafetensorsHeader& header, Read read) {
  ArraysOfFile all;
  for (const SafetensorsEntry& entry : header.entries)
    if (entry.dtype) all.arrays.emplace(entry.name, read(entry));
    else
      all.unreadable.emplace(entry.name, fmt::format("has elements of dtype '{}', which Stave does not have: convert "
                                                     "it, with x.to(torch.float32) in PyTorch, say",
                                                     shown(entry.code)));
  return all;
}

ArraysOfFile arrays_of(const InputFile& file, bool copy) {
  const SafetensorsHeader header = read_safetensors_header(file);
  if (copy) return copy_tensors(file, header);
  const StoragePtr mapping = map_file(file);
  return arrays_of(header, [&](const SafetensorsEntry& entry) {
    return mapped_elements(mapping, header.data + entry.begin, *entry.dtype, entry.shape, "load_safetensors");
  });
}

// Calls take(tensor, contents) for each tensor of an index, where `contents` is the result of
// read(file) for its file. Throws if take returns false. Each file is read once.
template <class Read, class Take>
void walk_index(const InputFile& index, const std::string& path, Read read, Take take) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::map<std::string, decltype(read(index))> files;
  for (const auto& [tensor, name] : read_safetensors_index(index)) {
    auto file = files.find(name);
    if (file == files.end())
      file = files.emplace(name, read(InputFile(index.operation(), (folder / name).string()))).first;
    if (!take(tensor, file->second))
      fail<FileError>("{}: '{}' should be in '{}', which has no such tensor", index.where(), shown(tensor),
                      shown(name));
  }
}

ArraysOfFile arrays_of_index(const InputFile& index, const std::string& path, bool copy) {
  ArraysOfFile all;
  const auto take = [](const std::string& tensor, const auto& from, auto& to) {
    const auto found = from.find(tensor);
    return found != from.end() && to.insert(*found).second;
  };
  walk_index(
      index, path, [&](const InputFile& file) { return arrays_of(file, copy); },
      [&](const std::string& tensor, const ArraysOfFile& file) {
        return take(tensor, file.arrays, all.arrays) || take(tensor, file.unreadable, all.unreadable);
      });
  return all;
}

bool is_index(const std::string& path) { return path.ends_with(".json"); }

// ---- writing ------------------------------------------------------------------------------------

void check_text(const std::string& text, const char* what, const std::string& where) {
  if (valid_utf8(text) != text) fail<FileError>("{}: {} '{}' is not UTF-8", where, what, shown(text));
}

// Returns the index of a dtype in safetensors_dtypes, or their number if the format has no such
// dtype.
std::size_t rank_of(Dtype dtype) {
  std::size_t rank = 0;
  while (rank < std::size(safetensors_dtypes) && safetensors_dtypes[rank].first != dtype) ++rank;
  return rank;
}

void check_dtypes(const std::vector<NamedTensor>& arrays, const std::string& where) {
  for (const auto& [name, x] : arrays)
    if (rank_of(x.dtype()) == std::size(safetensors_dtypes))
      fail<DtypeError>(
          "{}: '{}' is {}, which the .safetensors format does not have: save real(x) and imag(x), or convert x to "
          "complex64 with astype; .npy and .npz files have {}",
          where, name, x.dtype(), x.dtype());
}

std::string in_json(const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [name, value] : metadata)
    text += (text.empty() ? "" : ",") + in_json_quotes(name) + ":" + in_json_quotes(value);
  return "{" + text + "}";
}

// Returns the header for tensors whose bytes follow each other in the file, in this order. The
// length of the header precedes it.
std::string header_of(const std::vector<NamedTensor>& arrays, const SafetensorsOptions& options,
                      const std::string& where) {
  std::string text = "{";
  if (!options.metadata.empty()) text += fmt::format("\"{}\":{},", metadata_name, in_json(options.metadata));
  std::uint64_t end = 0;
  for (const auto& [name, x] : arrays) {
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(x.size()) * size_of(x.dtype());
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", in_json_quotes(name),
                        safetensors_dtypes[rank_of(x.dtype())].second, fmt::join(x.shape(), ","), begin, end);
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // elements then lie at multiples of their size
  if (text.size() > most_header_bytes)
    fail<FileError>(
        "{}: its header would have {} bytes, and no reader takes more than {}: save fewer tensors in a file", where,
        text.size(), most_header_bytes);
  return Record().u64(text.size()).text(text).bytes;
}

void check_texts(const std::vector<NamedTensor>& arrays, const SafetensorsOptions& options, const std::string& where) {
  check_names(arrays, where);
  for (const auto& [name, x] : arrays) {
    check_text(name, "the name", where);
    if (name == metadata_name)
      fail<FileError>("{}: no tensor may have the name '{}', which the format keeps for itself", where, name);
  }
  for (const auto& [name, value] : options.metadata) {
    check_text(name, "the name of metadata", where);
    check_text(value, "metadata", where);
  }
}

}  // namespace

void write_safetensors(const char* operation, const std::string& path, std::vector<NamedTensor> arrays,
                       const SafetensorsOptions& options) {
  OutputFile file(operation, path);
  for (NamedTensor& array : arrays)
    array.name = with_separator(std::move(array.name), '/', options.separator, file.where());
  check_texts(arrays, options, file.where());
  check_dtypes(arrays, file.where());
  std::sort(arrays.begin(), arrays.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const std::size_t rank_a = rank_of(a.value.dtype()), rank_b = rank_of(b.value.dtype());
    return std::tie(rank_a, a.name) < std::tie(rank_b, b.name);
  });
  file.write(header_of(arrays, options, file.where()));
  for (const NamedTensor& array : arrays)
    with_elements(array.value, [&](std::span<const char> elements) {
      if (is_native) return file.write(elements);
      std::vector<char> bytes(elements.begin(), elements.end());
      reverse_bytes(bytes.data(), bytes.size(), size_of(array.value.dtype()));
      file.write(bytes);
    });
  file.finish();
}

ArraysOfFile copy_tensors(const InputFile& file, const SafetensorsHeader& header) {
  return arrays_of(header, [&](const SafetensorsEntry& entry) {
    return read_elements(*entry.dtype, entry.shape, "load_safetensors",
                         [&](char* to, std::uint64_t bytes) { file.read(header.data + entry.begin, to, bytes); });
  });
}

NamedArrays read_safetensors(const std::string& path, const SafetensorsNames& names) {
  const InputFile file("load_safetensors", path);
  ArraysOfFile all = is_index(path) ? arrays_of_index(file, path, names.copy) : arrays_of(file, names.copy);
  if (names.separator == '/') return {file.where(), std::move(all)};
  const auto renamed = [&]<class Value>(std::map<std::string, Value>& given) {
    std::map<std::string, Value> named;
    for (auto& [name, x] : given) named.emplace(with_separator(name, names.separator, '/', file.where()), std::move(x));
    return named;
  };
  return {file.where(), {renamed(all.arrays), renamed(all.unreadable)}};
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

std::map<std::string, std::string> safetensors_metadata(const std::string& path) {
  return read_safetensors_header(InputFile("safetensors_metadata", path)).metadata;
}

std::vector<SafetensorsInfo> list_safetensors(const std::string& path) {
  const auto infos_of = [](const InputFile& file) {
    const SafetensorsHeader header = read_safetensors_header(file);
    std::map<std::string, SafetensorsInfo> infos;
    for (const SafetensorsEntry& entry : header.entries) infos.emplace(entry.name, entry);
    return infos;
  };
  const InputFile file("list_safetensors", path);
  std::vector<SafetensorsInfo> all;
  const auto take = [&](const std::string& name, const std::map<std::string, SafetensorsInfo>& infos) {
    const auto found = infos.find(name);
    if (found != infos.end()) all.push_back(found->second);
    return found != infos.end();
  };
  if (is_index(path)) walk_index(file, path, infos_of, take);
  else
    for (const auto& [name, info] : infos_of(file)) all.push_back(info);
  return all;
}

}  // namespace stave
