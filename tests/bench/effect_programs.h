// Programs of the public suite effect-handlers-bench
// (https://github.com/effect-handlers/effect-handlers-bench): those that use each continuation at
// most once, written anew after the suite's descriptions. Each takes the suite's parameter and
// returns the suite's expected result. effect_programs.cpp measures them; effect_programs_test.cpp
// compares small sizes with the suite's answers.
//
// Performers and handlers are separate functions, as in a program of many files: where the compiler
// sees both, it turns them into one loop.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <stave/core/effects/controller.h>

namespace effect_programs {

using namespace stave;

// ---- answered in place --------------------------------------------------------------------------

struct Get {
  using Result = int;
};
struct Put {
  using Result = void;
  int value;
};
struct Variable final : Handles<Get, Put> {
  int value;
  explicit Variable(int value) : value(value) {}
  int handle(Get&) override { return value; }
  void handle(Put& put) override { value = put.value; }
};

[[gnu::noinline]] inline int count_down() {
  for (;;) {
    const int i = perform(Get());
    if (i == 0) return i;
    perform(Put{i - 1});
  }
}

/// Counts down a variable that effects read and write.
inline std::int64_t countdown(int n) {
  Variable variable(n);
  return with(variable, count_down);
}

struct Emit {
  using Result = void;
  int value;
};
struct Sum final : Handles<Emit> {
  std::int64_t total = 0;
  void handle(Emit& emit) override { total += emit.value; }
};

[[gnu::noinline]] inline void emit_up_to(int n) {
  for (int i = 0; i <= n; ++i) perform(Emit{i});
}

/// Emits a range and returns its sum.
inline std::int64_t iterator(int n) {
  Sum sum;
  with(sum, [n] { emit_up_to(n); });
  return sum.total;
}

struct IsPrime {
  using Result = bool;
  int number;
};
struct AllArePrime final : Handles<IsPrime> {
  bool handle(IsPrime&) override { return true; }
};
struct NoMultiples final : Handles<IsPrime> {
  const int prime;
  explicit NoMultiples(int prime) : prime(prime) {}
  bool handle(IsPrime& asked) override { return asked.number % prime != 0 && perform(asked); }
};

[[gnu::noinline]] inline std::int64_t sum_primes(int i, int n, std::int64_t sum) {
  while (i < n && !perform(IsPrime{i})) ++i;
  if (i >= n) return sum;
  NoMultiples sieve(i);
  return with(sieve, [&] { return sum_primes(i + 1, n, sum + i); });
}

/// Returns the sum of the primes below n; each prime found installs one more handler.
inline std::int64_t handler_sieve(int n) {
  AllArePrime all;
  return with(all, [n] { return sum_primes(2, n, 0); });
}

// ---- left early ---------------------------------------------------------------------------------

struct Stop {
  using Result = void;
  int answer;
};
struct EndsWithAnswer final : Controls<Stop> {
  int answer = 0;
  void handle(Stop& stop, Resumption<Stop> rest) override {
    answer = stop.answer;
    rest.drop();
  }
};

struct List {
  int value;
  const List* rest;
};

[[gnu::noinline]] inline void stop(int answer) { perform(Stop{answer}); }

[[gnu::noinline]] inline int product(const List* list) {
  if (!list) return 0;
  if (list->value == 0) stop(0);
  int rest = product(list->rest);
  // Keeps the compiler from making a loop of it, which would have no frames to discard.
  asm("" : "+r"(rest));
  return list->value * rest;
}

/// Computes n times the product of a list of 1000, 999, ... 0, and leaves a thousand calls at the
/// zero.
inline std::int64_t product_early(int n) {
  std::vector<List> list(1001);
  for (std::size_t i = 0; i < list.size(); ++i)
    list[i] = {1000 - static_cast<int>(i), i + 1 < list.size() ? &list[i + 1] : nullptr};
  std::int64_t sum = 0;
  for (int i = 0; i < n; ++i) {
    EndsWithAnswer early;
    sum += with(early, [&] { return product(list.data()); }).value_or(early.answer);
  }
  return sum;
}

struct Read {
  using Result = int;
};
/// A file of n lines, where line i has i dollars.
struct Feed final : Handles<Read> {
  static constexpr int newline = '\n', dollar = '$', end = 0;
  const int lines;
  int line = 0, left = 0;
  explicit Feed(int lines) : lines(lines) {}
  int handle(Read&) override {
    if (line > lines) return perform(Stop{0}), end;
    if (left == 0) return left = ++line, newline;
    return --left, dollar;
  }
};

[[gnu::noinline]] inline void parse() {
  int dollars = 0;
  for (;;) {
    const int read = perform(Read());
    if (read == Feed::dollar) {
      ++dollars;
    } else if (read == Feed::newline) {
      perform(Emit{dollars});
      dollars = 0;
    } else {
      perform(Stop{0});
    }
  }
}

/// Returns the sum of the numbers that a parser emits: the dollars in each line.
inline std::int64_t parsing_dollars(int n) {
  Sum sum;
  EndsWithAnswer at_end;
  Feed feed(n);
  with(sum, [&] { with(at_end, [&] { with(feed, parse); }); });
  return sum.total;
}

// ---- resumed ------------------------------------------------------------------------------------

struct Tree {
  const Tree* subtrees;  // both subtrees
  int value;
};
struct Yield {
  using Result = void;
  int value;
};

[[gnu::noinline]] inline void yield_all(const Tree* tree) {
  if (!tree) return;
  yield_all(tree->subtrees);
  perform(Yield{tree->value});
  yield_all(tree->subtrees);
}

/// Yields the values of a tree, one at a time.
struct Generator final : Controls<Yield> {
  int value = 0;
  Resumption<Yield> rest;
  void handle(Yield& yield, Resumption<Yield> given) override {
    value = yield.value;
    rest = std::move(given);
  }
};

/// Returns the sum of a generator's values, for a complete tree of height n whose nodes hold their
/// heights.
inline std::int64_t generator(int n) {
  std::vector<Tree> trees(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i)
    trees[static_cast<std::size_t>(i)] = {i == 0 ? nullptr : &trees[static_cast<std::size_t>(i - 1)], i + 1};
  const auto values = std::make_shared<Generator>();
  with(values, [&] { yield_all(n == 0 ? nullptr : &trees.back()); });
  std::int64_t sum = 0;
  while (values->rest) {
    sum += values->value;
    std::exchange(values->rest, {}).resume();
  }
  return sum;
}

struct Operator {
  using Result = void;
  int value;
};
/// Computes with the result of the rest of the program.
struct AfterTheRest final : Controls<Operator> {
  int result;
  explicit AfterTheRest(int result) : result(result) {}
  void handle(Operator& performed, Resumption<Operator> rest) override {
    const int x = performed.value;
    rest.resume();
    result = std::abs(x - 503 * result + 37) % 1009;
  }
};

[[gnu::noinline]] inline void operate(int n) {
  for (int i = n; i > 0; --i) perform(Operator{i});
}

/// A thousand times: performs n effects. Each handler computes its result from the result of the
/// rest of the program, so that n resumptions are nested.
inline std::int64_t resume_nontail(int n) {
  int result = 0;
  for (int i = 0; i < 1000; ++i) {
    AfterTheRest after(result);
    with(after, [n] { operate(n); });
    result = after.result;
  }
  return result;
}

// ---- no effect at all ---------------------------------------------------------------------------

inline std::int64_t recursion(int n) { return n < 2 ? 1 : recursion(n - 1) + recursion(n - 2); }

/// The cost of a computation's own stack if it performs no effect.
inline std::int64_t fibonacci_recursive(int n) {
  EndsWithAnswer idle;
  return with(idle, [n] { return recursion(n); }).value();
}

}  // namespace effect_programs
