// The functions of checkpoints.h that are not templates.
#include <stave/core/io/checkpoints.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <stave/core/io/safetensors.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

// The name of a checkpoint's version in its metadata. Raise the version when older readers would
// misunderstand a file.
constexpr const char* version_name = "stave.checkpoint";
constexpr const char* version = "1";

}  // namespace

void write_checkpoint(const std::string& path, std::vector<NamedTensor> arrays) {
  write_safetensors("save_checkpoint", path, std::move(arrays), {.metadata = {{version_name, version}}});
}

NamedArrays read_checkpoint(const std::string& path) {
  const InputFile file("load_checkpoint", path);
  const SafetensorsHeader header = read_safetensors_header(file);
  const auto found = header.metadata.find(version_name);
  if (found == header.metadata.end())
    fail<FileError>("{}: is not a checkpoint, because its metadata have no '{}': load_safetensors may read it",
                    file.where(), version_name);
  if (found->second != version)
    fail<FileError>("{}: is a checkpoint of version '{}', but this library reads version {}", file.where(),
                    shown(found->second), version);
  return {file.where(), copy_tensors(file, header)};
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-", suffix = ".safetensors";

std::string name_of_step(Index step) { return fmt::format("{}{:012}{}", prefix, step, suffix); }

// Returns the step of a checkpoint's file name, and nothing for the name of another file.
std::optional<Index> step_of_name(const std::string& name) {
  Index step = -1;
  if (!name.starts_with(prefix)) return std::nullopt;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  return step >= 0 && name_of_step(step) == name ? std::optional(step) : std::nullopt;
}

}  // namespace

Checkpoints::Checkpoints(std::string folder, CheckpointsOptions options)
    : folder_(std::move(folder)), keep_(options.keep) {
  if (keep_ < 0)
    fail<FileError>("Checkpoints: {}: `keep` is {}: give a positive number, or 0 to keep all checkpoints", folder_,
                    keep_);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail<FileError>("Checkpoints: {}: the folder cannot be created: {}", folder_, error.message());
}

std::vector<Index> Checkpoints::steps() const {
  std::vector<Index> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder_, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (const auto step = step_of_name(entry->path().filename().string())) found.push_back(*step);
  if (error) fail<FileError>("Checkpoints: {}: cannot be read: {}", folder_, error.message());
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<Index> Checkpoints::latest() const {
  const std::vector<Index> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::string Checkpoints::path(Index step) const {
  if (step < 0) fail<FileError>("Checkpoints: {}: {} is not a step: steps count from 0", folder_, step);
  return (fs::path(folder_) / name_of_step(step)).string();
}

// Removes the partial files of runs that were killed while they saved.
void Checkpoints::remove_dead_parts() const {
  std::error_code error;
  std::vector<fs::path> parts;
  for (auto entry = fs::directory_iterator(folder_, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.starts_with(prefix) && is_temporary(name))
      parts.push_back(entry->path());
  for (const fs::path& part : parts) remove_stale_temporary(part.string());
}

// Removes old checkpoints beyond `keep_`, but not `saved`. A file that cannot be removed stays
// until the next save.
void Checkpoints::remove_others(Index saved) const {
  if (keep_ == 0) return;
  std::vector<Index> all = steps();
  std::erase(all, saved);
  const auto most = static_cast<std::size_t>(keep_ - 1);
  std::error_code error;
  for (std::size_t i = 0; i + most < all.size(); ++i) fs::remove(path(all[i]), error);
}

}  // namespace stave
