// Tensors: immutable n-dimensional arrays behind a cheap reference-counted handle.
//
// Start reading at `Tensor`. What it points at, `Node`, carries a shape, strides, a dtype, storage, and `notes`: what running
// handlers keep about this very value (note.h). Layout changes are views of the same storage.
#pragma once

#include <array>
#include <concepts>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/pool.h>
#include <stave/core/tensor/scalar.h>
#include <stave/core/tensor/shape.h>
#include <stave/core/tensor/track.h>

namespace stave {

struct Note;
class Tensor;

}  // namespace stave

namespace stave_detail {

/// Entries of a tensor by tensors: the specialisation for Tensor is in ops/at.h. `Indices` makes it
/// a matter of the call.
template <class T, class... Indices>
struct EntriesOf;
template <class T, class... Indices>
concept HasEntries = requires { sizeof(EntriesOf<T, Indices...>); };
// In place of entries, where a static_assert has failed: that one error is enough.
struct NoEntries {
  template <class... A>
  stave::Tensor get(const A&...) const;
  template <class... A>
  stave::Tensor set(const A&...) const;
  template <class... A>
  stave::Tensor add(const A&...) const;
  template <class... A>
  stave::Tensor multiply(const A&...) const;
  template <class... A>
  stave::Tensor(min)(const A&...) const;
  template <class... A>
  stave::Tensor(max)(const A&...) const;
};

}  // namespace stave_detail

namespace stave {

/// One value. Immutable once it is shared; its notes change only while one handle owns it (note.h).
struct Node : RefCounted, stave_detail::Pooled {
  Dtype dtype;
  Device device;
  bool registered = false;  // whos() should know it: track.h
  StoragePtr storage;       // null: the value of a lane under vmap, which has no storage of its own
  Index offset = 0;         // of element (0, ..., 0) in the storage, in elements
  Shape shape;
  Strides strides;  // in elements
  Note* notes = nullptr;

  Node(Dtype dtype_, Device device_, Shape shape_, Strides strides_, StoragePtr storage_, Index offset_ = 0)
      : dtype(dtype_), device(device_), storage(std::move(storage_)), offset(offset_), shape(std::move(shape_)),
        strides(std::move(strides_)) {
    track_if_asked();
  }
  /// Contiguous, row-major.
  Node(Dtype dtype_, Device device_, const Shape& shape_, StoragePtr storage_)
      : dtype(dtype_), device(device_), storage(std::move(storage_)), shape(shape_),
        strides(contiguous_strides(shape_)) {
    track_if_asked();
  }
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void* data() const { return static_cast<char*>(storage->data) + offset * static_cast<Index>(size_of(dtype)); }
  View view() const { return {data(), dtype, shape, strides, storage->number}; }
  /// Whose memory `data` is in: a number's is the host's.
  Device memory() const { return storage->number ? cpu : device; }
  bool contiguous() const { return is_contiguous(shape, strides); }
  /// What an owner holds who changes the list of notes: nothing, unless others may look.
  std::unique_lock<std::mutex> lock_if_registered() const {
    return registered ? stave_detail::lock_register() : std::unique_lock<std::mutex>();
  }

 private:
  void track_if_asked() {
    if (stave_detail::trackings.load(std::memory_order_relaxed) == 0) [[likely]]
      return;
    stave_detail::track(*this);
    registered = true;
  }
};
void destroy(Node* node) noexcept;
using NodePtr = IntrusivePtr<Node>;

class Tensor {
 public:
  /// No value at all: every use but assignment and `defined()` throws.
  Tensor() noexcept = default;
  explicit Tensor(NodePtr node) noexcept : node_(std::move(node)) {}
  /// A rank-0 tensor of a C++ number: bool, int32 (int64 or uint64 if need be) or float32.
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T>)
  explicit Tensor(T value) : Tensor(from_scalar(Scalar(value))) {}

  Tensor(const Tensor&) noexcept = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & noexcept = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  // x[i] = y changes no x. Compilers show the line.
  template <class T = Tensor>
  // clang-format off
  void operator=(T&&) && = delete;  // x = x.at(i).set(y), or x.at(i).add(y)
  // clang-format on

