// Programs of the public suite effect-handlers-bench (https://github.com/effect-handlers/effect-handlers-bench), those that need no
// continuation twice, written anew after its descriptions. Each takes the suite's parameter and returns what the suite expects.
// effect_programs.cpp times them; effect_programs_test.cpp holds small ones to the suite's answers.
//
// What performs and what handles are functions apart, as in a program of many files: where the compiler sees both, it makes one
// loop of them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <stave/core/effects/controller.h>

namespace effect_programs {

using namespace stave;

// ---- answered in place -----------------------------------------------------------------------------------------

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

/// Counts a variable down that effects read and write.
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

/// Emits a range, and sums it.
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

/// The sum of the primes below n: each one found is a handler more.
inline std::int64_t handler_sieve(int n) {
  AllArePrime all;
  return with(all, [n] { return sum_primes(2, n, 0); });
}

// ---- left early ------------------------------------------------------------------------------------------------

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
  asm("" : "+r"(rest));  // or the compiler makes a loop of it, and there are no frames to discard
  return list->value * rest;
}

/// n times, the product of a list of 1000, 999, ... 0, which ends at the zero: a thousand calls are left.
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
/// A file of n lines, of which the i-th has i dollars.
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

/// Sums what a parser emits: the dollars in each line.
inline std::int64_t parsing_dollars(int n) {
  Sum sum;
  EndsWithAnswer at_end;
  Feed feed(n);
  with(sum, [&] { with(at_end, [&] { with(feed, parse); }); });
  return sum.total;
}

// ---- resumed ---------------------------------------------------------------------------------------------------

struct Tree {
  const Tree* subtrees;  // both
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

/// The values of a tree, one at a time.
struct Generator final : Controls<Yield> {
  int value = 0;
  Resumption<Yield> rest;
  void handle(Yield& yield, Resumption<Yield> given) override {
    value = yield.value;
    rest = std::move(given);
  }
};

/// The sum of a generator's values: those of a complete tree of height n, each node of which is of its height.
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
/// Computes with the result of the rest.
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

/// A thousand times: n effects, each answered by what the rest of the program is needed for; n resumptions are nested.
inline std::int64_t resume_nontail(int n) {
  int result = 0;
  for (int i = 0; i < 1000; ++i) {
    AfterTheRest after(result);
    with(after, [n] { operate(n); });
    result = after.result;
  }
  return result;
}

// ---- no effect at all ------------------------------------------------------------------------------------------

inline std::int64_t recursion(int n) { return n < 2 ? 1 : recursion(n - 1) + recursion(n - 2); }

/// Of what a computation's own stack costs where nothing is performed.
inline std::int64_t fibonacci_recursive(int n) {
  EndsWithAnswer idle;
  return with(idle, [n] { return recursion(n); }).value();
}

}  // namespace effect_programs
