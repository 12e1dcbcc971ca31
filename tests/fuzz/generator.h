// Random programs: straight lines of operations on vectors, some of which are nests, a transform or handler or wrapper around
// a program of its own. Each row (rows.cpp) says how it runs by the library, and the plain way: derivatives by jvp along unit
// vectors, batches by loops, wrappers and handlers left out. The two must agree.
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
    kinked,  // an operation whose derivative has steps: differences say nothing of it
    parts,   // the same, which goes on by what it reads: under vmap lanes part there
    transform,
    second_order,  // the same; costs much
    carries,       // a checkpoint
    saves,         // one with a policy, within which lanes must not part
    stands,        // a checkpoint that stands still, which must not be in a controller of operations
    rule,          // a rule of one's own: what it captures must not be differentiated, so nothing in it may ask
    reads,         // the same, which reads values besides: lanes part there
    traced,        // a program of f, which must go one way at all values
    handler,
    lent,            // a handler that ends with its body, so that no checkpoint in it can run again
    ask,             // performs Ask
    catches,         // an error in some lanes, which part there; not in a handler, as those that throw
    catches_around,  // the same, of a function
    throws,  // and catches: controllers that perform an operation for the program get its errors, so not in a handler
    answer,  // answers it in f
    answer_by_asking,  // by what is answered around
  };
  using Expression = Tensor (*)(const Fn& f, const Tensor& a, const Tensor& b);
  const char* text;
  Expression library, plain;
  Kind kind;

  bool nests() const { return kind > parts && kind != ask && kind != throws && kind != catches; }
};
std::span<const Row> rows();

/// Whether, since this was last asked on this thread, some operation with kinks was computed the plain way so close to one that
/// differences may step over it.
bool take_kinks_near();

struct RandomProgram;
struct Step {
  const Row* row;
  std::size_t a, b;  // values: 0 and 1 are the arguments, then come the results
  std::shared_ptr<const RandomProgram> f;
};
/// A function of two vectors: the last step's result.
struct RandomProgram {
  std::vector<Step> steps;
};

using Random = std::mt19937_64;
inline std::size_t below(std::size_t n, Random& random) { return random() % n; }

/// `smooth`: without kinks.
RandomProgram random_program(Random& random, int depth, bool smooth);
Tensor random_vector(Random& random);

enum class Route { library, plain };
Tensor run(const RandomProgram& program, Route route, const Tensor& x, const Tensor& c);
/// A C++ expression, an Fn.
std::string to_cpp(const RandomProgram& program, int indent = 0);
/// The same as a whole program that prints both routes.
std::string to_test(const RandomProgram& program, const Tensor& x, const Tensor& c);
/// The smallest program found that still fails, by leaving out steps one after another.
RandomProgram shrunk(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails);

/// Called before each step that the library's route runs.
extern thread_local void (*before_step)();

}  // namespace stave_fuzz
