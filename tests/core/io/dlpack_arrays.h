// Arrays as other libraries exchange them. The structures are declared once more, from DLPack's
// documentation: https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/stave.h>

extern "C" {
typedef struct {
  std::uint32_t major, minor;
} DLPackVersion;
typedef struct {
  std::int32_t device_type;
  std::int32_t device_id;
} DLDevice;
typedef struct {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;
}

namespace dlpack_test {

using namespace stave;

constexpr std::uint64_t read_only = 1, is_copied = 2;

/// An array that another library owns. It counts how often it is given back.
template <class Managed>
struct Lent {
  Managed managed{};
  std::vector<std::int64_t> shape, strides;
  std::atomic<int>* given_back;

  /// Allocates on the heap; the deleter frees it.
  static Managed* make(const void* data, DLDataType type, std::vector<std::int64_t> shape,
                       std::vector<std::int64_t> strides, std::atomic<int>& given_back, std::uint64_t byte_offset) {
    auto* lent = new Lent{{}, std::move(shape), std::move(strides), &given_back};
    Managed& managed = lent->managed;
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 3};
    managed.manager_ctx = lent;
    managed.deleter = [](Managed* self) {
      auto* const all = static_cast<Lent*>(self->manager_ctx);
      ++*all->given_back;
      delete all;
    };
    managed.dl_tensor = {const_cast<void*>(data),
                         {1, 0},
                         static_cast<std::int32_t>(lent->shape.size()),
                         type,
                         lent->shape.data(),
                         lent->strides.empty() ? nullptr : lent->strides.data(),
                         byte_offset};
    return &managed;
  }
};
template <class Managed = DLManagedTensorVersioned>
Managed* lend(const void* data, DLDataType type, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
              std::atomic<int>& given_back, std::uint64_t byte_offset = 0) {
  return Lent<Managed>::make(data, type, std::move(shape), std::move(strides), given_back, byte_offset);
}

constexpr DLDataType float_type{2, 32, 1};

struct Known {
  Dtype dtype;
  DLDataType type;
};
constexpr Known known[] = {{bool_, {6, 8, 1}},    {uint8, {1, 8, 1}},      {uint16, {1, 16, 1}},
                           {uint32, {1, 32, 1}},  {uint64, {1, 64, 1}},    {int8, {0, 8, 1}},
                           {int16, {0, 16, 1}},   {int32, {0, 32, 1}},     {int64, {0, 64, 1}},
                           {float16, {2, 16, 1}}, {bfloat16, {4, 16, 1}},  {float32, {2, 32, 1}},
                           {float64, {2, 64, 1}}, {complex64, {5, 64, 1}}, {complex128, {5, 128, 1}}};

/// 1, 0, 1, 1 in every dtype.
inline Tensor ones_and_zero(Dtype dtype) { return astype(tensor({1, 0, 1, 1}), dtype); }

/// Gives an exported structure back when it is destroyed.
template <class Managed>
struct GivesBack {
  void operator()(Managed* managed) const { managed->deleter(managed); }
};
template <class Managed>
std::unique_ptr<Managed, GivesBack<Managed>> owned(Managed* managed) {
  return std::unique_ptr<Managed, GivesBack<Managed>>(managed);
}

}  // namespace dlpack_test
