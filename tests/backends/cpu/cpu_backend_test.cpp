// Parts that only the CPU backend has: its memory, its choice of instruction sets, its generator's
// words. conformance.h tests its kernels.
#include <bit>
#include <cstring>
#include <thread>

#include <stave/backends/cpu/elementwise.h>
#include <stave/backends/cpu/strided.h>

#include "backends/conformance.h"
#include "backends/copies.h"
#include "isas.h"

namespace {

using namespace conformance;

class Cpu : public stave_test::OnEachIsa {};
STAVE_ON_EACH_ISA(Cpu);

TEST_P(Cpu, MovesElementsOfEverySize) {
  stave_test::check_copies_of_every_size(
      [](char* to, const Strides& dense, char* from, const Strides& strides, const Shape& shape, Index size) {
        stave_cpu::copy_strided({to, dense}, {from, strides}, shape, size);
      });
  for (const std::size_t size : {1, 2, 4, 8, 16}) {
    std::vector<char> element(size), result(40 * 64 * size);
    for (std::size_t i = 0; i < size; ++i) element[i] = static_cast<char>(i + 1);
    stave_cpu::fill_elements(result.data(), element.data(), 40 * 64, static_cast<Index>(size));
    for (std::size_t i = 0; i < 40 * 64; ++i)
      ASSERT_EQ(std::memcmp(result.data() + i * size, element.data(), size), 0) << size;
  }
}

// Copies to a column-major matrix from a row-major one (also with a gap between rows), from one
// with reversed rows, and from one repeated row.
TEST_P(Cpu, CopiesToColumns) {
  for (const Index size : {1, 2, 4, 8, 16})
    for (const auto& [rows, columns] : {std::pair<Index, Index>{3, 5}, {4, 4}, {17, 31}, {64, 64}, {70, 131}})
      for (const Strides& from : {Strides{columns, 1}, {columns + 3, 1}, {columns, -1}, {0, 1}}) {
        std::vector<char> source(static_cast<std::size_t>(rows * (columns + 3) * size)), copy(source.size(), 'x');
        for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7 + i / 251);
        const Index first = from[1] < 0 ? columns - 1 : 0;
        const Shape shape{rows, columns};
        const Strides to{1, rows};
        stave_cpu::copy_strided({copy.data(), to}, {source.data() + first * size, from}, shape, size);
        for (Index r = 0; r < rows; ++r)
          for (Index c = 0; c < columns; ++c)
            ASSERT_EQ(
                std::memcmp(copy.data() + (c * rows + r) * size,
                            source.data() + (first + r * from[0] + c * from[1]) * size, static_cast<std::size_t>(size)),
                0)
                << size << ' ' << shape << ' ' << from << ": " << r << ", " << c;
        EXPECT_EQ(std::count(copy.begin() + rows * columns * size, copy.end(), 'x'), 3 * rows * size);
      }
}

// Copies rows of a few elements to rows with gaps, which keep their bytes.
TEST_P(Cpu, CopiesShortRows) {
  for (const Index size : {1, 2, 4, 8, 16})
    for (Index columns = 1; columns <= 17; ++columns)
      for (const Index gap : {0, 1, 3})
        for (const Strides& from :
             {Strides{columns + 2, 1}, {1, 0}, {3, 0}, {0, 1}, {-columns, 1}, {20, -1}, {1, 40}}) {
          const Index rows = 37;
          const Shape shape{rows, columns};
          const Strides to{columns + gap, 1};
          std::vector<char> source(static_cast<std::size_t>(2000 * size)), copy(source.size(), 'x');
          for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7 + i / 251);
          char* const first = source.data() + (from[0] < 0 || from[1] < 0 ? 36 * columns : 0) * size;
          stave_cpu::copy_strided({copy.data(), to}, {first, from}, shape, size);
          std::vector<char> expected(source.size(), 'x');
          for (Index r = 0; r < rows; ++r)
            for (Index c = 0; c < columns; ++c)
              std::memcpy(expected.data() + (r * to[0] + c) * size, first + (r * from[0] + c * from[1]) * size,
                          static_cast<std::size_t>(size));
          ASSERT_EQ(copy, expected) << size << " bytes, " << shape << ' ' << from << " to " << to;
        }
}