  bool defined() const noexcept { return static_cast<bool>(node_); }
  const Shape& shape() const { return node().shape; }
  /// Length of one axis; negative ones count from the end.
  Index shape(Index axis) const;
  int rank() const { return node().shape.rank(); }
  Index size() const { return node().shape.elements(); }
  Dtype dtype() const { return node().dtype; }
  Device device() const { return node().device; }
  /// Strides in elements.
  const Strides& strides() const { return node().strides; }
  bool is_contiguous() const { return node().contiguous(); }

  /// The value of a tensor of one element, converted as by static_cast. Reads the device; throws ShapeError for more than one.
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T>)
  T item() const {
    // Read as a type that has a dtype: char by way of int64, long double by way of double.
    using Read = std::conditional_t<has_dtype<T>, T, std::conditional_t<std::is_floating_point_v<T>, double, Index>>;
    Read value;
    stave_detail_item(dtype_of<Read>(), &value);
    return static_cast<T>(value);
  }
  /// All elements in row-major order. T must be the type of the dtype.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values;
    try {
      values.resize(static_cast<std::size_t>(size()));
    } catch (const std::exception&) {  // bad_alloc, length_error
      throw_no_memory("to_vector", dtype_of<T>());
    }
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<std::uint8_t> bytes(values.size());
      stave_detail_read(dtype_of<T>(), bytes.data());
      values.assign(bytes.begin(), bytes.end());
    } else {
      stave_detail_read(dtype_of<T>(), values.data());
    }
    return values;
  }
  /// The elements of a contiguous host tensor, in place. T must be the type of the dtype. Valid while the tensor lives.
  template <class T>
  std::span<const T> data() const {
    return {static_cast<const T*>(stave_detail_data(dtype_of<T>())), static_cast<std::size_t>(size())};
  }

  /// Reads a single element. `if (x == y)` on arrays throws and names array_equal and allclose.
  explicit operator bool() const;
  // Nothing is read unless it is asked for. Compilers show the line.
  // clang-format off
  template <std::same_as<bool> Truth>
  operator Truth() const = delete;  // const bool ok = bool(all(a)) && bool(all(b)): && and || of tensors are elementwise tensors
  // clang-format on
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  explicit operator T() const {
    return item<T>();
  }

  // Basic-index building blocks.
  struct NoneType {};
  struct Ellipsis {};
  struct NewAxis {};
  struct Slice {
    std::optional<Index> start, stop, step;
  };
  struct Subscript {
    template <std::integral Integer>
      requires(!std::same_as<Integer, bool>)
    Subscript(Integer index) : value(static_cast<Index>(index)) {}
    Subscript(Slice slice) : value(slice) {}
    Subscript(Ellipsis ellipsis) : value(ellipsis) {}
    Subscript(NewAxis newaxis) : value(newaxis) {}
    std::variant<Index, Slice, Ellipsis, NewAxis> value;
  };

  /// Basic indexing, a view: x(1), x(slice(1, none), -1), x(ellipsis, newaxis, 0). See layout.h for `slice`. Subscripts whose
  /// number is known at run time come in a span or a vector: x(std::vector<Tensor::Subscript>{1, slice(2)}).
  /// With tensors of integers or bools among the indices it is x.at(indices...).get(), a copy, and
  /// takes ops/at.h.
  template <class... Indices>
  Tensor operator()(const Indices&... indices) const {
    constexpr bool basic = (std::is_constructible_v<Subscript, const Indices&> && ...);
    if constexpr (sizeof...(Indices) == 1 &&
                  (std::is_convertible_v<const Indices&, std::span<const Subscript>> && ...)) {
      return stave_detail_index(indices...);
    } else if constexpr (basic) {
      return stave_detail_index(std::array<Subscript, sizeof...(Indices)>{Subscript(indices)...});
    } else {
      constexpr bool known =
          ((std::is_constructible_v<Subscript, const Indices&> || std::is_convertible_v<const Indices&, Tensor>)&&...);
      static_assert(known,
                    "stave: an index must be an integer, a slice, ellipsis, newaxis, or a tensor of integers or bools");
      if constexpr (known) return at(indices...).get();
    }
  }
  /// x[i] is x(i): entry i of the first axis; negative counts from the end.
  template <class OneIndex>
  Tensor operator[](const OneIndex& index) const {
    return (*this)(index);
  }

  /// Entries by all that NumPy takes as an index, to be read or, in a copy, updated: x.at(x < 0).set(0). See ops/at.h.
  template <class... Indices>
  auto at(const Indices&... indices) const {
    constexpr bool included = stave_detail::HasEntries<Tensor, Indices...>;
    static_assert(included, "stave: to index by tensors, #include <stave/core/ops/at.h>");
    if constexpr (included) return stave_detail::EntriesOf<Tensor, Indices...>::at(*this, indices...);
    else return stave_detail::NoEntries();
  }

  /// As NumPy prints it, without the dtype.
  std::string str() const;

  // For handlers and backends.
  const Node& node() const {
    if (!node_) throw_undefined();
    return *node_;
  }
  const NodePtr& node_ptr() const noexcept { return node_; }
  NodePtr& node_ptr() noexcept { return node_; }

 private:
  static Tensor from_scalar(Scalar value);
  [[noreturn]] static void throw_undefined();
  [[noreturn]] void throw_no_memory(const char* operation, Dtype dtype) const;
  void stave_detail_item(Dtype dtype, void* value) const;
  void stave_detail_read(Dtype dtype, void* values) const;
  const void* stave_detail_data(Dtype dtype) const;
  Tensor stave_detail_index(std::span<const Subscript> subscripts) const;

  NodePtr node_;
};

}  // namespace stave

