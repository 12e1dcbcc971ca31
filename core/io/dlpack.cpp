#include <stave/core/io/dlpack.h>

#include <cstddef>
#include <memory>
#include <string>

#include <stave/core/op/op.h>
#include <stave/core/ops/bools.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/core/tensor/storage.h>

namespace stave {

using stave_detail::fail;

// ---- the structures of dlpack.h -----------------------------------------------------------------
// The structures have names of their own here, so that a program may include any version of
// dlpack.h. They are declared may_alias, because the other library accesses the same memory under
// the names of dlpack.h.

namespace {

enum DeviceType : std::int32_t { host = 1, cuda_memory = 2, cuda_host = 3, rocm_host = 11, cuda_managed = 13 };
enum TypeCode : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  brain_floating = 4,
  complex_floating = 5,
  boolean = 6
};
enum Flags : std::uint64_t { read_only = 1, is_copied = 2 };

struct ElementType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct [[gnu::may_alias]] Array {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t rank;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major, until version 1.2
  std::uint64_t byte_offset;
};
struct [[gnu::may_alias]] Unversioned {
  using Public = DLManagedTensor;
  Array array;
  void* context;
  void (*deleter)(Public*);
};
struct [[gnu::may_alias]] Versioned {
  using Public = DLManagedTensorVersioned;
  struct {
    std::uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(Public*);
  std::uint64_t flags;
  Array array;
};
static_assert(sizeof(void*) != 8 || (sizeof(Array) == 48 && sizeof(Unversioned) == 64 && sizeof(Versioned) == 80 &&
                                     offsetof(Versioned, array) == 32));

template <class Managed>
Managed& structure(typename Managed::Public* managed) {
  return *reinterpret_cast<Managed*>(managed);
}

template <class Managed>
void release(typename Managed::Public* managed) noexcept {
  if (managed && structure<Managed>(managed).deleter) structure<Managed>(managed).deleter(managed);
}

// ---- in -----------------------------------------------------------------------------------------

// Returns the name of a type or device that Stave lacks, by its number in DLPack.
template <std::size_t n>
std::string name_of(const char* const (&names)[n], std::int64_t number, const char* what) {
  if (number >= 0 && number < static_cast<std::int64_t>(n) && names[number]) return names[number];
  return fmt::format("{} {}", what, number);
}
std::string name_of_device(std::int32_t type) {
  constexpr const char* names[] = {nullptr,
                                   "the CPU",
                                   "CUDA",
                                   "CUDA's host memory",
                                   "OpenCL",
                                   nullptr,
                                   nullptr,
                                   "Vulkan",
                                   "Metal",
                                   "VPI",
                                   "ROCm",
                                   "ROCm's host memory",
                                   "an extension device",
                                   "CUDA's managed memory",
                                   "oneAPI",
                                   "WebGPU",
                                   "Hexagon",
                                   "MAIA",
                                   "Trainium"};
  return name_of(names, type, "the device type");
}
std::string name_of_type(ElementType type) {
  constexpr const char* names[] = {"int",
                                   "uint",
                                   "float",
                                   "an opaque handle",
                                   "bfloat",
                                   "complex",
                                   "bool",
                                   "float8_e3m4",
                                   "float8_e4m3",
                                   "float8_e4m3b11fnuz",
                                   "float8_e4m3fn",
                                   "float8_e4m3fnuz",
                                   "float8_e5m2",
                                   "float8_e5m2fnuz",
                                   "float8_e8m0fnu",
                                   "float6_e2m3fn",
                                   "float6_e3m2fn",
                                   "float4_e2m1fn"};
  std::string name = name_of(names, type.code, "the type code");
  if (type.code <= 6 && type.code != 3) name += std::to_string(type.bits);
  return type.lanes == 1 ? name : fmt::format("vectors of {} {}", type.lanes, name);
}

ElementType type_of(Dtype dtype) {
  const TypeCode code = dtype == bool_       ? boolean
                        : dtype == bfloat16  ? brain_floating
                        : is_complex(dtype)  ? complex_floating
                        : is_float(dtype)    ? floating
                        : is_unsigned(dtype) ? unsigned_integer
                                             : integer;
  return {code, static_cast<std::uint8_t>(8 * size_of(dtype)), 1};
}

Dtype dtype_of(ElementType type) {
  for (int i = 0; i < dtype_count; ++i) {
    const ElementType known = type_of(static_cast<Dtype>(i));
    if (known.code == type.code && known.bits == type.bits && known.lanes == type.lanes) return static_cast<Dtype>(i);
  }
  fail<DtypeError>(
      "from_dlpack: the elements are {}, which Stave does not have: convert them to bool, to integers or floats of at "
      "most 64 bits, to complex numbers of at most 128, or to bfloat16",
      name_of_type(type));
}

Device device_of(const Array& array) {
  switch (array.device_type) {
    case host:
    case cuda_host:
    case rocm_host: return cpu;
    case cuda_memory:
    case cuda_managed: return stave_detail::named("from_dlpack", [&] { return cuda(array.device_id); });
    default:
      fail<DeviceError>(
          "from_dlpack: the array is in memory of {}, where Stave does not compute: move it to the CPU or to CUDA",
          name_of_device(array.device_type));
  }
}

Shape shape_of(const Array& array) {
  if (array.rank < 0) fail<ShapeError>("from_dlpack: the array has {} axes", array.rank);
  if (array.rank > 0 && !array.shape)
    fail<ShapeError>("from_dlpack: the array has {} axes, but its shape is a null pointer", array.rank);
  const Shape shape(std::span<const std::int64_t>(array.shape, static_cast<std::size_t>(array.rank)));
  for (const Index length : shape)
    if (length < 0) fail<ShapeError>("from_dlpack: shape {} has a negative length", shape);
  return shape;
}

// The range of elements that a view covers, as offsets from the view's first element.
struct Reach {
  Index lowest = 0, highest = 0;
};
Reach reach_of(const Shape& shape, const Strides& strides) {
  constexpr Index most = Index{1} << 58;  // so that offsets in bytes fit in an Index, too
  Reach reach;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    Index last = 0;
    Index& end = strides[axis] < 0 ? reach.lowest : reach.highest;
    if (__builtin_mul_overflow(shape[axis] - 1, strides[axis], &last) || __builtin_add_overflow(end, last, &end) ||
        end > most || end < -most)
      fail<ShapeError>("from_dlpack: shape {} with strides {} reaches further than any memory", shape, strides);
  }
  return reach;
}

Tensor view_of_foreign(const Array& array, stave_detail::ForeignStorage::Lender lender) {
  const Dtype dtype = dtype_of(array.type);
  const Device device = device_of(array);
  static_cast<void>(backend_of(device));
  const Shape shape = shape_of(array);
  const Index elements = stave_detail::naming("from_dlpack", [&] { return shape.elements(); });
  if (elements == 0)
    return Tensor(NodePtr(new Node(dtype, device, shape, allocate_storage(device, dtype, shape, "from_dlpack"))));
  if (!array.data) fail<Error>("from_dlpack: the array of shape {} has no memory: its data is a null pointer", shape);
  const Strides strides =
      array.strides ? Strides(std::span<const std::int64_t>(array.strides, shape.size())) : contiguous_strides(shape);
  const auto size = static_cast<Index>(size_of(dtype));
  const Reach reach = reach_of(shape, strides);
  char* const first = static_cast<char*>(array.data) + array.byte_offset;
  if (reinterpret_cast<std::uintptr_t>(first) % size_of(dtype) != 0)
    fail<Error>(
        "from_dlpack: elements of {} begin at an address that is not a multiple of {}: pass a copy of the array", dtype,
        size);
  StoragePtr storage(new stave_detail::ForeignStorage(
      device, first + reach.lowest * size, static_cast<std::size_t>((reach.highest - reach.lowest + 1) * size),
      std::move(lender)));
  const Tensor x(NodePtr(new Node(dtype, device, shape, strides, std::move(storage), -reach.lowest)));
  return dtype == bool_ ? stave_detail::as_bools(x) : x;
}

template <class Managed>
Tensor import(typename Managed::Public* managed) {
  if (!managed) fail<Error>("from_dlpack: the structure is a null pointer");
  stave_detail::ForeignStorage::Lender lender(
      managed, [](void* lent) { release<Managed>(static_cast<typename Managed::Public*>(lent)); });
  const Managed& given = structure<Managed>(managed);
  if constexpr (std::is_same_v<Managed, Versioned>)
    if (given.version.major != 1)
      fail<Error>(
          "from_dlpack: the structure has the version DLPack {}.{}, which this library cannot read: ask for version "
          "1.x "
          "(max_version=(1, 0) in Python)",
          given.version.major, given.version.minor);
  return view_of_foreign(given.array, std::move(lender));
}

// ---- out ----------------------------------------------------------------------------------------

template <class Managed>
struct Exported {
  Managed managed;
  Shape shape;
  Strides strides;
  StoragePtr storage;
};

Tensor copied(const Tensor& x) {
  stave_detail::UnderFrame past_all_handlers(nullptr);
  return apply(op_copy, {x});
}

template <class Managed>
typename Managed::Public* export_to(const Tensor& x, const DlpackOptions& options, const char* function) {
  const Device device = stave_detail::require_defined(x, function).device();
  const bool waits = device != cpu && options.stream != -1;
  if (waits && options.stream == 0)
    fail<DeviceError>(
        "{}: stream 0 is ambiguous: give 1 for the default stream, 2 for the per-thread default stream, or -1 for none",
        function);
  const Tensor value = stave_detail::read_in_place(x, function, "export stop_gradient(x), which is a constant");
  const bool copies = options.copy || value.node().memory() != device;
  const Tensor lent = copies ? copied(value) : value;
  const Node& node = lent.node();
  auto exported = std::make_unique<Exported<Managed>>();
  exported->shape = node.shape;
  exported->strides = node.strides;
  exported->storage = node.storage;
  Managed& managed = exported->managed;
  managed.context = exported.get();
  managed.deleter = [](typename Managed::Public* self) {
    delete static_cast<Exported<Managed>*>(structure<Managed>(self).context);
  };
  if constexpr (std::is_same_v<Managed, Versioned>) {
    managed.version = {1, 0};  // all members that are used exist since version 1.0
    managed.flags = copies ? is_copied : read_only;
  }
  managed.array = {lent.size() > 0 ? node.data() : nullptr,
                   device == cpu ? host : cuda_memory,
                   device.index,
                   lent.rank(),
                   type_of(node.dtype),
                   exported->shape.data(),
                   exported->strides.data(),
                   0};
  if (waits) backend_of(device).make_stream_wait(options.stream);
  return reinterpret_cast<typename Managed::Public*>(&exported.release()->managed);
}

}  // namespace

Tensor from_dlpack(DLManagedTensorVersioned* managed) { return import <Versioned>(managed); }
Tensor from_dlpack(DLManagedTensor* managed) { return import <Unversioned>(managed); }

DLManagedTensorVersioned* to_dlpack(const Tensor& x, DlpackOptions options) {
  return export_to<Versioned>(x, options, "to_dlpack");
}
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, DlpackOptions options) {
  return export_to<Unversioned>(x, options, "to_dlpack_unversioned");
}

void release_dlpack(DLManagedTensorVersioned* managed) noexcept { release<Versioned>(managed); }
void release_dlpack(DLManagedTensor* managed) noexcept { release<Unversioned>(managed); }

std::intptr_t dlpack_stream(Device device) { return backend_of(device).stream(); }

}  // namespace stave
