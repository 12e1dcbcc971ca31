// Random programs: sequences of operations on vectors. Some steps are nests: a transform, handler
// or wrapper around a program of its own. Each row (rows.cpp) has two expressions: one by the
// library, and one the plain way, with derivatives by jvp along unit vectors, batches by loops, and
// without wrappers and handlers. Both must agree.
#pragma once

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "vocabulary.h"

namespace stave_fuzz {

struct Row {
  enum Kind {
    operation,
    // An operation whose derivative has steps, so that differences are no reference for it.
    kinked,
    // An operation with such steps that branches on a value it reads: under vmap lanes split there.
    parts,
    transform,
    second_order,  // a transform that is expensive
    carries,       // a checkpoint
    saves,         // a checkpoint with a policy, within which lanes must not split
    // A checkpoint that is suspended, which must not be in a controller of operations.
    stands,
    // A custom rule: its captures must not be differentiated, so no effect may be performed in it.
    rule,
    reads,   // a custom rule that also reads values: lanes split there
    traced,  // a program recorded from f, which must take one path for all values
    handler,
    lent,  // a handler that ends with its body, so that no checkpoint in it can run again
    ask,   // performs Ask
    // Catches an error of some lanes, which split there; must not be in a handler, like `throws`.
    catches,
    catches_around,  // catches such an error of a function
    // Throws and catches. A controller that performs operations for the program gets their errors,
    // so it must not be in a handler.
    throws,
    answer,            // answers Ask in f
    answer_by_asking,  // answers Ask by the answer of an outer handler
  };
  using Expression = Tensor (*)(const Fn& f, const Tensor& a, const Tensor& b);
  const char* text;
  Expression library, plain;
  Kind kind;

  bool nests() const { return kind > parts && kind != ask && kind != throws && kind != catches; }
};
std::span<const Row> rows();

/// Returns true if, since the last call on this thread, the plain route computed an operation so
/// close to a kink that differences may step over it.
bool take_kinks_near();

struct RandomProgram;
struct Step {
  const Row* row;
  std::size_t a, b;  // values: 0 and 1 are the arguments, followed by the results of the steps
  std::shared_ptr<const RandomProgram> f;
};
/// A function of two vectors. Its value is the last step's result.
struct RandomProgram {
  std::vector<Step> steps;
};

using Random = std::mt19937_64;
inline std::size_t below(std::size_t n, Random& random) { return random() % n; }

/// Returns a random program; `smooth`: without kinks.
RandomProgram random_program(Random& random, int depth, bool smooth);
Tensor random_vector(Random& random);

enum class Route { library, plain };
Tensor run(const RandomProgram& program, Route route, const Tensor& x, const Tensor& c);
/// Returns a C++ expression for the program, as an Fn.
std::string to_cpp(const RandomProgram& program, int indent = 0);
/// Returns a whole C++ program that prints the values of both routes.
std::string to_test(const RandomProgram& program, const Tensor& x, const Tensor& c);
/// Returns the smallest program found that still fails, by leaving out steps one after another.
RandomProgram shrunk(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

/// Called before each step of the library's route.
extern thread_local void (*before_step)();

}  // namespace stave_fuzz
