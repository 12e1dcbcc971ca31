// Conformance tests of backends. They test the kernels alone, through backend.h and below the
// operations: every kernel, dtype and layout against independent references (libm in long double,
// naive loops, published vectors, jax). A new backend is right if it passes them. (The table of
// operations, tests/table, tests what operations mean, and their derivatives.) This file has the
// choice of the backend, and arrays in any layout.
//
// Each test runs on the CPU with every instruction set of this machine, on a device whose memory
// the host cannot touch (separate_backend.h), and on the first CUDA device. Without a CUDA device
// its tests are skipped with a message.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/core/effects/error.h>
#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>

#include "accuracy/float_values.h"
#include "float_shape.h"
#include "separate_backend.h"

namespace conformance {

using namespace stave;
using stave_test::special_values;
using Real = long double;

// ---- arrays in any layout -----------------------------------------------------------------------

enum class Lay { contiguous, permuted, reversed, gapped, broadcast };
constexpr Lay lays[] = {Lay::contiguous, Lay::permuted, Lay::reversed, Lay::gapped, Lay::broadcast};

/// An array: values in row-major order, and the same values in memory under other strides.
/// `broadcast` repeats the values along axis 0.
template <class T>
struct Array {
  Shape shape, strides;
  std::vector<std::uint8_t> bytes;
  Index origin = 0;
  T* base() { return reinterpret_cast<T*>(bytes.data()) + origin; }
  View view() { return {base(), dtype_of<T>(), shape, strides}; }
  T at(Index i) {
    Index offset = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += i % shape[d] * strides[d];
      i /= shape[d];
    }
    return base()[offset];
  }
  std::vector<T> values() {
    std::vector<T> all;
    for (Index i = 0; i < shape.elements(); ++i) all.push_back(at(i));
    return all;
  }
};