namespace stave_detail {

template <class T>
struct TensorOf;  // effects/kept.h
template <>
struct TensorOf<stave::Tensor> {
  static stave::Tensor& of(stave::Tensor& x) noexcept { return x; }
};

}  // namespace stave_detail

namespace stave {

/// x.item<T>(), without `template` where the type of x is a parameter.
template <class T>
T item(const Tensor& x) {
  return x.item<T>();
}

std::ostream& operator<<(std::ostream& out, const Tensor& x);
/// "float32", "cuda:0", and "[2,3]" (but for shapes alone, not for all that converts to one).
std::ostream& operator<<(std::ostream& out, Dtype dtype);
std::ostream& operator<<(std::ostream& out, Device device);
template <std::same_as<Shape> S>
std::ostream& operator<<(std::ostream& out, const S& shape);
extern template std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// An operand: a tensor, or a C++ number, which is weak (see Scalar). For parameters only: it refers to a named tensor, and
/// owns a temporary one, whose buffer may become the result's.
class Operand {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T>)
  Operand(T value) : scalar_(value) {}
  Operand(Scalar value) : scalar_(value) {}
  Operand(const Tensor& tensor) noexcept : tensor_(&tensor), scalar_(false) {}
  Operand(Tensor&& tensor) noexcept : tensor_(&owned_), owned_(std::move(tensor)), scalar_(false) {}
  Operand(Operand&& other) noexcept
      : tensor_(other.owns() ? &owned_ : other.tensor_), owned_(std::move(other.owned_)), scalar_(other.scalar_) {}
  Operand(const Operand& other)
      : tensor_(other.owns() ? &owned_ : other.tensor_), owned_(other.owned_), scalar_(other.scalar_) {}
  Operand& operator=(Tensor tensor) noexcept {
    owned_ = std::move(tensor);
    tensor_ = &owned_;
    return *this;
  }

  bool is_scalar() const noexcept { return !tensor_; }
  const Tensor& tensor() const& { return *tensor_; }
  Tensor tensor() && {
    if (owns()) return std::move(owned_);
    return *tensor_;
  }
  Scalar scalar() const { return scalar_; }
  /// Whether the tensor is the operand's own.
  bool owns() const noexcept { return tensor_ == &owned_; }
  Tensor* own() noexcept { return owns() ? &owned_ : nullptr; }

 private:
  const Tensor* tensor_ = nullptr;  // null: a number
  Tensor owned_;
  Scalar scalar_;
};

}  // namespace stave
