// Tensors in files: NumPy's .npy and .npz, .safetensors, and numbers as text (CSV).
//
//   save_npz("mlp.npz", mlp);                       // any tree (tree.h); numpy.load reads it
//   Mlp mlp = load_npz<Mlp>("mlp.npz");
//   mlp = load_npz("mlp.npz", mlp);     // structure, shapes and dtypes must be those of mlp
//   // numpy.savez("xy.npz", x=x, y=y):
//   save_npz("xy.npz", std::map<std::string, Tensor>{{"x", x}, {"y", y}});
//   // The same with .safetensors; checkpoints.h saves training states:
//   mlp = load_safetensors("mlp.safetensors", mlp);
//
// Writing is atomic: a file is written beside the old one under another name, and replaces it when
// it is complete and on the disk. Neither an error nor a crash, of the program or of the machine,
// leaves half a file. A crash may leave NAME.stave-*.part, which the next save of NAME removes.
//
// Files to read must be regular files: pipes and devices are an error, and no function waits for
// them. Readers check the contents, and check sizes before they allocate. For a file that is
// malformed or does not fit they throw FileError (or ShapeError, DtypeError), which names the file
// and the fault. Readers return contiguous tensors on the CPU.
//
// Neither reading nor writing is an operation that handlers see. Values are written as to_vector()
// reads them, so writing the value of a lane under vmap throws.
#pragma once

#include <charconv>
#include <concepts>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/tree_names.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// Writes one array, row-major, as numpy.save does. The path is used as it is, without an added
/// suffix.
void save_npy(const std::string& path, const Tensor& x);
/// Reads one array of .npy format 1.0, 2.0 or 3.0, in C or Fortran order and either byte order.
/// Throws DtypeError for an element type that Stave lacks, and for bfloat16, which NumPy writes as
/// raw bytes.
Tensor load_npy(const std::string& path);

struct NpzOptions {
  [[no_unique_address]] ByName by_name{};
  bool compressed = false;  ///< compresses the arrays, as numpy.savez_compressed does
};

/// Writes the tensors of a tree to a .npz file under the names of visit_named_tensors.
template <class T>
void save_npz(const std::string& path, const T& tree, NpzOptions options = {});

/// Reads a tree that save_npz or numpy.savez wrote under the names of visit_named_tensors.
/// The tree begins as T{}. Vectors get as many elements as the file has consecutive ones,
/// maps the keys that the file has, and optionals a value if the file has one. Throws FileError
/// if a tensor is missing, or if the file has one that has no place in the tree. Arrays of a dtype
/// that Stave lacks, such as strings, are left out: maps do not get them, and a tree that needs one
/// by name throws DtypeError.
template <class T>
T load_npz(const std::string& path);

/// Reads a tree with the structure of `like`. Each tensor goes to the device of its counterpart in
/// `like`. Throws ShapeError or DtypeError if a tensor differs from its counterpart in shape or
/// dtype, and FileError if a tensor is missing or has no place in the tree. Several such faults
/// throw one FileError, which names the first 50.
template <class T>
T load_npz(const std::string& path, const T& like);

struct SafetensorsOptions {
  [[no_unique_address]] ByName by_name{};
  /// the metadata of the file, such as {"format", "pt"}
  std::map<std::string, std::string> metadata{};
  /// the separator of the parts of names in the file: '.' in PyTorch's models
  char separator = '/';
};
struct SafetensorsNames {
  [[no_unique_address]] ByName by_name{};
  /// the separator of the parts of names in the file that is read
  char separator = '/';
  /// copies tensors to memory of their own, so that the file may change afterwards
  bool copy = false;
};

/// Writes the tensors of a tree to a .safetensors file under the names of visit_named_tensors.
/// Larger elements come first, as safetensors.torch.save_file writes them. complex64 is C64, which
/// the reference implementation reads since its version 0.7. Throws DtypeError for a tensor of
/// complex128, which the format does not have: save its real and its imaginary part.
/// https://huggingface.co/docs/safetensors
template <class T>
void save_safetensors(const std::string& path, const T& tree, SafetensorsOptions options = {});