// Reads strided operands in pieces that begin and end anywhere, in order and not.
TEST_P(Cpu, ReadsShortRows) {
  struct Layout {
    Shape shape;
    Strides strides;
  };
  std::mt19937_64 random(7);
  const auto pick = [&](Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); };
  for (const Index size : {1, 2, 4, 8, 16})
    for (Index columns = 1; columns <= 17; ++columns)
      for (const auto& [shape, strides] : std::vector<Layout>{{{61, columns}, {1, 0}},
                                                              {{61, columns}, {19, 1}},
                                                              {{61, columns}, {0, 1}},
                                                              {{61, columns}, {-19, 1}},
                                                              {{61, columns}, {20, -1}},
                                                              {{61, columns}, {1, 61}},
                                                              {{31, 2, columns}, {columns, 0, 1}},
                                                              {{31, 2, columns}, {1, 40, 0}},
                                                              {{31, 5, columns}, {40, -5, 2}},
                                                              {{2, 17, 3, columns}, {3, 0, 1, 0}},
                                                              {{7, 3, 2, columns}, {100, 0, 20, 1}},
                                                              {{5, 15, 14, columns}, {50, 3, 1, 0}},
                                                              {{3, 2, 2, 2, columns}, {1, 0, 3, 0, 5}},
                                                              {{977 * columns}, {3}},
                                                              {{977 * columns}, {-1}}}) {
        const Index n = shape.elements();
        Index lowest = 0, highest = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
          (strides[axis] < 0 ? lowest : highest) += strides[axis] * (shape[axis] - 1);
        std::vector<char> source(static_cast<std::size_t>((highest - lowest + 1) * size));
        for (char& byte : source) byte = static_cast<char>(random());
        const char* const first = source.data() - lowest * size;
        std::vector<char> expected;
        for (Index i = 0; i < n; ++i) {
          Index offset = 0, rest = i;
          for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
            offset += rest % shape[axis] * strides[axis];
          expected.insert(expected.end(), first + offset * size, first + (offset + 1) * size);
        }
        const Index* const all[] = {strides.data()};
        const stave_cpu::Axes axes = stave_cpu::merged_axes(shape, all, &size);
        if (axes.empty()) continue;
        stave_cpu::StridedReader reader(first, axes, 0, size);
        for (Index at = 0, count = 0, round = 0; round < 40; ++round, at += count) {
          if (at >= n || round % 8 == 0) at = pick(0, n - 1);
          count = pick(1, std::min(n - at, round % 3 == 0 ? 3 * columns : n));
          std::vector<char> buffer(static_cast<std::size_t>(count * size));  // of the exact size, for sanitizers
          const char* const found = reader.read(at, count, buffer.data());
          ASSERT_EQ(std::memcmp(found, expected.data() + at * size, buffer.size()), 0)
              << size << " bytes, " << shape << ' ' << strides << ": " << count << " from " << at;
          ASSERT_EQ(std::memcmp(reader.element(at), expected.data() + at * size, static_cast<std::size_t>(size)), 0);
        }
      }
}

// Copies the second of two operands, of every element size and layout: broadcast, gathered and
// tiled operands keep all bytes of an element.
template <std::size_t size>
void take_second(void* out, const void* const* in, Index n) {
  std::memcpy(out, in[1], static_cast<std::size_t>(n) * size);
}
TEST_P(Cpu, ComputesOnElementsOfEverySize) {
  constexpr stave_cpu::BlockKernel second[] = {take_second<1>, take_second<2>, take_second<4>, take_second<8>,
                                               take_second<16>};
  // 40 rows are computed in tiles; 4 rows are few enough to be gathered
  for (const Index rows : {40, 4})
    stave_test::check_copies_of_every_size(
        [&](char* to, const Strides& dense, char* from, const Strides& strides, const Shape& whole, Index size) {
          alignas(16) char one[16] = {};
          const Shape shape{rows, whole[1]};
          const Strides repeated{0, 0};
          const Index sizes[] = {size, 16, size};
          for (Index row = 0; row < whole[0]; row += rows) {
            const stave::View inputs[] = {{one, uint8, shape, repeated},
                                          {from + row * strides[0] * size, uint8, shape, strides}};
            stave_cpu::run_elementwise_sized(second[std::countr_zero(static_cast<std::size_t>(size))], inputs,
                                             {to + row * dense[0] * size, uint8, shape, dense}, sizes, 512);
          }
        });
}

