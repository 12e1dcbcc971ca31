// Tensors: immutable n-dimensional arrays behind a cheap reference-counted handle.
//
// Start reading at `Tensor`. It points at a `Node`, which has a shape, strides, a dtype, storage,
// and `notes`: data that running handlers attach to this value (note.h). Layout changes are views
// of the same storage.
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
#include <stave/core/tensor/tensor_register.h>

namespace stave {

struct Note;
class Tensor;

}  // namespace stave

namespace stave_detail {

/// The result of x.at(indices...). The specialisation for Tensor is in ops/at.h. The parameter
/// `Indices` delays the look-up of the specialisation until the call.
template <class T, class... Indices>
struct EntriesOf;
template <class T, class... Indices>
concept HasEntries = requires { sizeof(EntriesOf<T, Indices...>); };
// The result of at() where a static_assert has failed: it keeps further compiler errors away.
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

/// One value. It is immutable once it is shared; its notes change only while one handle owns
/// it (note.h).
struct Node : RefCounted, stave_detail::Pooled {
  Dtype dtype;
  Device device;
  bool registered = false;  // it is in the register for whos(): tensor_register.h
  StoragePtr storage;       // null: a value of one lane under vmap, which has no storage of its own
  Index offset = 0;         // the position of element (0, ..., 0) in the storage, in elements
  Shape shape;
  Strides strides;  // in elements
  Note* notes = nullptr;

  Node(Dtype dtype_, Device device_, Shape shape_, Strides strides_, StoragePtr storage_, Index offset_ = 0)
      : dtype(dtype_), device(device_), storage(std::move(storage_)), offset(offset_), shape(std::move(shape_)),
        strides(std::move(strides_)) {
    track_if_asked();
  }
  /// Makes a node of contiguous row-major layout.
  Node(Dtype dtype_, Device device_, const Shape& shape_, StoragePtr storage_)
      : dtype(dtype_), device(device_), storage(std::move(storage_)), shape(shape_),
        strides(contiguous_strides(shape_)) {
    track_if_asked();
  }
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  void* data() const { return static_cast<char*>(storage->data) + offset * static_cast<Index>(size_of(dtype)); }
  View view() const { return {data(), dtype, shape, strides, storage->is_host_constant}; }
  /// The device in whose memory `data` is: for a number (Storage::is_host_constant) it is the host.
  Device memory() const { return storage->is_host_constant ? cpu : device; }
  bool contiguous() const { return is_contiguous(shape, strides); }
  /// The lock that an owner holds while it changes the list of notes. It locks only if the node
  /// is registered, since other threads may then read the list.
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
  /// An empty Tensor, without a value: every use except assignment and `defined()` throws.
  Tensor() noexcept = default;
  explicit Tensor(NodePtr node) noexcept : node_(std::move(node)) {}
  /// A rank-0 tensor of a C++ number. Its dtype is bool, int32 (int64 or uint64 if the value needs
  /// it), the default floating dtype (float32 unless a DefaultDtype says otherwise) or its complex
  /// counterpart.
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T> || ComplexNumber<T>)
  explicit Tensor(T value) : Tensor(from_scalar(Scalar(value))) {}

  Tensor(const Tensor&) noexcept = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & noexcept = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  // x[i] = y would assign to a temporary tensor and not change x, so it is deleted. Compilers show
  // the line below in the error.
  template <class T = Tensor>
  // clang-format off
  void operator=(T&&) && = delete;  // x = x.at(i).set(y), or x.at(i).add(y)
  // clang-format on

  bool defined() const noexcept { return static_cast<bool>(node_); }
  const Shape& shape() const { return node().shape; }
  /// Length of one axis; negative axes count from the end.
  Index shape(Index axis) const;
  int rank() const { return node().shape.rank(); }
  Index size() const { return node().shape.elements(); }
  Dtype dtype() const { return node().dtype; }
  Device device() const { return node().device; }
  /// Strides in elements.
  const Strides& strides() const { return node().strides; }
  bool is_contiguous() const { return node().contiguous(); }

