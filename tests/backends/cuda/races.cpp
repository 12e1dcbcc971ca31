// Runs kernels with their lanes and threads as host threads that meet at barriers, as on a device.
// The thread sanitizer can then detect a race that execution by loops hides: code between two
// phases that reads a value which another lane already overwrites in the next phase.
//
// The program prints what it ran. The sanitizer sets the exit status.
#include <barrier>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <stave/backends/cuda/kernels/attention.cuh>
#include <stave/backends/cuda/kernels/expm.cuh>

namespace stave_cuda {

void check(cudaError_t, const char*) {}

namespace {

struct ThreadTeam {
  int width, lane;
  std::barrier<>& barrier;

  template <class F>
  void for_lanes(F f) const {
    f(lane);
    barrier.arrive_and_wait();
  }
  template <class F>
  auto agree(F f) const {
    const auto result = f();
    barrier.arrive_and_wait();
    return result;
  }
};
struct ThreadBlock {
  unsigned thread;
  std::barrier<>& barrier;

  std::int64_t index() const { return 0; }
  std::int64_t count() const { return 1; }
  template <class F>
  void for_threads(F f) const {
    f(thread);
    barrier.arrive_and_wait();
  }
};

/// Calls f(number, barrier) on `count` threads.
template <class F>
void on_threads(unsigned count, F f) {
  std::barrier<> barrier(count);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back([&, i] { f(i, barrier); });
}

template <class Work>
void run_teams(const Work& work) {
  const auto room = std::make_unique<TeamShared<typename Work::Value, Work::matrices>>();
  on_threads(static_cast<unsigned>(work.width), [&](unsigned lane, std::barrier<>& barrier) {
    for (Index i = 0; i < work.items; ++i)
      work.body(ThreadTeam{work.width, static_cast<int>(lane), barrier}, i, Index{0},
                TeamPart<typename Work::Value, Work::matrices>{*room, work.width, 0});
  });
}
template <class Work>
void run_blocks(const Work& work) {
  const auto shared = std::make_unique<LargeShared<typename Work::Value>>();
  on_threads(block_threads, [&](unsigned thread, std::barrier<>& barrier) {
    for (Index i = 0; i < work.items; ++i) {
      work.body(ThreadBlock{thread, barrier}, i, *shared);
      barrier.arrive_and_wait();
    }
  });
}

// ---- the kernels -------------------------------------------------------------------------------

/// A dense array with a view of it.
template <class T>
struct Array {
  stave::Shape shape;
  stave::Strides strides;
  std::vector<T> numbers;
  explicit Array(const stave::Shape& of)
      : shape(of), strides(stave::contiguous_strides(of)), numbers(static_cast<std::size_t>(of.elements())) {
    std::mt19937 random(1);
    RealOf<T>* const parts = parts_of(numbers.data());
    for (std::size_t i = 0; i < numbers.size() * parts_per<T>; ++i)
      parts[i] = std::normal_distribution<RealOf<T>>()(random);
  }
  View view() { return {numbers.data(), stave::dtype_of<T>(), shape, strides}; }
  MatrixStack<T> matrices() {
    const View x = view();
    return StackPlan(x).on_host<T>();
  }
};

template <class T>
void factorize(Index m, Index n) {
  Array<T> a({2, m, n}), x({2, 32, 32}), y({2, 32, 32});
  Array<RealOf<T>> s({2, 32});
  std::vector<std::int32_t> exchanges(64), order(64);
  const int width = team_width(std::max(m, n));
  const Index k = std::min(m, n);
  run_teams(LuWork<T>{2, width, a.matrices(), x.numbers.data(), exchanges.data(), order.data()});
  if (m >= n) run_teams(QrWork<T>{2, width, a.matrices(), x.numbers.data(), y.numbers.data(), m});
  run_teams(SvdWork<T>{2, width, a.matrices(), x.numbers.data(), s.numbers.data(), y.numbers.data(), m, n, {}});
  run_teams(SvdWork<T>{2, width, a.matrices(), nullptr, s.numbers.data(), nullptr, k, k, {}});
  if (m != n) return;
  run_teams(EighWork<T>{2, width, a.matrices(), s.numbers.data(), x.numbers.data(), {}});
  run_teams(EighWork<T>{2, width, a.matrices(), s.numbers.data(), nullptr, {}});
  Array<T> positive({2, n, n});
  for (Index i = 0; i < 2 * n; ++i) positive.numbers[static_cast<std::size_t>(i * n + i % n)] += T(40);
  run_teams(CholeskyWork<T>{2, width, positive.matrices(), x.numbers.data(), {}});
  std::vector<std::int32_t> pivots(64);
  run_teams(
      DeterminantWork<T>{2, width, a.matrices(), a.numbers.data(), pivots.data(), x.numbers.data(), nullptr, nullptr});
  Array<T> b({2, n, 3});
  SubstituteWork<T> work{
      4, 2, positive.matrices(), b.matrices(), x.numbers.data(), {{true, false, true}, {false, true, false}}, 2, {},
      2, {}};
  work.width = width;
  work.groups = (3 + width - 1) / width;
  work.items = 2 * work.groups;
  run_teams(work);
  std::vector<T> room(static_cast<std::size_t>(expm_room * n * n));
  run_teams(ExpmWork<T>{2, width, a.matrices(), x.numbers.data(), room.data()});
}

template <class T>
void work_on_large(Index n) {
  Array<T> a({2, n, n});
  std::vector<int> finite(2), halvings(2);
  std::vector<RealOf<T>> factors(2);
  std::vector<T> r(static_cast<std::size_t>(2 * n * n));
  std::vector<std::int32_t> exchanges(static_cast<std::size_t>(2 * n), 1), order(exchanges);
  std::vector<double> rows(static_cast<std::size_t>(4 * n));
  T* const x = a.numbers.data();
  run_blocks(PrepareWork<T>{2, x, n, n, n * n, true, true, finite.data(), factors.data()});
  run_blocks(FinishLuWork<T>{2, n, n, x, exchanges.data(), order.data()});
  run_blocks(TakeTriangleWork<T>{2, n, n, n, x, n * n, r.data()});
  run_blocks(FinishCholeskyWork<T>{2, n, r.data(), finite.data(), finite.data(), {}});
  const Index parts = n * n * parts_per<T>;
  run_blocks(FinishWork<RealOf<T>>{
      2, {parts_of(r.data()), parts_of(x), nullptr}, {parts, parts, 0}, finite.data(), nullptr, factors.data(), {}});
  Array<T> b({2, n, n}), fourth({2, n, n}), sixth({2, n, n});
  run_blocks(
      HalveWork<T>{2, n, b.numbers.data(), fourth.numbers.data(), sixth.numbers.data(), rows.data(), halvings.data()});
}

void attend(AttentionResult result) {
  Array<double> q({1, 40, 5}), k({1, 35, 5}), v({1, 35, 40}), total({1, 40}), ct({1, 40, 40}), shift({1, 40});
  Array<double> out(result == AttentionResult::means        ? ct.shape
                    : result == AttentionResult::of_queries ? q.shape
                    : result == AttentionResult::of_keys    ? k.shape
                                                            : v.shape);
  const std::vector<View> in = result == AttentionResult::means
                                   ? std::vector{q.view(), k.view(), v.view()}
                                   : std::vector{q.view(), k.view(), v.view(), total.view(), ct.view(), shift.view()};
  const stave::AttentionAttributes attributes(0.5, true);
  AttentionArgs args = AttentionPlan(attributes, result, in, out.view()).on_host();
  args.totals = total.numbers.data();
  const auto shared = std::make_unique<AttentionShared<double>>();
  on_threads(block_threads, [&](unsigned thread, std::barrier<>& barrier) {
    attention_body<double>(ThreadBlock{thread, barrier}, args, *shared);
  });
}

}  // namespace
}  // namespace stave_cuda

int main() {
  using namespace stave_cuda;
  for (const auto& [m, n] : {std::pair<Index, Index>{1, 1}, {3, 3}, {7, 7}, {7, 4}, {4, 7}}) {
    factorize<double>(m, n);
    factorize<ComplexElement<double>>(m, n);
  }
  work_on_large<double>(33);
  work_on_large<ComplexElement<double>>(33);
  for (const int result : {0, 1, 2, 3}) attend(static_cast<AttentionResult>(result));
  std::puts("ran all");
}