TEST_P(Cpu, ThreefryKnownAnswers) {  // Random123's kat_vectors, threefry2x32 with 20 rounds
  auto word = [](std::uint32_t k0, std::uint32_t k1, std::uint64_t counter) {
    std::uint64_t out;
    stave_cpu::kernels().random_words(&out, k0, k1, counter, 1);
    return out;
  };
  EXPECT_EQ(word(0, 0, 0), 0x6b20015999ba4efeu);
  EXPECT_EQ(word(~0u, ~0u, ~std::uint64_t{0}), 0x1cb996fcbb002be7u);
  EXPECT_EQ(word(0x13198a2e, 0x03707344, 0x243f6a8885a308d3), 0xc4923a9c483df7a0u);
}

// Results of more than 32 MiB are written by non-temporal stores, in pieces that start at a cache
// line. Cases: a whole array, rows that do not start at a cache line, and both dtypes of a
// comparison. Values are whole numbers, so that sums are exact.
template <class T, class R, class F>
void check_large(OpId op, const Shape& shape, const Strides& left, const Strides& right, F exact) {
  const auto n = static_cast<std::size_t>(shape.elements());
  std::vector<T> x(n + 3), y(n + 3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(i % 61);
    y[i] = static_cast<T>(i % 53);
  }
  const StoragePtr result(cpu_backend().allocate(n * sizeof(R)));
  const Strides rows = contiguous_strides(shape);
  const View in[] = {{x.data() + 3, dtype_of<T>(), shape, left}, {y.data() + 1, dtype_of<T>(), shape, right}};
  const View out{result->data, dtype_of<R>(), shape, rows};
  cpu_backend().run(record_of(op), nullptr, in, {&out, 1});
  const auto* got = static_cast<const R*>(result->data);
  const Index columns = shape[shape.size() - 1];
  const auto at = [&](const Strides& strides, Index i) {
    return shape.size() == 1 ? i * strides[0] : i / columns * strides[0] + i % columns * strides[1];
  };
  for (Index i = 0; i < static_cast<Index>(n); ++i)
    ASSERT_EQ(got[i],
              exact(x[static_cast<std::size_t>(3 + at(left, i))], y[static_cast<std::size_t>(1 + at(right, i))]))
        << "element " << i << " of " << shape.str() << ", strides " << left.str() << " and " << right.str();
}
TEST_P(Cpu, LargeResults) {
  constexpr Index n = (Index{8} << 20) + 77, rows = 2053, columns = 4099;
  const auto sum = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
  check_large<float, float>(OpId::add, {n}, {1}, {1}, sum);
  check_large<float, float>(OpId::add, {n}, {1}, {0}, sum);
  check_large<double, double>(OpId::add, {n / 2}, {1}, {1}, sum);
  check_large<std::uint8_t, std::uint8_t>(OpId::add, {4 * n}, {1}, {1}, sum);
  check_large<std::uint8_t, bool>(OpId::less, {4 * n}, {1}, {1}, [](auto a, auto b) { return a < b; });
  // A row is added to each row.
  check_large<float, float>(OpId::add, {rows, columns}, {columns, 1}, {0, 1}, sum);
  // A column is added to each column.
  check_large<float, float>(OpId::add, {rows, columns}, {columns, 1}, {1, 0}, sum);
  check_large<float, float>(OpId::add, {rows, columns}, {columns, 1}, {1, rows}, sum);
  check_large<float, float>(OpId::add, {n / 7, 7}, {7, 1}, {1, n / 7}, sum);
}

// ---- memory -------------------------------------------------------------------------------------