/// Reads a tree from a .safetensors file, or from the files that an index names, as load_npz does.
/// A path that ends with .json is an index, such as model.safetensors.index.json. Tensors are read
/// from the files to which the index assigns them, and from no others.
///
/// Elements are read at their first use: tensors are views of the mapped file, which is
/// never written to and stays mapped while one of these tensors lives. Meanwhile the file may be
/// replaced and removed, as the functions of this header do. It must not be changed in place, which
/// changes the tensors, or shortened, which ends the program by a signal when an element is read.
/// If other programs may do so, use `copy`: it reads all elements before it returns, and throws
/// FileError if the file is shortened meanwhile. Tensors whose elements do not lie at multiples of
/// their size are always copied. memory_stats() does not count mapped memory.
///
/// BF16 is bfloat16. Tensors of a dtype that Stave lacks, such as F8_E4M3, are left out:
/// maps do not get them, and a tree that needs one by name throws DtypeError. list_safetensors()
/// lists all tensors.
template <class T>
T load_safetensors(const std::string& path, SafetensorsNames names = {});
template <class T>
T load_safetensors(const std::string& path, const T& like, SafetensorsNames names = {});

/// Returns the metadata of a .safetensors file.
std::map<std::string, std::string> safetensors_metadata(const std::string& path);

/// The description of a tensor in a .safetensors file.
struct SafetensorsInfo {
  std::string name;
  std::string code;            ///< its dtype in the file: "F32", "F8_E4M3"
  std::optional<Dtype> dtype;  ///< its dtype; none if Stave lacks it
  Shape shape;
};
/// Lists the tensors of a .safetensors file, or of the files of an index, in the order of their
/// names. It reads no elements.
std::vector<SafetensorsInfo> list_safetensors(const std::string& path);

struct CsvOptions {
  [[no_unique_address]] ByName by_name{};
  char delimiter = ',';           ///< ' ' means any run of blanks
  Index skip_lines = 0;           ///< how many lines to skip at the start
  Index columns = 0;              ///< the number of columns; 0: that of the first line
  Dtype dtype = default_dtype();  ///< bool_ reads 0, 1, true and false
  char comment = '#';             ///< starts a comment up to the line's end; '\0': no comments
};

/// Reads numbers as text, one row per line, to a tensor [rows, columns]. Lines that are blank or
/// hold only a comment are skipped, as NumPy's loadtxt does. Throws FileError, naming line and
/// column, for text that is not a number, for a number that does not fit in an integer dtype,
/// and for lines of different lengths.
Tensor read_csv(const std::string& path, CsvOptions options = {});
/// Reads numbers from a stream, for example from a pipe, up to its end.
Tensor read_csv(std::istream& in, CsvOptions options = {});

}  // namespace stave

namespace stave_detail {

struct NamedTensor {
  std::string name;
  Tensor value;
};
void save_npz_flat(const std::string& path, const std::vector<NamedTensor>& arrays, NpzOptions options);
/// `operation` begins the error messages.
void write_safetensors(const char* operation, const std::string& path, std::vector<NamedTensor> arrays,
                       const SafetensorsOptions& options);

/// The tensors of a tree with their names. `operation` begins the error messages.
template <class T>
std::vector<NamedTensor> named_tensors_of(const T& tree, const char* operation) {
  std::vector<NamedTensor> arrays;
  WithKeys collect([&](const std::string& name, const Tensor& x) { arrays.push_back({name, x}); });
  try {
    visit_named_tensors(tree, collect);
  } catch (Error& error) {
    name_function(error, operation, false);
    throw;
  }
  return arrays;
}

// The arrays of a file by name, and for arrays that cannot be read the reasons.
struct ArraysOfFile {
  std::map<std::string, Tensor> arrays{};
  std::map<std::string, std::string> unreadable{};
};

// The arrays of a file, and the names of the arrays that a tree has taken.
class NamedArrays {
 public:
  /// `where` begins every error message: "load_npz: w.npz".
  NamedArrays(std::string where, ArraysOfFile file)
      : where_(std::move(where)), arrays_(std::move(file.arrays)), unreadable_(std::move(file.unreadable)) {}

  // Returns true if there is an array of this name, or one whose name begins with it and "/".
  bool holds(const std::string& name) const;
  // Returns the parts of array names that follow `name` and "/". If `whole` is true, a part extends
  // to the end of the name, otherwise to the next "/".
  std::set<std::string> keys_below(const std::string& name, bool whole) const;
  Tensor take(const std::string& name);
  // Takes an array that must have the shape and dtype of `like`. If it does not, finish() throws.
  Tensor take_like(const std::string& name, const Tensor& like);
  // Throws if an array did not fit, or was not taken.
  void finish();
  [[noreturn]] void refuse_key(const std::string& key) const;

 private:
  struct Fault {
    enum Kind : std::uint8_t { names, shape, dtype } kind;
    std::string text;
  };
  std::string some_names() const;

