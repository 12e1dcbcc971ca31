// Training states in files: a run that was interrupted continues as if it had not been.
//
//   struct Training { Mlp params; AdamState<Mlp> optimizer; Key key; };   // any tree (tree.h)
//
//   const Checkpoints checkpoints("runs/1");
//   Training now = start();
//   if (const auto step = checkpoints.latest()) now = checkpoints.load(*step, now);
//   for (; now.optimizer.step.item<int>() < steps;) {
//     now = update(now);
//     if (...) checkpoints.save(now.optimizer.step.item<int>(), now);
//   }
//
// - A state consists of its tensors and keys, which are saved bit for bit. Other members of a tree,
//   such as numbers, are neither saved nor loaded, so a run must keep its counters in tensors.
// - A checkpoint is a .safetensors file (io.h) whose metadata identify it and its version.
//   Other programs may read it as .safetensors.
// - Saving is atomic: whenever the program or the machine stops, either the old checkpoint or the
//   new one exists, complete.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <stave/core/io/io.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// Writes the tensors and keys of a tree to a checkpoint under the names of visit_named_tensors.
template <class T>
void save_checkpoint(const std::string& path, const T& state);

/// Reads a checkpoint into a new tree with the structure of `like`. Each tensor has memory of its
/// own, on the device of its counterpart in `like`. Throws FileError for a file that is not a
/// checkpoint, and for a version that this library does not know. Tensors that are missing, have no
/// place in the tree, or have another shape or dtype are the same errors as in load_npz.
template <class T>
T load_checkpoint(const std::string& path, const T& like);

struct CheckpointsOptions {
  [[no_unique_address]] ByName by_name{};
  Index keep = 3;  ///< how many checkpoints, of the latest steps, are kept; 0: all
};

/// The checkpoints of one run, in a folder that holds nothing else. Only one process at a time may
/// save there.
class Checkpoints {
 public:
  /// Creates the folder if it does not exist.
  explicit Checkpoints(std::string folder, CheckpointsOptions options = {});

  /// Saves a checkpoint, then removes old ones beyond `keep`, but never this one. Throws FileError
  /// for a negative step.
  template <class T>
  void save(Index step, const T& state) const;
  template <class T>
  T load(Index step, const T& like) const;

  /// The steps that have checkpoints, in ascending order.
  std::vector<Index> steps() const;
  std::optional<Index> latest() const;
  /// The path of a step's file: "folder/step-000000001000.safetensors".
  std::string path(Index step) const;

 private:
  void remove_dead_parts() const;
  void remove_others(Index saved) const;

  std::string folder_;
  Index keep_;
};

}  // namespace stave

namespace stave_detail {

void write_checkpoint(const std::string& path, std::vector<NamedTensor> arrays);
NamedArrays read_checkpoint(const std::string& path);

}  // namespace stave_detail

namespace stave {

template <class T>
void save_checkpoint(const std::string& path, const T& state) {
  static_assert(is_tree<T>, "stave: save_checkpoint of a type that is not a tree (see stave/core/ops/tree.h)");
  stave_detail::write_checkpoint(path, stave_detail::named_tensors_of(state, "save_checkpoint"));
}

template <class T>
T load_checkpoint(const std::string& path, const T& like) {
  static_assert(is_tree<T>, "stave: load_checkpoint of a type that is not a tree (see stave/core/ops/tree.h)");
  return stave_detail::load_tree(stave_detail::read_checkpoint(path), like);
}

template <class T>
void Checkpoints::save(Index step, const T& state) const {
  const std::string file = path(step);
  remove_dead_parts();  // before saving, because partial files may have filled the disk
  save_checkpoint(file, state);
  remove_others(step);
}

template <class T>
T Checkpoints::load(Index step, const T& like) const {
  return load_checkpoint(path(step), like);
}

}  // namespace stave
