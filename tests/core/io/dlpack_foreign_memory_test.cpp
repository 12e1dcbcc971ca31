// Memory that another library owns: bools of any byte are true or false, and no operation writes
// to it.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>

#include <stave/stave.h>

#include "dlpack_arrays.h"
#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace dlpack_test;
using namespace stave;
using namespace stave_test;

constexpr DLDataType bool_type{6, 8, 1};
// numpy.array([2, 3, 255, 0, 1, 4], numpy.uint8).view(bool), and which elements are true.
constexpr std::uint8_t odd_bytes[] = {2, 3, 255, 0, 1, 4};
const std::vector<int> odd_values = {1, 1, 1, 0, 1, 1};

std::vector<int> bytes_of(const Tensor& x) {
  const Tensor y = contiguous(to(x, cpu));
  const auto* const data = static_cast<const std::uint8_t*>(y.node().data());
  return {data, data + y.size()};
}

TEST(Bools, EveryNonzeroForeignByteIsTrue) {
  std::atomic<int> given_back = 0;
  const auto array = [&] { return from_dlpack(lend(odd_bytes, bool_type, {6}, {1}, given_back)); };
  const Tensor x = array(), y = tensor({true, true, true, false, true, true}), all_true = ones({6}, bool_);
  // The tensor is a copy.
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(bytes_of(x), odd_values);
  EXPECT_EQ(bytes_of(from_dlpack(lend<DLManagedTensor>(odd_bytes, bool_type, {6}, {}, given_back))), odd_values);
  for (const Known& each : known) EXPECT_THAT(astype(array(), each.dtype), Equals(astype(y, each.dtype))) << each.dtype;
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> functions[] = {
      {"==", [&](const Tensor& a) { return a == y; }},
      {"<", [&](const Tensor& a) { return a < y; }},
      {"&", [&](const Tensor& a) { return a & all_true; }},
      {"|", [&](const Tensor& a) { return a | y; }},
      {"^", [&](const Tensor& a) { return a ^ y; }},
      {"~", [](const Tensor& a) { return ~a; }},
      {"logical_not", [](const Tensor& a) { return logical_not(a); }},
      {"sum", [](const Tensor& a) { return sum(a); }},
      {"count_nonzero", [](const Tensor& a) { return count_nonzero(a); }},
      {"all", [](const Tensor& a) { return all(a); }},
      {"any", [](const Tensor& a) { return any(a); }},
      {"max", [](const Tensor& a) { return max(a); }},
      {"argmax", [](const Tensor& a) { return argmax(a); }},
      {"sort", [](const Tensor& a) { return sort(a); }},
      {"cumulative_sum", [](const Tensor& a) { return cumulative_sum(astype(a, int64), 0); }},
      {"where", [](const Tensor& a) { return where(a, 1., 0.); }},
      {"nonzero", [](const Tensor& a) { return nonzero(a)[0]; }},
      {"mask", [](const Tensor& a) { return arange(6.)(a); }},
      {"set", [](const Tensor& a) { return zeros({6}).at(a).set(1); }},
      {"stack",
       [&](const Tensor& a) {
         return stack({a, y});
       }},
      {"*", [](const Tensor& a) { return a * 2.5; }},
      {"compiled", [](const Tensor& a) { return compile([](const Tensor& b) { return sum(b * 2.); })(a); }},
      {"vmap", [](const Tensor& a) { return vmap([](const Tensor& b) { return where(b, 3., 5.); })(a); }}};
  for (const auto& [name, f] : functions) EXPECT_THAT(f(array()), Equals(f(y))) << name;
}

