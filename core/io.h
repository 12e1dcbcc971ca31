// Tensors in files: NumPy's .npy and .npz, and numbers as text.
//
//   save_npz("mlp.npz", mlp);                       // any tree (tree.h); numpy.load reads it
//   Mlp mlp = load_npz<Mlp>("mlp.npz");
//   mlp = load_npz("mlp.npz", mlp);                 // structure, shapes and dtypes must be those of mlp
//   save_npz("xy.npz", std::map<std::string, Tensor>{{"x", x}, {"y", y}});   // numpy.savez("xy.npz", x=x, y=y)
//
// A file takes its name only when it is whole: it is written beside the old one, which it then replaces. What is read is
// checked, sizes before memory is taken; what does not fit throws FileError (or ShapeError, DtypeError), naming the file and
// the fault. Reading gives contiguous tensors on the CPU; neither reading nor writing is an operation that handlers see.
// Values are written as to_vector() reads them: those of a lane under vmap throw.
#pragma once

#include <charconv>
#include <concepts>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <stave/core/default_dtype.h>
#include <stave/core/options.h>
#include <stave/core/tensor.h>
#include <stave/core/tree_names.h>

namespace stave {

/// Writes one array, row-major, as numpy.save does. The name is taken as it is: nothing is appended.
void save_npy(const std::string& path, const Tensor& x);
/// Reads one array of .npy format 1.0, 2.0 or 3.0, in C or Fortran order and either byte order. Throws DtypeError for an
/// element type that Stave lacks.
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
/// FileError if a tensor is missing, or if the file has one that the tree has no place for.
template <class T>
T load_npz(const std::string& path);

/// The same with the structure of `like`: throws ShapeError, DtypeError if a tensor's shape, dtype is not that of like's.
template <class T>
T load_npz(const std::string& path, const T& like);

struct CsvOptions {
  [[no_unique_address]] ByName by_name{};
  char delimiter = ',';           ///< ' ' stands for any run of blanks
  Index skip_lines = 0;           ///< lines of a header
  Index columns = 0;              ///< how many there must be; 0: as many as in the first line
  Dtype dtype = default_dtype();  ///< bool_ reads 0, 1, true and false
};

/// Numbers as text, a row on each line: [rows, columns]. Throws FileError naming line and column of what is no number, of a
/// number that an integer dtype does not hold, and of lines that differ in length.
Tensor read_csv(const std::string& path, CsvOptions options = {});

}  // namespace stave

namespace stave_detail {

struct NamedTensor {
  std::string name;
  Tensor value;
};
void save_npz_flat(const std::string& path, const std::vector<NamedTensor>& arrays, NpzOptions options);

// The arrays of an open .npz file, and which of them a tree has taken.
class NpzContents {
 public:
  explicit NpzContents(const std::string& path);

  // Whether there is an array of this name, or one below it.
  bool holds(const std::string& name) const;
  // What follows `name` and "/" in the names of arrays; up to the next "/" if not `whole`.
  std::set<std::string> keys_below(const std::string& name, bool whole) const;
  Tensor take(const std::string& name);
  Tensor take_like(const std::string& name, const Tensor& like);
  // Throws if an array was not taken.
  void expect_all_taken() const;
  [[noreturn]] void refuse_key(const std::string& key) const;

 private:
  std::string path_;
  std::map<std::string, Tensor> arrays_;
  std::set<std::string> taken_;
};

// ---- reading trees ---------------------------------------------------------------------------------------

template <class K>
K key_of_name(const std::string& name, const NpzContents& file) {
  if constexpr (std::integral<K>) {
    K key{};
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, key);
    if (error != std::errc() || stop != end || std::to_string(key) != name) file.refuse_key(name);
    return key;
  } else return K(name);
}

template <class T>
void load_named(T& tree, const std::string& name, NpzContents& file) {
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

}  // namespace stave_detail

namespace stave {

template <class T>
void save_npz(const std::string& path, const T& tree, NpzOptions options) {
  static_assert(is_tree<T>, "stave: save_npz of a type that is not a tree (see stave/core/tree.h)");
  std::vector<stave_detail::NamedTensor> arrays;
  stave_detail::WithKeys collect([&](const std::string& name, const Tensor& x) { arrays.push_back({name, x}); });
  visit_named_tensors(tree, collect);
  stave_detail::save_npz_flat(path, arrays, options);
}

template <class T>
T load_npz(const std::string& path) {
  static_assert(is_tree<T>, "stave: load_npz of a type that is not a tree (see stave/core/tree.h)");
  static_assert(std::default_initializable<T>, "stave: load_npz<T> begins with T{}: use load_npz(path, like)");
  stave_detail::NpzContents file(path);
  T tree{};
  stave_detail::load_named(tree, "", file);
  file.expect_all_taken();
  return tree;
}

template <class T>
T load_npz(const std::string& path, const T& like) {
  static_assert(is_tree<T>, "stave: load_npz of a type that is not a tree (see stave/core/tree.h)");
  stave_detail::NpzContents file(path);
  T tree = stave_detail::copy_tree(like);
  stave_detail::WithKeys take([&](const std::string& name, Tensor& x) { x = file.take_like(name, x); });
  visit_named_tensors(tree, take);
  file.expect_all_taken();
  return tree;
}

}  // namespace stave