  std::string where_;
  std::map<std::string, Tensor> arrays_;
  std::map<std::string, std::string> unreadable_;
  std::set<std::string> taken_;
  std::vector<Fault> faults_;
};
NamedArrays read_npz(const std::string& path);
NamedArrays read_safetensors(const std::string& path, const SafetensorsNames& names);

// ---- reading trees ------------------------------------------------------------------------------

template <class K>
K key_of_name(const std::string& name, const NamedArrays& file) {
  if constexpr (std::integral<K>) {
    K key{};
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, key);
    if (error != std::errc() || stop != end || std::to_string(key) != name) file.refuse_key(name);
    return key;
  } else return K(name);
}

template <class T>
void load_named(T& tree, const std::string& name, NamedArrays& file) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor) tree = file.take(name.empty() ? "0" : name);
  else if constexpr (kind == TreeKind::key) tree = Key(file.take(name.empty() ? "0" : name));
  else if constexpr (kind == TreeKind::optional || kind == TreeKind::unique || kind == TreeKind::shared) {
    tree.reset();
    if (!file.holds(name)) return;
    if constexpr (kind == TreeKind::optional) tree.emplace();
    else if constexpr (kind == TreeKind::unique) tree = std::make_unique<typename T::element_type>();
    else tree = std::make_shared<typename T::element_type>();
    load_named(*tree, name, file);
  } else if constexpr (kind == TreeKind::variant) {
    visit_children(tree, [&](auto& held) { load_named(held, name, file); });
  } else if constexpr (kind == TreeKind::map) {
    using Value = typename T::mapped_type;
    tree.clear();
    for (const std::string& key : file.keys_below(name, is_leaf<Value>()))
      load_named(tree[key_of_name<typename T::key_type>(key, file)], path_below(name, key), file);
  } else if constexpr (kind == TreeKind::range && requires { tree.emplace_back(); }) {
    tree.clear();
    for (std::string below; file.holds(below = path_below(name, std::to_string(tree.size())));)
      load_named(tree.emplace_back(), below, file);
  } else if constexpr (is_tree_kind(kind)) {
    visit_numbered(tree, name, [&](auto& child, const std::string& below) { load_named(child, below, file); });
  } else {
    check_no_hidden_tensors<T>();
  }
}

template <class T>
T load_tree(NamedArrays file) {
  T tree{};
  load_named(tree, "", file);
  file.finish();
  return tree;
}

template <class T>
T load_tree(NamedArrays file, const T& like) {
  T tree = copy_tree(like);
  WithKeys take([&](const std::string& name, Tensor& x) { x = file.take_like(name, x); });
  visit_named_tensors(tree, take);
  file.finish();
  return tree;
}

}  // namespace stave_detail

namespace stave {

template <class T>
void save_npz(const std::string& path, const T& tree, NpzOptions options) {
  static_assert(is_tree<T>, "stave: save_npz of a type that is not a tree (see stave/core/ops/tree.h)");
  stave_detail::save_npz_flat(path, stave_detail::named_tensors_of(tree, "save_npz"), options);
}

template <class T>
T load_npz(const std::string& path) {
  static_assert(is_tree<T>, "stave: load_npz of a type that is not a tree (see stave/core/ops/tree.h)");
  static_assert(std::default_initializable<T>, "stave: load_npz<T> begins with T{}: use load_npz(path, like)");
  return stave_detail::load_tree<T>(stave_detail::read_npz(path));
}

template <class T>
T load_npz(const std::string& path, const T& like) {
  static_assert(is_tree<T>, "stave: load_npz of a type that is not a tree (see stave/core/ops/tree.h)");
  return stave_detail::load_tree(stave_detail::read_npz(path), like);
}

template <class T>
void save_safetensors(const std::string& path, const T& tree, SafetensorsOptions options) {
  static_assert(is_tree<T>, "stave: save_safetensors of a type that is not a tree (see stave/core/ops/tree.h)");
  constexpr const char* name = "save_safetensors";
  stave_detail::write_safetensors(name, path, stave_detail::named_tensors_of(tree, name), options);
}

template <class T>
T load_safetensors(const std::string& path, SafetensorsNames names) {
  static_assert(is_tree<T>, "stave: load_safetensors of a type that is not a tree (see stave/core/ops/tree.h)");
  static_assert(std::default_initializable<T>,
                "stave: load_safetensors<T> begins with T{}: use load_safetensors(path, like)");
  return stave_detail::load_tree<T>(stave_detail::read_safetensors(path, names));
}

template <class T>
T load_safetensors(const std::string& path, const T& like, SafetensorsNames names) {
  static_assert(is_tree<T>, "stave: load_safetensors of a type that is not a tree (see stave/core/ops/tree.h)");
  return stave_detail::load_tree(stave_detail::read_safetensors(path, names), like);
}

}  // namespace stave
