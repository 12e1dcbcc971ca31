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
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <stave/core/tensor.h>
#include <stave/core/tree.h>

namespace stave {

/// Writes one array, row-major, as numpy.save does. The name is taken as it is: nothing is appended.
void save_npy(const std::string& path, const Tensor& x);
/// Reads one array of .npy format 1.0, 2.0 or 3.0, in C or Fortran order and either byte order. Throws DtypeError for an
/// element type that Stave lacks.
Tensor load_npy(const std::string& path);

struct NpzOptions {
  bool compressed = false;  ///< as numpy.savez_compressed
};

/// Calls f(name, tensor) on every tensor of a tree, in the order of visit_tensors. Names are paths: "layers/1/w", of the keys
/// of maps, and of positions, from 0, everywhere else: elements of sequences and tuples, members as declared (others than
/// tensors count, too). An optional adds nothing to the path; a tree that is one tensor has the name "0". Keys are strings or
/// integers; they may hold "/" only where the map's values are tensors.
template <class T, class F>
void visit_named_tensors(T& tree, F&& f);

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
  char delimiter = ',';   ///< ' ' stands for any run of blanks
  Index skip_lines = 0;   ///< lines of a header
  Index columns = 0;      ///< how many there must be; 0: as many as in the first line
  Dtype dtype = float32;  ///< bool_ reads 0, 1, true and false
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

[[noreturn]] void fail_npz_key(std::string_view key, const char* fault);

// ---- names -----------------------------------------------------------------------------------------------

inline std::string path_below(const std::string& name, const std::string& key) {
  return name.empty() ? key : name + "/" + key;
}

// Whether a tree of this type is one tensor or none, and its name has no more parts.
template <class T>
constexpr bool is_leaf() {
  constexpr TreeKind kind = TreeKindOf<T>::value;
  if constexpr (kind == TreeKind::optional) return is_leaf<typename T::value_type>();
  else return kind == TreeKind::tensor;
}

template <class K>
std::string key_name(const K& key, bool whole) {
  static_assert(std::is_convertible_v<const K&, std::string_view> || std::integral<K>,
                "stave: the keys of a map in a file are strings or integers");
  if constexpr (std::integral<K>) return std::to_string(key);
  else {
    const std::string_view text = key;
    if (text.empty()) fail_npz_key(text, "is empty");
    if (text.find('\0') != text.npos) fail_npz_key(text, "holds a zero byte");
    if (!whole && text.find('/') != text.npos) fail_npz_key(text, "holds '/', which separates the parts of names");
    return std::string(text);
  }
}

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

// f(child, name) on the trees directly inside a tree of numbered ones.
template <class T, class F>
void visit_numbered(T& tree, const std::string& name, F&& f) {
  constexpr TreeKind kind = TreeKindOf<std::remove_const_t<T>>::value;
  std::size_t next = 0;
  const auto inner = [&](auto& child) { f(child, path_below(name, std::to_string(next++))); };
  if constexpr (kind == TreeKind::custom) TreeTraits<std::remove_const_t<T>>::visit(tree, inner);
  else if constexpr (kind == TreeKind::tuple) std::apply([&](auto&... child) { (inner(child), ...); }, tree);
  else if constexpr (kind == TreeKind::aggregate) visit_members(tree, inner);
  else
    for (auto& child : tree) inner(child);
}

template <class T, class F>
void visit_named(T& tree, const std::string& name, F& f) {
  constexpr TreeKind kind = TreeKindOf<std::remove_const_t<T>>::value;
  if constexpr (kind == TreeKind::tensor) f(name.empty() ? std::string("0") : name, tree);
  else if constexpr (kind == TreeKind::optional) tree ? visit_named(*tree, name, f) : void();
  else if constexpr (kind == TreeKind::map)
    for (auto& [key, value] : tree)
      visit_named(value, path_below(name, key_name(key, is_leaf<std::remove_cvref_t<decltype(value)>>())), f);
  else if constexpr (kind != TreeKind::none)
    visit_numbered(tree, name, [&](auto& child, const std::string& below) { visit_named(child, below, f); });
}

template <class T>
void load_named(T& tree, const std::string& name, NpzContents& file) {
  constexpr TreeKind kind = TreeKindOf<T>::value;
  if constexpr (kind == TreeKind::tensor) tree = file.take(name.empty() ? "0" : name);
  else if constexpr (kind == TreeKind::optional) {
    tree.reset();
    if (file.holds(name)) load_named(tree.emplace(), name, file);
  } else if constexpr (kind == TreeKind::map) {
    using Value = typename T::mapped_type;
    tree.clear();
    for (const std::string& key : file.keys_below(name, is_leaf<Value>()))
      load_named(tree[key_of_name<typename T::key_type>(key, file)], path_below(name, key), file);
  } else if constexpr (kind == TreeKind::range && requires { tree.emplace_back(); }) {
    tree.clear();
    for (std::string below; file.holds(below = path_below(name, std::to_string(tree.size())));)
      load_named(tree.emplace_back(), below, file);
  } else if constexpr (kind != TreeKind::none) {
    visit_numbered(tree, name, [&](auto& child, const std::string& below) { load_named(child, below, file); });
  }
}

}  // namespace stave_detail

namespace stave {

template <class T, class F>
void visit_named_tensors(T& tree, F&& f) {
  static_assert(is_tree<T>, "stave: visit_named_tensors of a type that is not a tree (see stave/core/tree.h)");
  stave_detail::visit_named(tree, "", f);
}

template <class T>
void save_npz(const std::string& path, const T& tree, NpzOptions options) {
  static_assert(is_tree<T>, "stave: save_npz of a type that is not a tree (see stave/core/tree.h)");
  std::vector<stave_detail::NamedTensor> arrays;
  visit_named_tensors(tree, [&](const std::string& name, const Tensor& x) { arrays.push_back({name, x}); });
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
  T tree = like;
  visit_named_tensors(tree, [&](const std::string& name, Tensor& x) { x = file.take_like(name, x); });
  file.expect_all_taken();
  return tree;
}

}  // namespace stave