TEST(Bools, ForeignBytesAreCopiedOnlyIfOneIsNeitherZeroNorOne) {
  std::atomic<int> given_back = 0;
  int calls = 0;
  const auto expect = [&](std::uint64_t first, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                          const std::vector<int>& expected, bool is_copy) {
    const Tensor x = from_dlpack(lend(odd_bytes, bool_type, shape, strides, given_back, first));
    calls += is_copy;
    EXPECT_EQ(given_back, calls);
    EXPECT_EQ(x.shape(), Shape(std::span<const std::int64_t>(shape)));
    EXPECT_EQ(bytes_of(x), expected);
    EXPECT_EQ(x.node().data() == odd_bytes + first, !is_copy);
    calls += !is_copy;
  };
  // Only bytes that belong to the array are inspected.
  expect(3, {2}, {1}, {0, 1}, false);
  expect(4, {}, {}, {1}, false);
  expect(0, {}, {}, {1}, true);
  expect(4, {2}, {-1}, {1, 0}, false);
  expect(5, {3}, {-2}, {1, 0, 1}, true);
  expect(0, {3, 2}, {1, 3}, {1, 0, 1, 1, 1, 1}, true);
  expect(0, {2, 6}, {0, 1}, {1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1}, true);
  expect(3, {3, 2}, {0, 1}, {0, 1, 0, 1, 0, 1}, false);
  expect(0, {4, 3}, {1, 1}, {1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1}, true);
  calls += 1;
  EXPECT_EQ(from_dlpack(lend(odd_bytes, bool_type, {0, 6}, {6, 1}, given_back)).size(), 0);
  EXPECT_EQ(given_back, calls);
}

// A row of NumPy's broadcast_to has one element in memory, whatever its length.
TEST(Bools, RepeatedElementsAreCheckedOnce) {
  std::atomic<int> given_back = 0;
  const std::size_t before = memory_stats().live_bytes;
  for (const std::uint64_t first : {0, 4}) {
    const Tensor x = from_dlpack(
        lend(odd_bytes, bool_type, {std::int64_t{1} << 20, std::int64_t{1} << 20}, {0, 0}, given_back, first));
    EXPECT_LT(memory_stats().live_bytes, before + 4096);
    EXPECT_TRUE(bool(x(7, -1)));
    EXPECT_THAT(astype(x(3, slice(2, 4)), int32), Equals(tensor({1, 1})));
  }
}

