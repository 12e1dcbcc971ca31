// Faults injected into random programs, one run for each place: user code throws before step n; a
// handler around the program throws at operation n; a controller drops the program there; the n-th
// allocation on the C++ heap fails; the n-th allocation of tensor memory fails. Each time the fault
// comes out unchanged, nothing of the run is left (handlers, notes, memory), and the program works
// as before.
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>

#include "separate_backend.h"

#include "generator.h"
#include "options.h"

namespace {

// A count of this thread, which triggers its fault when it has counted down to 0.
struct Countdown {
  long left = -1;  // below 0: no fault
  long met = 0;
  bool hit() {
    ++met;
    return left >= 0 && left-- == 0;
  }
};
thread_local Countdown steps, operations, drops, news, storages;
thread_local bool counting = false;    // true while a program runs
thread_local bool controlled = false;  // true: it runs under a controller
// true: it cancels other computations, in which a fault is lost
thread_local bool cancels = false;
std::atomic<long> live_news = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting && news.hit()) throw std::bad_alloc();
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes ? bytes : 1)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!memory) throw std::bad_alloc();
  ++live_news;
  return memory;
}
void release(void* memory) noexcept {
  if (memory) --live_news;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace {

using namespace stave_fuzz;

struct Fault {};

struct ThrowsAtOperation : Handler {
  Outputs handle(Call& call) override {
    if (operations.hit()) throw Fault();
    return perform(std::move(call));
  }
};

struct Dropped {};

struct DropsAtOperation : Controller {
  void handle(Call& call, Resumption<Call> rest) override {
    if (drops.hit()) return rest.drop();
    Outputs outputs;
    try {
      outputs = perform(std::move(call));
    } catch (const Cancelled&) {
      throw;
    } catch (...) {  // the program may catch it
      return rest.resume_throwing(std::current_exception());
    }
    rest.resume_last(std::move(outputs));
  }
};

/// A device whose memory can run out.
class Scarce final : public stave_test::SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;
  Storage* allocate(std::size_t bytes) override {
    if (counting && storages.hit()) throw std::bad_alloc();
    return SeparateBackend::allocate(bytes);
  }
};

struct Kind {
  const char* name;
  Countdown& count;
};

// Returns the value of one run, and counts the places where faults can be injected.
Tensor run_counted(const RandomProgram& program, const Tensor& x, const Tensor& c) {
  struct WhileItRuns {
    WhileItRuns() {
      steps.met = operations.met = drops.met = news.met = storages.met = 0;
      before_step = [] {
        if (steps.hit()) throw Fault();
      };
      counting = true;
    }
    ~WhileItRuns() {
      counting = false;
      before_step = nullptr;
      steps.left = operations.left = drops.left = news.left = storages.left = -1;
    }
  } while_it_runs;
  const auto handler = std::make_shared<ThrowsAtOperation>();
  const auto body = [&] { return run(program, Route::library, x, c); };
  return with(handler, [&] {
    if (!controlled) return body();
    const std::optional<Tensor> value = with(std::make_shared<DropsAtOperation>(), body);
    return value ? *value : throw Dropped();
  });
}

/// Returns the error after fault n of a kind; "" if there is none.
std::string wrong_after(const Kind& kind, long n, const RandomProgram& program, const Tensor& x, const Tensor& c,
                        const Tensor& value) {
  const std::size_t before = memory_stats(place).live_bytes;
  bool came = false;
  std::string other;
  const bool no_memory = &kind.count == &news || &kind.count == &storages;
  kind.count.left = n;
  try {
    run_counted(program, x, c);
    came = cancels;
  } catch (const Fault&) {
    came = !no_memory && &kind.count != &drops;
  } catch (const Dropped&) {
    came = &kind.count == &drops;
  } catch (const std::bad_alloc&) {
    came = no_memory;
  } catch (const std::exception& error) {
    came = no_memory && std::string_view(error.what()).find("not enough memory") != std::string_view::npos;
    other = std::string(": ") + error.what();
  }
  if (!came) return "it does not come out" + other;
  if (const std::string handlers = current_handlers(); !handlers.empty())
    return "these handlers still stand: " + handlers;
  if (live_notes(x) + live_notes(c) > 0) return "an argument is still annotated";
  if (memory_stats(place).live_bytes != before) return "tensors are left in memory";
  if (!array_equal(run_counted(program, x, c), value)) return "the program gives another value afterwards";
  return "";
}

// Places of each kind in a program. If there are more, a random choice of them.
constexpr long most_places = 200;

std::string wrong(const RandomProgram& program, const Tensor& x, const Tensor& c, Random random) {
  const Tensor value = run_counted(program, x, c);
  const Kind kinds[] = {
      {"step", steps}, {"operation", operations}, {"drop", drops}, {"new", news}, {"storage", storages}};
  for (const Kind& kind : kinds) {
    const long places = kind.count.met;
    for (long i = 0; i < std::min(places, most_places); ++i) {
      const long n = places <= most_places ? i : static_cast<long>(below(static_cast<std::size_t>(places), random));
      run_counted(program, x, c);  // so that the caches are in the same state each time
      const std::string what = wrong_after(kind, n, program, x, c, value);
      if (!what.empty()) return "after a fault at " + std::string(kind.name) + " " + std::to_string(n) + ", " + what;
    }
  }
  return "";
}

std::string wrong_or_leaks(const RandomProgram& program, const Tensor& x, const Tensor& c, std::uint64_t seed) {
  std::string what = wrong(program, x, c, Random(seed));
  const long before = live_news;
  if (what.empty()) what = wrong(program, x, c, Random(seed));
  if (const long more = live_news - before; what.empty() && more > 20)
    what = std::to_string(more) + " blocks more on the heap after the same faults again";
  return what;
}

// Returns true for a documented error: a handler computes with values that a transform inside it
// differentiates.
bool is_refused(const RandomProgram& program, const Tensor& x, const Tensor& c) {
  try {
    static_cast<void>(run(program, Route::library, x, c));
    return false;
  } catch (const TransformError& error) {
    return is_of_halving(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  Scarce device(0);
  return fuzz(options, [&](std::uint64_t seed) {
    Random random(seed);
    place = below(2, random) ? cuda(0) : cpu;
    const RandomProgram program = random_program(random, 1 + static_cast<int>(below(2, random)), false);
    // A computation suspended in a checkpoint must not be under a controller of operations.
    const std::string text = to_cpp(program);
    const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
    const bool stands = has("paused(") || has("dropped(");
    controlled = below(2, random) == 0 && !stands;
    // vmap finds the lanes of an error by trial runs. A pause in such a run suspends the error as
    // well, and is dropped.
    const bool drops_trials = has("dropped(") && (has("vmap(") || has("hessian(") || has("jac"));
    // A rule is recorded by a trial, too: one that throws is called as a function from then on.
    const bool records_rules = (has("custom_vjp(") || has("custom_jvp(")) && (has("trace(") || has("compile("));
    cancels = has("outrun(") || drops_trials || records_rules;
    const Tensor x = random_vector(random), c = random_vector(random);
    if (has("Halves") && is_refused(program, x, c)) return true;
    const std::string what = wrong_or_leaks(program, x, c, seed);
    if (what.empty()) return true;
    std::printf("fuzz_faults --only %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
    const RandomProgram least = shrunk(program, [&](const RandomProgram& p) {
      return !is_refused(p, x, c) && !wrong_or_leaks(p, x, c, seed).empty();
    });
    std::printf("The least of it that fails: %s\n%s", wrong_or_leaks(least, x, c, seed).c_str(),
                to_test(least, x, c).c_str());
    return false;
  });
}