  /// The value of a tensor of one element, converted as by astype: a float becomes the nearest
  /// integer towards 0 within T's range, NaN becomes 0. Reads the device; throws ShapeError unless
  /// there is exactly one element, and DtypeError for a complex element if T is a real type other
  /// than bool.
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T> || (ComplexNumber<T> && has_dtype<T>))
  T item() const {
    // The element is read as a type that has a dtype: char as int8 or uint8, long double as double.
    using Signed = std::conditional_t<
        sizeof(T) == 1, std::int8_t,
        std::conditional_t<sizeof(T) == 2, std::int16_t, std::conditional_t<sizeof(T) == 4, std::int32_t, Index>>>;
    using Integer = std::conditional_t<std::is_signed_v<T>, Signed, std::make_unsigned_t<Signed>>;
    using Read = std::conditional_t<has_dtype<T>, T, std::conditional_t<std::is_floating_point_v<T>, double, Integer>>;
    Read value;
    stave_detail_item(dtype_of<Read>(), &value);
    return static_cast<T>(value);
  }
  /// All elements in row-major order. Throws DtypeError if T is not the type of the dtype.
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
  /// The elements of a contiguous tensor on the CPU, in place; valid while the tensor lives.
  /// Throws DtypeError if T is not the type of the dtype, DeviceError for another device
  /// and ShapeError for a tensor that is not contiguous.
  template <class T>
  std::span<const T> data() const {
    return {static_cast<const T*>(stave_detail_data(dtype_of<T>())), static_cast<std::size_t>(size())};
  }

  /// Reads the single element of a tensor. For larger tensors, as in `if (x == y)`, it throws
  /// ShapeError and recommends array_equal and allclose.
  explicit operator bool() const;
  // Reading a tensor must be explicit, so the implicit conversion to bool is deleted. Compilers
  // show the line below in the error.
  // clang-format off
  template <std::same_as<bool> Truth>
  operator Truth() const = delete;  // bool ok = bool(all(a)) && bool(all(b)); a && b is a tensor
  // clang-format on
  template <class T>
    requires((std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || (ComplexNumber<T> && has_dtype<T>))
  explicit operator T() const {
    return item<T>();
  }

  // The kinds of basic indices; `Subscript` holds one of them, or an integer.
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

  /// Basic indexing, which returns a view: x(1), x(slice(1, none), -1), x(ellipsis, newaxis, 0).
  /// See layout.h for `slice`. A number of subscripts that is known only at run time is passed
  /// as a span or a vector: x(std::vector<Tensor::Subscript>{1, slice(2)}). With tensors
  /// of integers or bools among the indices it equals x.at(indices...).get(), which returns a copy
  /// and needs ops/at.h.
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
  /// x[i] is x(i): entry i of the first axis. Negative i counts from the end.
  template <class OneIndex>
  Tensor operator[](const OneIndex& index) const {
    return (*this)(index);
  }

  /// Selects entries by any index that NumPy accepts, to read them or to update them in a copy:
  /// x.at(x < 0).set(0). See ops/at.h.
  template <class... Indices>
  auto at(const Indices&... indices) const {
    constexpr bool included = stave_detail::HasEntries<Tensor, Indices...>;
    static_assert(included, "stave: to index by tensors, #include <stave/core/ops/at.h>");
    if constexpr (included) return stave_detail::EntriesOf<Tensor, Indices...>::at(*this, indices...);
    else return stave_detail::NoEntries();
  }

  /// The text of NumPy's str(array). For a value of a lane under vmap, the text names the
  /// transform, the shape and the dtype, and shows the values of all lanes.
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
struct LeafOf;  // effects/recordable.h
template <>
struct LeafOf<stave::Tensor> {
  static stave::Tensor& of(stave::Tensor& x) noexcept { return x; }
};

}  // namespace stave_detail

namespace stave {

/// Returns x.item<T>(). It saves the keyword `template` where the type of x is a parameter.
template <class T>
T item(const Tensor& x) {
  return x.item<T>();
}

std::ostream& operator<<(std::ostream& out, const Tensor& x);
/// Writes "float32", "cuda:0" and "[2,3]". The last one accepts Shape only, not types that convert
/// to it.
std::ostream& operator<<(std::ostream& out, Dtype dtype);
std::ostream& operator<<(std::ostream& out, Device device);
template <std::same_as<Shape> S>
std::ostream& operator<<(std::ostream& out, const S& shape);
extern template std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// An operand: a tensor, or a C++ number, which is weak (see Scalar). Use it for parameters only:
/// an Operand made of a named tensor refers to that tensor. One made of a temporary tensor owns it,
/// and the result may reuse its buffer.
class Operand {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T> || is_half<T> || ComplexNumber<T>)
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
  /// Returns true if the operand owns its tensor.
  bool owns() const noexcept { return tensor_ == &owned_; }
  Tensor* own() noexcept { return owns() ? &owned_ : nullptr; }

 private:
  const Tensor* tensor_ = nullptr;  // null: the operand is a number
  Tensor owned_;
  Scalar scalar_;
};

}  // namespace stave
