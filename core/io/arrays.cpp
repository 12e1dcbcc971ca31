// .npy and .npz files: io.h.
#include <stave/core/io.h>

#include <stave/core/fail.h>
#include <stave/core/io/npy.h>
#include <stave/core/io/zip.h>

namespace stave {

using namespace stave_detail;

void save_npy(const std::string& path, const Tensor& x) {
  OutputFile file("save_npy", path);
  file.write(npy_header(x.dtype(), x.shape()));
  with_npy_elements(x, [&](std::span<const char> elements) { file.write(elements); });
  file.finish();
}

Tensor load_npy(const std::string& path) {
  const InputFile file("load_npy", path);
  FileSource source(file, file.where(), 0, file.size());
  return read_npy(source);
}

}  // namespace stave

namespace stave_detail {

constexpr std::string_view suffix = ".npy";

void save_npz_flat(const std::string& path, const std::vector<NamedTensor>& arrays, NpzOptions options) {
  OutputFile file("save_npz", path);
  ZipWriter zip(file);
  std::set<std::string_view> names;
  for (const NamedTensor& array : arrays) {
    const std::string& name = array.name;
    const Tensor& value = array.value;
    if (!names.insert(name).second) fail<FileError>("{}: two tensors have the name '{}'", file.where(), shown(name));
    if (!value.defined())
      fail<TransformError>("{}: '{}' is an empty Tensor (default-constructed or moved from)", file.where(),
                           shown(name));
    const std::string header = npy_header(value.dtype(), value.shape());
    with_npy_elements(value, [&](std::span<const char> elements) {
      const std::span<const char> pieces[] = {header, elements};
      zip.add(name + std::string(suffix), pieces, options.compressed);
    });
  }
  zip.finish();
  file.finish();
}

NpzContents::NpzContents(const std::string& path) : path_(path) {
  const InputFile file("load_npz", path);
  const ZipReader zip(file);
  for (const ZipEntry& entry : zip.entries()) {
    if (!entry.name.ends_with(suffix))
      fail<FileError>("{}: entry '{}' is not an array: its name does not end with {}", file.where(), shown(entry.name),
                      suffix);
    const auto stream = zip.open(entry);
    Tensor x = read_npy(*stream);
    stream->finish();
    if (!arrays_.emplace(entry.name.substr(0, entry.name.size() - suffix.size()), std::move(x)).second)
      fail<FileError>("{}: has two entries '{}'", file.where(), shown(entry.name));
  }
}

bool NpzContents::holds(const std::string& name) const {
  if (name.empty()) return !arrays_.empty();
  if (arrays_.contains(name)) return true;
  const auto below = arrays_.lower_bound(name + "/");
  return below != arrays_.end() && below->first.starts_with(name + "/");
}

std::set<std::string> NpzContents::keys_below(const std::string& name, bool whole) const {
  const std::string start = name.empty() ? "" : name + "/";
  std::set<std::string> keys;
  for (auto at = arrays_.lower_bound(start); at != arrays_.end() && at->first.starts_with(start); ++at) {
    const std::string rest = at->first.substr(start.size());
    keys.insert(whole ? rest : rest.substr(0, rest.find('/')));
  }
  return keys;
}

Tensor NpzContents::take(const std::string& name) {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    std::string names;  // of which the reader needs to see a few
    for (const auto& [other, x] : arrays_)
      if (names.size() < 500) names += (names.empty() ? "'" : ", '") + shown(other) + "'";
    fail<FileError>("load_npz: {}: has no array '{}', but {}", path_, shown(name),
                    names.empty() ? "none at all" : names);
  }
  taken_.insert(name);
  return found->second;
}

Tensor NpzContents::take_like(const std::string& name, const Tensor& like) {
  const Tensor x = take(name);
  if (!like.defined()) return x;
  if (x.shape() != like.shape())
    fail<ShapeError>("load_npz: {}: '{}' has shape {}, where {} is expected", path_, shown(name), x.shape(),
                     like.shape());
  if (x.dtype() != like.dtype())
    fail<DtypeError>(
        "load_npz: {}: '{}' is {}, where {} is expected: load it without `like` and convert it with astype", path_,
        shown(name), x.dtype(), like.dtype());
  return x;
}

void NpzContents::expect_all_taken() const {
  for (const auto& [name, x] : arrays_)
    if (!taken_.contains(name))
      fail<FileError>("load_npz: {}: has an array '{}', for which the tree has no place", path_, shown(name));
}

void NpzContents::refuse_key(const std::string& key) const {
  fail<FileError>("load_npz: {}: '{}' is no key of a map by these integers", path_, shown(key));
}

void fail_npz_key(std::string_view key, const char* fault) {
  fail<FileError>("save_npz: the key '{}' of a map {}", shown(key), fault);
}

}  // namespace stave_detail
