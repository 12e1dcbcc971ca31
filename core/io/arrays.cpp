// The functions of io.h for .npy and .npz files.
#include <stave/core/io/io.h>

#include <stave/core/io/elements.h>
#include <stave/core/io/named_arrays.h>
#include <stave/core/io/npy.h>
#include <stave/core/io/zip.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

void save_npy(const std::string& path, const Tensor& x) {
  OutputFile file("save_npy", path);
  file.write(npy_header(x.dtype(), x.shape()));
  with_elements(x, [&](std::span<const char> elements) { file.write(elements); });
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
  check_names(arrays, file.where());
  for (const auto& [name, value] : arrays) {
    const std::string header = npy_header(value.dtype(), value.shape());
    with_elements(value, [&, &name = name](std::span<const char> elements) {
      const std::span<const char> pieces[] = {header, elements};
      zip.add(name + std::string(suffix), pieces, options.compressed);
    });
  }
  zip.finish();
  file.finish();
}

NamedArrays read_npz(const std::string& path) {
  ArraysOfFile all;
  const InputFile file("load_npz", path);
  const ZipReader zip(file);
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.name.ends_with('/') && entry.size == 0) continue;  // a folder, which zip programs add
    if (!entry.name.ends_with(suffix))
      fail<FileError>("{}: entry '{}' is not an array: its name does not end with {}", file.where(), shown(entry.name),
                      suffix);
    const auto stream = zip.open(entry);
    auto read = try_read_npy(*stream);
    stream->finish();
    std::string name = entry.name.substr(0, entry.name.size() - suffix.size());
    if (all.arrays.contains(name) || all.unreadable.contains(name))
      fail<FileError>("{}: has two entries '{}'", file.where(), shown(entry.name));
    if (auto* const x = std::get_if<Tensor>(&read)) all.arrays.emplace(std::move(name), std::move(*x));
    else all.unreadable.emplace(std::move(name), std::get<std::string>(std::move(read)));
  }
  return {file.where(), std::move(all)};
}

}  // namespace stave_detail
