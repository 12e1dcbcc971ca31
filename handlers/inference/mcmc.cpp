#include <stave/handlers/inference/mcmc.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <stave/core/effects/controller.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/inference/nuts.h>
#include <stave/handlers/inference/warmup.h>
#include <stave/handlers/model/report.h>

namespace stave_detail::mcmc {

namespace {

// ---- points as leaves of trees -----------------------------------------------------------

/// Returns the elements of all leaves, one leaf after the other.
Vector flat(const std::vector<Tensor>& leaves) {
  Vector all;
  for (const Tensor& leaf : leaves) {
    const Vector values = astype(to(leaf, cpu), float64).to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Copies a few numbers. Most leaves are small, and this loop is then faster than a call of
/// memmove.
void copy_few(const double* from, std::size_t count, double* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

/// Converts points to leaves: `row(i)` gives the numbers of point i, and leaf k of the result has
/// the shape `axes` followed by that of examples[k].
template <class Row>
std::vector<Tensor> leaves_of(const std::vector<Tensor>& examples, const Shape& axes, Row row) {
  const std::size_t rows = static_cast<std::size_t>(axes.elements());
  std::vector<Tensor> leaves;
  std::size_t begin = 0;
  Vector values;
  for (const Tensor& leaf : examples) {
    const std::size_t size = static_cast<std::size_t>(leaf.size());
    values.resize(rows * size);
    double* to_row = values.data();
    for (std::size_t i = 0; i < rows; ++i, to_row += size) copy_few(row(i) + begin, size, to_row);
    begin += size;
    Shape shape = axes;
    for (const Index length : leaf.shape()) shape.push_back(length);
    leaves.push_back(to(astype(from(values, shape), leaf.dtype()), leaf.device()));
  }
  return leaves;
}

// ---- many chains, one density ------------------------------------------------------------

struct SuspendedChain {
  LogDensityAt* at;
  Resumption<LogDensityAt> rest;
};

/// Suspends each chain that requests the density, and appends it to `waiting`.
struct SuspendAtDensity : Controls<LogDensityAt> {
  SuspendAtDensity(const char* by, std::vector<SuspendedChain>& waiting) : by_(by), waiting_(waiting) {}
  void handle(LogDensityAt& at, Resumption<LogDensityAt> rest) override { waiting_.push_back({&at, std::move(rest)}); }
  std::string describe() const override { return by_; }

 private:
  const char* const by_;
  std::vector<SuspendedChain>& waiting_;
};

/// Computes the density for all suspended chains in one batch, and resumes the chains. Copies of
/// the first point fill the batch up to a power of two, so that batches have few different shapes.
void answer(std::vector<SuspendedChain>& waiting, const DensityOfRows& density, const std::vector<Tensor>& examples) {
  std::size_t rows = 1;
  while (rows < waiting.size()) rows *= 2;
  const auto row = [&](std::size_t i) { return waiting[i < waiting.size() ? i : 0].at->point.data(); };
  const Outputs outputs = density(leaves_of(examples, {static_cast<Index>(rows)}, row));
  const auto on_host = [](const Tensor& x) { return contiguous(astype(to(x, cpu), float64)); };
  std::size_t begin = 0;
  for (std::size_t leaf = 0; leaf < examples.size(); ++leaf) {
    const Tensor gradients = on_host(outputs[leaf + 1]);
    const std::size_t size = static_cast<std::size_t>(examples[leaf].size());
    const double* next = gradients.data<double>().data();
    for (SuspendedChain& one : waiting) {
      copy_few(next, size, one.at->gradient.data() + begin);
      next += size;
    }
    begin += size;
  }
  const Tensor values = on_host(outputs[0]);
  const double* value = values.data<double>().data();
  for (SuspendedChain& one : waiting) one.rest.resume(*value++);
}

// ---- a chain -----------------------------------------------------------------------------

/// The results of one chain, draw by draw.
struct Trace {
  Vector draws, log_density, accept_rate, variance;
  std::vector<std::int32_t> steps, depth;
  std::vector<std::uint8_t> diverged;
  double step_size = 0;
};

struct Settings {
  const char* by;
  const NutsOptions& options;
  std::optional<Trajectories> hmc;
  const Vector& start;
  // The number of transitions made so far, by all threads.
  std::atomic<long>& transitions;
  const long all_transitions = options.chains * (options.warmup + options.draws);
};

PointPtr first_point(const Settings& settings, Index chain, PointPool& points, RandomNumbers& random) {
  constexpr int attempts = 100;
  const double spread = settings.options.spread;
  const IntrusivePtr<Point> point = points.make();
  const std::span<double> q = point->q(), gradient = point->gradient();
  for (int i = 0; i < (spread > 0 ? attempts : 1); ++i) {
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = settings.start[k] + spread * (2 * random.uniform() - 1);
    point->log_density = perform(LogDensityAt{q, gradient});
    const bool smooth = std::all_of(gradient.begin(), gradient.end(), [](double g) { return std::isfinite(g); });
    if (std::isfinite(point->log_density) && smooth) return point;
  }
  // Printing NaN shows its sign; the absolute value removes it.
  const double found = point->log_density, value = std::isnan(found) ? std::abs(found) : found;
  const char* what = std::isfinite(value) ? "its gradient is not finite" : "it is not finite";
  if (spread > 0)
    fail<Error>("{}: the log density is {} where chain {} begins, after {} attempts within {} of the start: {}",
                settings.by, value, chain, attempts, spread, what);
  fail<Error>("{}: the log density is {} at the start of chain {}: {}", settings.by, value, chain, what);
}

Trace run_chain(const Settings& settings, Index chain, const Key& key) {
  const NutsOptions& options = settings.options;
  RandomNumbers random(fold_in(key, static_cast<std::uint32_t>(chain)));
  PointPool points(settings.start.size());
  Hamiltonian dynamics(points, settings.start.size());
  const auto transition = [&](const Point& from) {
    settings.transitions.fetch_add(1, std::memory_order_relaxed);
    return settings.hmc ? hmc_transition(dynamics, from, settings.hmc->length, settings.hmc->max_steps, random)
                        : nuts_transition(dynamics, from, options.max_depth, random);
  };
  PointPtr at = warm_up(options.warmup, options.target_accept, first_point(settings, chain, points, random), dynamics,
                        random, transition);
  Trace trace;
  trace.draws.reserve(static_cast<std::size_t>(options.draws) * settings.start.size());
  for (Index draw = 0; draw < options.draws; ++draw) {
    Transition made = transition(*at);
    at = std::move(made.to);
    trace.draws.insert(trace.draws.end(), at->q().begin(), at->q().end());
    trace.log_density.push_back(at->log_density);
    trace.accept_rate.push_back(made.accept_rate);
    trace.steps.push_back(made.steps);
    trace.depth.push_back(made.depth);
    trace.diverged.push_back(made.diverged);
  }
  trace.step_size = dynamics.step_size;
  trace.variance = std::move(dynamics.variance);
  return trace;
}

/// Runs the chains `first`, `first` + 1 ... on this thread, one for each entry of `traces`.
void run_chains(const Settings& settings, const DensityOfRows& density, const std::vector<Tensor>& examples,
                const Key& key, Index first, std::span<Trace> traces) {
  std::vector<Eventual<Trace>> ends;
  std::vector<SuspendedChain> waiting, answered;
  const auto suspend_at_density = std::make_shared<SuspendAtDensity>(settings.by, waiting);
  for (std::size_t i = 0; i < traces.size(); ++i)
    ends.push_back(with(suspend_at_density, [&settings, &key, chain = first + static_cast<Index>(i)] {
      return run_chain(settings, chain, key);
    }));
  while (!waiting.empty()) {
    answered.clear();
    std::swap(waiting, answered);
    answer(answered, density, examples);
    // The caller's handlers are installed on the caller's thread only, so progress reports of other
    // threads reach no handler.
    if (const long made = settings.transitions; made < settings.all_transitions)
      progress(made, settings.all_transitions);
  }
  for (std::size_t i = 0; i < traces.size(); ++i) traces[i] = std::move(ends[i].value());
}

/// Runs all chains, divided among threads; the current thread is one of them.
std::vector<Trace> run_all_chains(const Settings& settings, const DensityOfRows& density,
                                  const std::vector<Tensor>& examples, const Key& key) {
  const Index chains = settings.options.chains, threads = std::min<Index>(settings.options.threads, chains);
  std::vector<Trace> traces(static_cast<std::size_t>(chains));
  const auto run_share = [&](Index share) {
    const Index begin = chains * share / threads, end = chains * (share + 1) / threads;
    run_chains(settings, density, examples, key, settings.options.first_chain + begin,
               std::span(traces).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  };
  // The exceptions of the threads. CMakeLists.txt gives the reason why std::future is not used.
  std::vector<std::exception_ptr> faults(static_cast<std::size_t>(threads));
  const auto run_apart = [&](Index share) {
    try {
      run_share(share);
    } catch (...) {
      faults[static_cast<std::size_t>(share)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (Index share = 1; share < threads; ++share) others.emplace_back(run_apart, share);
    run_share(0);
  }  // All threads have ended here.
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
  progress(settings.all_transitions, settings.all_transitions);
  return traces;
}

// ---- the results of all chains -----------------------------------------------------------

template <class T>
Tensor joined(const std::vector<Trace>& traces, std::vector<T> Trace::*member, Index draws) {
  std::vector<T> all;
  for (const Trace& trace : traces) all.insert(all.end(), (trace.*member).begin(), (trace.*member).end());
  return from(all, {static_cast<Index>(traces.size()), draws});
}

SampledLeaves leaves_of(const std::vector<Trace>& traces, const std::vector<Tensor>& examples, Index draws) {
  const Index chains = static_cast<Index>(traces.size());
  const std::size_t count = static_cast<std::size_t>(draws), size = traces[0].variance.size();
  Vector step_sizes;
  for (const Trace& trace : traces) step_sizes.push_back(trace.step_size);
  const auto draw = [&](std::size_t i) { return traces[i / count].draws.data() + i % count * size; };
  const auto variance = [&](std::size_t i) { return traces[i].variance.data(); };
  return {leaves_of(examples, {chains, draws}, draw),
          leaves_of(examples, {chains}, variance),
          joined(traces, &Trace::log_density, draws),
          joined(traces, &Trace::accept_rate, draws),
          joined(traces, &Trace::steps, draws),
          joined(traces, &Trace::depth, draws),
          astype(joined(traces, &Trace::diverged, draws), bool_),
          from(step_sizes)};
}

void check_options(const char* by, const NutsOptions& options, const std::optional<Trajectories>& hmc) {
  if (options.chains < 1) fail<Error>("{}: {} chains: there must be at least 1", by, options.chains);
  if (options.draws < 1) fail<Error>("{}: {} draws: there must be at least 1", by, options.draws);
  if (options.threads < 1) fail<Error>("{}: {} threads: there must be at least 1", by, options.threads);
  if (options.warmup < 0)
    fail<Error>("{}: the warm-up has {} draws: the number must not be negative", by, options.warmup);
  if (!(options.target_accept > 0 && options.target_accept < 1))
    fail<Error>("{}: the target of the acceptance rate is {}; it must lie between 0 and 1", by, options.target_accept);
  if (options.max_depth < 1 || options.max_depth > 30)
    fail<Error>("{}: the maximal depth is {}; it must lie between 1 and 30", by, options.max_depth);
  if (hmc && !(hmc->length > 0 && std::isfinite(hmc->length) && hmc->max_steps > 0))
    fail<Error>("{}: trajectories have length {}, and at most {} steps; both must be positive numbers", by, hmc->length,
                hmc->max_steps);
  if (!(options.spread >= 0 && std::isfinite(options.spread)))
    fail<Error>("{}: the spread is {}; it must be a number that is not negative", by, options.spread);
  if (options.first_chain < 0)
    fail<Error>("{}: the first chain is {}; it must not be negative", by, options.first_chain);
}

}  // namespace

}  // namespace stave_detail::mcmc

namespace stave_detail {

void check_log_density(const char* by, const Tensor& value) {
  if (value.rank() != 0)
    fail<ShapeError>("{}: the log density has shape {}; it must be one number: sum it", by, value.shape());
  if (!is_float(value.dtype()))
    fail<DtypeError>("{}: the log density is {}; it must be of a floating dtype", by, value.dtype());
}

Index count_true(const Tensor& x) { return sum(astype(x, int64)).item<Index>(); }

SampledLeaves sample_chains(const char* by, const DensityOfRows& density, const std::vector<Tensor>& start,
                            const Key& key, const NutsOptions& options, std::optional<Trajectories> hmc) {
  using namespace mcmc;
  check_options(by, options, hmc);
  for (const Tensor& leaf : start)
    if (!is_float(leaf.dtype()))
      fail<DtypeError>("{}: the start holds {}: convert it to floats with astype", by, leaf.dtype());
  const Vector flat_start = flat(start);
  if (flat_start.empty()) fail<ShapeError>("{}: the start has no elements", by);
  for (const double number : flat_start)
    if (!std::isfinite(number)) fail<Error>("{}: the start has an element that is {}", by, number);
  std::atomic<long> transitions = 0;
  const std::vector<Trace> traces = run_all_chains({by, options, hmc, flat_start, transitions}, density, start, key);
  return leaves_of(traces, start, options.draws);
}

}  // namespace stave_detail