TEST(Bools, EveryByteOfALongArrayIsChecked) {
  std::atomic<int> given_back = 0;
  std::vector<std::uint8_t> bytes(1 << 20, 1);
  const auto count = [&] {
    const auto n = static_cast<std::int64_t>(bytes.size());
    return count_nonzero(from_dlpack(lend(bytes.data(), bool_type, {n}, {1}, given_back))).item<std::int64_t>();
  };
  EXPECT_EQ(count(), 1 << 20);
  for (const std::size_t place : {std::size_t{0}, std::size_t{77'777}, bytes.size() - 1}) {
    bytes[place] = 0x80;
    EXPECT_EQ(count(), 1 << 20) << place;
    bytes[place] = 1;
  }
}

TEST(Bools, DeviceMemoryIsCheckedOnTheDevice) {
  SeparateBackend backend(3);
  const Tensor odd = to(from(std::vector<std::uint8_t>(odd_bytes, odd_bytes + 6)), cuda(3));
  const Tensor good = to(tensor({true, false, true}), cuda(3));
  std::atomic<int> given_back = 0;
  const auto array = [&](const Tensor& bytes) {
    auto* const managed = lend(bytes.node().data(), bool_type, {bytes.size()}, {1}, given_back);
    managed->dl_tensor.device = {2, 3};
    return from_dlpack(managed);
  };
  const Tensor x = array(odd), y = array(good);
  EXPECT_EQ(x.device(), cuda(3));
  EXPECT_EQ(bytes_of(x), odd_values);
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(y.node().data(), good.node().data());
  EXPECT_EQ(bytes_of(y), std::vector({1, 0, 1}));
}

TEST(Bools, AreConstantsToTransforms) {
  std::atomic<int> given_back = 0;
  CountOps count;
  const auto f = [&](const Tensor& x) {
    return sum(where(from_dlpack(lend(odd_bytes, bool_type, {6}, {1}, given_back)), x, 0));
  };
  EXPECT_THAT(grad(f)(ones({6})), Equals(tensor({1., 1., 1., 0., 1., 1.})));
  EXPECT_THAT(vmap(f)(ones({2, 6})), Equals(tensor({5., 5.})));
  EXPECT_THAT(compile(f)(ones({6})), IsNumber(5));
  with(count, [&] { from_dlpack(lend(odd_bytes, bool_type, {6}, {1}, given_back)); });
  EXPECT_EQ(count.n, 0);
}

TEST(Bools, FromBytesAcceptsAnyByte) {
  SeparateBackend backend(3);
  for (const Device device : {cpu, cuda(3)}) {
    EXPECT_EQ(bytes_of(from_bytes(odd_bytes, 6, bool_, {2, 3}, device)), odd_values);
    EXPECT_EQ(bytes_of(from_bytes(odd_bytes + 3, 2, bool_, {2}, device)), std::vector({0, 1}));
    EXPECT_EQ(bytes_of(from_bytes(odd_bytes, 0, bool_, {0}, device)), std::vector<int>());
  }
  EXPECT_EQ(odd_bytes[1], 3);
}

// ---- memory that is never written ---------------------------------------------------------------

/// Read-only memory: a write to it ends the program.
class Sealed {
 public:
  explicit Sealed(const std::vector<float>& values) : values_(values) {
    memory_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(memory_, values.data(), values.size() * sizeof(float));
    ::mprotect(memory_, size, PROT_READ);
  }
  ~Sealed() { ::munmap(memory_, size); }
  Sealed(const Sealed&) = delete;
  Tensor array(std::vector<std::int64_t> shape) {
    return from_dlpack(lend(memory_, float_type, std::move(shape), {}, given_back));
  }
  std::atomic<int> given_back = 0;

 private:
  static constexpr std::size_t size = 4096;
  std::vector<float> values_;
  void* memory_;
};

// Each of these functions writes over the buffer of a temporary that a backend allocated.
TEST(ForeignMemory, IsNeverReusedForResultsOfOperations) {
  const std::vector<float> numbers = {0.5, 1, 2, 3, 5, 8};
  const Tensor own = from(numbers, {6});
  Sealed memory(numbers);
  const auto array = [&] { return memory.array({6}); };
  EXPECT_THAT(array() + 1, Equals(own + 1));
  EXPECT_THAT(sin(array()), Equals(sin(own)));
  EXPECT_THAT(1 / array() * array(), Equals(1 / own * own));
  EXPECT_THAT(where(array() > 1, array(), -array()), Equals(where(own > 1, own, -own)));
  EXPECT_THAT(array().at(2).set(7), Equals(own.at(2).set(7)));
  EXPECT_THAT(array().at(slice(1, 4)).add(1), Equals(own.at(slice(1, 4)).add(1)));
  EXPECT_THAT(astype(array(), int32), Equals(astype(own, int32)));
  EXPECT_THAT(cumulative_sum(array(), 0), Equals(cumulative_sum(own, 0)));
  EXPECT_THAT(sort(array()), Equals(sort(own)));
  EXPECT_THAT(softmax(array()), Equals(softmax(own)));
  const auto f = elementwise_op("f", [](auto x) { return tanh(x) * x + 1; });
  EXPECT_THAT(f(array()), Equals(f(own)));
  Tensor x = array();
  for (int i = 0; i < 3; ++i) x = std::move(x) * 2;
  EXPECT_THAT(x, Equals(own * 8));
}

TEST(ForeignMemory, IsNeverReusedByTransformsAndPrograms) {
  const std::vector<float> numbers = {0.5, 1, 2, 3};
  const Tensor own = from(numbers, {2, 2});
  Sealed memory(numbers);
  const auto array = [&] { return memory.array({2, 2}); };
  const auto f = [](Tensor x) { return sum(exp(std::move(x)) * 2 + 1); };
  EXPECT_THAT(grad(f)(array()), Equals(grad(f)(own)));
  EXPECT_THAT(vmap(f)(array()), Equals(vmap(f)(own)));
  EXPECT_THAT(jvp(f, array(), array()).second, Equals(jvp(f, own, own).second));
  const auto step = compile([](Tensor x) { return std::move(x) * 2 + 1; });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(step(array()), Equals(own * 2 + 1));
  const auto gradient = compile(grad(f));
  for (int i = 0; i < 3; ++i) EXPECT_THAT(gradient(array()), IsNear(grad(f)(own)));
  const auto captures = compile([x = array()](const Tensor& y) { return x + y; });
  for (int i = 0; i < 3; ++i) EXPECT_THAT(captures(own), Equals(own + own));
  const auto identity = compile([](const Tensor& x) { return std::pair(x, x + 1); });
  for (int i = 0; i < 3; ++i) {
    Tensor same = identity(array()).first;
    EXPECT_THAT(std::move(same) + 1, Equals(own + 1));
  }
  const auto loops = [](const Tensor& x) { return loop(3, [](const Tensor& state) { return state * 2; })(x); };
  EXPECT_THAT(loops(array()), Equals(own * 8));
  EXPECT_THAT(compile(loops)(array()), Equals(own * 8));
}

}  // namespace
