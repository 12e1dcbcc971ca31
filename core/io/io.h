// Tensors in files: NumPy's .npy and .npz, .safetensors, and numbers as text.
//
//   save_npz("mlp.npz", mlp);                       // any tree (tree.h); numpy.load reads it
//   Mlp mlp = load_npz<Mlp>("mlp.npz");
//   mlp = load_npz("mlp.npz", mlp);                 // structure, shapes and dtypes must be those of mlp
//   save_npz("xy.npz", std::map<std::string, Tensor>{{"x", x}, {"y", y}});   // numpy.savez("xy.npz", x=x, y=y)
//   mlp = load_safetensors("mlp.safetensors", mlp); // the same with .safetensors; training states: checkpoints.h
//
// A file takes its name only when it is whole, and on the disk: it is written beside the old one, which it then replaces, so
// that neither an error nor a crash, of the program or of the machine, leaves half of one. A crash
// may leave NAME.stave-*.part, which the next save of NAME removes. Files that are read must be
// regular ones: pipes and devices are an error, and nothing waits for them. What is read is
// checked, sizes before memory is taken; what does not fit throws FileError (or ShapeError,
// DtypeError), naming the file and the fault. Reading gives contiguous tensors, on the CPU; neither
// reading nor writing is an operation that handlers see. Values are written as to_vector() reads
// them: those of a lane under vmap throw.
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

/// Writes one array, row-major, as numpy.save does. The name is taken as it is: nothing is appended.
void save_npy(const std::string& path, const Tensor& x);
/// Reads one array of .npy format 1.0, 2.0 or 3.0, in C or Fortran order and either byte order. Throws DtypeError for an
/// element type that Stave lacks. NumPy writes bfloat16 as raw bytes, which are such a type.
Tensor load_npy(const std::string& path);

struct NpzOptions {
  [[no_unique_address]] ByName by_name{};
  bool compressed = false;  ///< as numpy.savez_compressed
};

/// Writes the tensors of a tree under the names of visit_named_tensors.
template <class T>
void save_npz(const std::string& path, const T& tree, NpzOptions options = {});

/// Reads a tree that save_npz, or numpy.savez, wrote under the names of visit_named_tensors; T{} is where it begins. Vectors get
/// as many elements as the file has consecutive ones, maps the keys that it has, optionals a value if it has one. Throws
/// FileError if a tensor is missing, or if the file has one that the tree has no place for. Arrays
/// of a dtype that Stave lacks, such as strings, are left out: maps do not get them, and a tree
/// that asks for one by its name gets DtypeError.
template <class T>
T load_npz(const std::string& path);

/// The same with the structure of `like`, each tensor on the device of like's: throws ShapeError, DtypeError if a tensor's shape, dtype
/// is not that of like's, and FileError, naming them all, if there are several that do not fit.
template <class T>
T load_npz(const std::string& path, const T& like);

struct SafetensorsOptions {
  [[no_unique_address]] ByName by_name{};
  std::map<std::string, std::string> metadata{};  ///< what the file says of itself, such as {"format", "pt"}
  char separator = '/';                           ///< of the parts of names in the file: '.' in PyTorch's models
};
struct SafetensorsNames {
  [[no_unique_address]] ByName by_name{};
  char separator = '/';  ///< the same, of the file that is read
  bool copy = false;     ///< tensors in memory of their own: whatever becomes of the file then
};

/// Writes the tensors of a tree under the names of visit_named_tensors, as safetensors.torch.save_file does: the largest elements
/// first. https://huggingface.co/docs/safetensors
template <class T>
void save_safetensors(const std::string& path, const T& tree, SafetensorsOptions options = {});

/// Reads trees, as load_npz does, of a .safetensors file, or, where the path ends with .json, of the files that such an index
/// names, model.safetensors.index.json say: as it names them, and no others.
///
/// Nothing is read until it is used: tensors are views of the mapped file, which is never written to, and stays mapped as long as
/// one of them lives. It may be replaced and removed meanwhile, as all functions here do, but not changed in place nor shortened
/// (that ends the program by a signal). Where others may do so, `copy` reads all at once, and
/// throws FileError if the file is shortened meanwhile. Tensors whose elements do not lie at
/// multiples of their size are always copied. Memory that is mapped is the system's, and no part of
/// memory_stats().
///
/// BF16 is bfloat16. Tensors of a dtype that Stave lacks, such as F8_E4M3, are left out: maps do
/// not get them, and a tree that asks for one by its name gets DtypeError. list_safetensors() lists
/// all.
template <class T>
T load_safetensors(const std::string& path, SafetensorsNames names = {});
template <class T>
T load_safetensors(const std::string& path, const T& like, SafetensorsNames names = {});

/// What a .safetensors file says of itself.
std::map<std::string, std::string> safetensors_metadata(const std::string& path);

/// A tensor of a .safetensors file.
struct SafetensorsInfo {
  std::string name;
  std::string code;            ///< its dtype in the file: "F32", "F8_E4M3"
  std::optional<Dtype> dtype;  ///< the same; none: Stave lacks it
  Shape shape;
};
/// The tensors of a .safetensors file, or of the files of an index, in the order of their names. It
/// reads no elements.
std::vector<SafetensorsInfo> list_safetensors(const std::string& path);

struct CsvOptions {
  [[no_unique_address]] ByName by_name{};
  char delimiter = ',';           ///< ' ' stands for any run of blanks
  Index skip_lines = 0;           ///< lines of a header
  Index columns = 0;              ///< how many there must be; 0: as many as in the first line
  Dtype dtype = default_dtype();  ///< bool_ reads 0, 1, true and false
  char comment = '#';             ///< the rest of a line from here on is skipped; '\0': no comments
};

/// Numbers as text, a row on each line: [rows, columns]. Lines that are blank, or hold only a
/// comment, are skipped, as NumPy's loadtxt does. Throws FileError naming line and column of what
/// is no number, of a number that an integer dtype does not hold, and of lines that differ in
/// length.
Tensor read_csv(const std::string& path, CsvOptions options = {});
/// The same for the text of a stream, up to its end: of a pipe, for example.
Tensor read_csv(std::istream& in, CsvOptions options = {});

}  // namespace stave

namespace stave_detail {

struct NamedTensor {
  std::string name;
  Tensor value;
};
void save_npz_flat(const std::string& path, const std::vector<NamedTensor>& arrays, NpzOptions options);
/// `operation` begins the errors.
void write_safetensors(const char* operation, const std::string& path, std::vector<NamedTensor> arrays,
                       const SafetensorsOptions& options);

/// Those of a tree, for `operation`.
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

// The arrays of a file by their names; and the reasons for which others cannot be read.
struct ArraysOfFile {
  std::map<std::string, Tensor> arrays{};
  std::map<std::string, std::string> unreadable{};
};

// The arrays of a file, and which of them a tree has taken.
class NamedArrays {
 public:
  /// `where` begins every error: "load_npz: w.npz".
  NamedArrays(std::string where, ArraysOfFile file)
      : where_(std::move(where)), arrays_(std::move(file.arrays)), unreadable_(std::move(file.unreadable)) {}

  // Whether there is an array of this name, or one below it.
  bool holds(const std::string& name) const;
  // What follows `name` and "/" in the names of arrays; up to the next "/" if not `whole`.
  std::set<std::string> keys_below(const std::string& name, bool whole) const;
  Tensor take(const std::string& name);
  // What does not fit is noted, for finish() to say.
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

// ---- reading trees ---------------------------------------------------------------------------------------

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
    check_passed_over<T>();
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