TEST(CpuMemory, CountsAreExact) {
  Backend& cpu = cpu_backend();
  std::size_t before = cpu.memory_stats().live_bytes;
  cpu.reset_peak_memory();
  std::vector<StoragePtr> held;
  for (std::size_t bytes : {0, 1, 4, 64, 65, 1000, 1024, 1025, 5000, 100000, 3000000}) {
    held.emplace_back(cpu.allocate(bytes));
    ASSERT_NE(held.back()->data, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(held.back()->data) % (bytes > 16 ? 64 : 16), 0u);
    ASSERT_GE(held.back()->capacity, bytes);
    ASSERT_LE(held.back()->capacity, std::max<std::size_t>(64, bytes + bytes / 8 + 64));
    std::memset(held.back()->data, 1, bytes);
  }
  std::size_t sum = 0 + 1 + 4 + 64 + 65 + 1000 + 1024 + 1025 + 5000 + 100000 + 3000000;
  EXPECT_EQ(cpu.memory_stats().live_bytes, before + sum);
  held.clear();
  EXPECT_EQ(cpu.memory_stats().live_bytes, before);
  EXPECT_EQ(cpu.memory_stats().peak_bytes, before + sum);
  cpu.reset_peak_memory();
  EXPECT_EQ(cpu.memory_stats().peak_bytes, before);
  for (int i = 0; i < 1000; ++i) StoragePtr(cpu.allocate(40));
  EXPECT_EQ(cpu.memory_stats().peak_bytes, before + 40);
  cpu.release_cached_memory();
  EXPECT_EQ(cpu.memory_stats().cached_bytes, 0u);
}
TEST(CpuMemory, MayBeFreedOnAnotherThreadAndAfterThreadsEnd) {
  Backend& cpu = cpu_backend();
  std::size_t before = cpu.memory_stats().live_bytes;
  for (int round = 0; round < 3; ++round) {
    std::vector<StoragePtr> made(4000);
    std::thread([&] {
      for (std::size_t i = 0; i < made.size(); ++i) made[i] = StoragePtr(cpu.allocate(i % 1500));
    }).join();
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < made.size(); i += 4) {
          std::memset(made[i]->data, 0, made[i]->bytes);
          made[i] = nullptr;
          StoragePtr again(cpu.allocate(i % 300));
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(cpu.memory_stats().live_bytes, before);
}
TEST(CpuMemory, TooMuchThrowsBadAlloc) { EXPECT_THROW(cpu_backend().allocate(std::size_t{1} << 60), std::bad_alloc); }

// A member of a thread_local made before the pool: its storage is freed after the thread's free
// lists are gone.
struct FreedLast {
  StoragePtr storage;
};
TEST(CpuMemory, ThreadLocalsMayHoldTensors) {
  std::thread([] {
    thread_local FreedLast held;
    held.storage = StoragePtr(cpu_backend().allocate(100));
  }).join();
  static FreedLast global;  // freed by static destruction
  global.storage = StoragePtr(cpu_backend().allocate(100));
}

// ---- dispatch -----------------------------------------------------------------------------------

TEST(CpuDispatch, AnUnknownInstructionSetIsAClearError) {
  const char* before = std::getenv("STAVE_CPU_ISA");
  std::string saved = before ? before : "";
  setenv("STAVE_CPU_ISA", "mmx", 1);
  stave_cpu::use_kernels(nullptr);
  try {
    map<float>(OpId::exp, std::vector<float>{1});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what())
                  .find("STAVE_CPU_ISA=mmx: this build or this processor does not have that instruction set"),
              0u)
        << error.what();
  }
  const std::string plainest = stave_cpu::built_isas().back();
  setenv("STAVE_CPU_ISA", plainest.c_str(), 1);
  EXPECT_EQ(stave_cpu::kernels().isa, plainest);
  before ? setenv("STAVE_CPU_ISA", saved.c_str(), 1) : unsetenv("STAVE_CPU_ISA");
  stave_cpu::use_kernels(nullptr);
}
TEST(CpuDispatch, ViewsHaveNoKernel) {
  Array<float> x = random_array<float>(Shape{2}, Lay::contiguous);
  EXPECT_THROW(run<float>(OpId::permute_dims, nullptr, {x.view()}, Shape{2}), Error);
}

}  // namespace