inline Strides dense(const Shape& shape) {
  Strides strides;
  strides.resize(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

template <class T>
Array<T> make(const Shape& shape, Lay lay, const std::function<T(Index)>& value) {
  Array<T> a{shape, dense(shape), {}, 0};
  std::size_t rank = shape.size();
  Index spread = 1;
  if (lay == Lay::permuted) {  // the last axis is outermost
    Index step = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      a.strides[i] = step;
      step *= shape[i];
    }
  } else if (lay == Lay::gapped) {
    for (Index& s : a.strides) s *= 2;
    spread = 2;
  } else if (lay == Lay::broadcast && rank > 0) {
    a.strides[0] = 0;
  } else if (lay == Lay::reversed) {
    for (std::size_t i = 0; i < rank; ++i) {
      if (shape[i] > 0) a.origin += (shape[i] - 1) * a.strides[i];
      a.strides[i] = -a.strides[i];
    }
  }
  a.bytes.resize(static_cast<std::size_t>(std::max<Index>(1, shape.elements() * spread)) * sizeof(T));
  for (Index i = 0; i < shape.elements(); ++i) {
    Index offset = 0, rest = i;
    for (std::size_t d = rank; d-- > 0;) {
      offset += rest % shape[d] * a.strides[d];
      rest /= shape[d];
    }
    a.base()[offset] = value(i);
  }
  return a;
}
template <class T>
Array<T> of(const Shape& shape, std::vector<T> values) {
  return make<T>(shape, Lay::contiguous, [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

inline std::mt19937_64& rng() {
  static std::mt19937_64 engine(7);
  return engine;
}
template <class T>
T random_value() {
  if constexpr (!std::is_integral_v<T>) return static_cast<T>(std::normal_distribution<double>(0, 3)(rng()));
  else if constexpr (std::is_same_v<T, bool>) return rng()() % 2;
  else return static_cast<T>(static_cast<T>(rng()() % 11) - static_cast<T>(std::is_signed_v<T> ? 5 : 0));
}
template <class T>
Array<T> random_array(const Shape& shape, Lay lay) {
  return make<T>(shape, lay, [](Index) { return random_value<T>(); });
}

// ---- where it runs ------------------------------------------------------------------------------

/// Returns the backend under test.
inline Backend*& backend() {
  static Backend* current = &cpu_backend();
  return current;
}
inline bool on_cpu() { return backend() == &cpu_backend(); }
inline bool on_cuda() { return std::string_view(backend()->name()) == "cuda"; }

/// An operand in the memory of the backend: the host's memory for the CPU, else a copy of all
/// memory that the view covers.
class DeviceOperand {
 public:
  explicit DeviceOperand(const View& host) : view_(host) {
    if (on_cpu()) return;
    const auto size = static_cast<Index>(size_of(host.dtype));
    Index first = 0, last = 0;  // offsets of the lowest and the highest element
    for (std::size_t i = 0; i < host.shape.size(); ++i) {
      if (host.shape[i] == 0) return;  // no element to read
      (host.strides[i] < 0 ? first : last) += (host.shape[i] - 1) * host.strides[i];
    }
    const auto bytes = static_cast<std::size_t>((last - first + 1) * size);
    storage_ = StoragePtr(backend()->allocate(bytes));
    backend()->write(storage_->data, static_cast<const char*>(host.data) + first * size, bytes);
    view_.data = static_cast<char*>(storage_->data) - first * size;
  }
  const View& view() const { return view_; }

 private:
  View view_;
  StoragePtr storage_;
};

/// Returns the elements of the operation's result, in a new contiguous output.
template <class R>
std::vector<R> run(OpId op, const Attributes* attributes, const std::vector<View>& inputs, const Shape& shape) {
  std::vector<DeviceOperand> operands(inputs.begin(), inputs.end());
  std::vector<View> views;
  for (const DeviceOperand& operand : operands) views.push_back(operand.view());
  const Strides strides = dense(shape);
  const auto bytes = static_cast<std::size_t>(shape.elements()) * sizeof(R);
  StoragePtr storage(backend()->allocate(bytes));
  View out{storage->data, dtype_of<R>(), shape, strides};
  backend()->run(record_of(op), attributes, views, std::span<const View>(&out, 1));
  const auto data = std::make_unique_for_overwrite<R[]>(static_cast<std::size_t>(shape.elements()));
  backend()->read(data.get(), storage->data, bytes);
  return std::vector<R>(data.get(), data.get() + shape.elements());
}
template <class R, class T>
std::vector<R> map(OpId op, const std::vector<T>& x) {
  Array<T> a = of<T>(Shape(static_cast<Index>(x.size())), x);
  return run<R>(op, nullptr, {a.view()}, a.shape);
}
template <class R, class T>
std::vector<R> map(OpId op, const std::vector<T>& x, const std::vector<T>& y) {
  Array<T> a = of<T>(Shape(static_cast<Index>(x.size())), x), b = of<T>(a.shape, y);
  return run<R>(op, nullptr, {a.view(), b.view()}, a.shape);
}

/// The fixture of tests that run on each backend.
class OnBackend : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string& name = GetParam();
    if (name == "cuda") {
      if (!cuda_available()) GTEST_SKIP() << "no CUDA device can be used here";
      backend() = &backend_of(cuda(0));
    } else if (name == "separate") {
      separate_ = std::make_unique<stave_test::SeparateBackend>(255);
      backend() = separate_.get();
    } else {
      const stave_cpu::Kernels* table = stave_cpu::kernels_for(name);
      if (!table) GTEST_SKIP() << "this machine or build has no " << name;
      stave_cpu::use_kernels(table);
    }
  }
  void TearDown() override {
    stave_cpu::use_kernels(nullptr);
    backend() = &cpu_backend();
  }

 private:
  std::unique_ptr<stave_test::SeparateBackend> separate_;
};
inline std::vector<std::string> backends() {
  std::vector<std::string> names = stave_cpu::built_isas();
  names.insert(names.end(), {"separate", "cuda"});
  return names;
}
#define STAVE_ON_BACKENDS(Suite)     \
  class Suite : public OnBackend {}; \
  INSTANTIATE_TEST_SUITE_P(On, Suite, testing::ValuesIn(backends()), [](const auto& where) { return where.param; })

template <class T>
void expect_near(T got, Real exact, Real scale) {
  const double epsilon = stave_test::epsilon_of(dtype_of<T>());
  if constexpr (std::is_integral_v<T>) exact = static_cast<T>(static_cast<std::int64_t>(exact));
  // Half the distance of two subnormal float16 numbers.
  constexpr double subnormal = std::is_same_v<T, Float16> ? 0x1p-25 : 0;
  ASSERT_NEAR(static_cast<double>(got), static_cast<double>(exact), static_cast<double>(scale) * epsilon + subnormal);
}

}  // namespace conformance
