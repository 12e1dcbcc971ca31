// Random loops: loop over states of floats, halves, integers and bools, together with captured
// values and other uses of the initial state. The compiled loop must equal the loop itself bit for
// bit: in values, first gradients, lanes, and both.
#include <mutex>
#include <sstream>

#include "options.h"
#include "vocabulary.h"

namespace {

using namespace stave_fuzz;

using Random = std::mt19937_64;
using Tensors = std::vector<Tensor>;

std::size_t below(std::size_t n, Random& random) { return random() % n; }

constexpr Dtype floats[] = {float32, float64, float16, bfloat16};
constexpr Dtype others[] = {int32, int64, bool_};

struct Leaf {
  Dtype dtype;
  bool is_vector;
  int begins_as = -1;  // index of the captured value that it begins as; -1: none
};
/// The next value of a leaf: operation `kind` of the leaf and two values, numbered with the leaves
/// first and then the captured values.
struct Operation {
  std::size_t kind, a, b;
};
/// A loop, and how its results are used.
struct Loop {
  std::vector<Leaf> leaves;  // the first leaf is a float
  std::vector<Leaf> captured;
  std::vector<Operation> next;  // one for each leaf
  Index steps, snapshots;
  bool nests, uses_begin, uses_captured, keeps_whole;
};

Loop random_loop(Random& random) {
  Loop loop;
  const auto leaf = [&](bool is_float) {
    return Leaf{is_float ? floats[below(std::size(floats), random)] : others[below(std::size(others), random)],
                below(3, random) > 0};
  };
  for (std::size_t i = 0, count = 1 + below(3, random); i < count; ++i) loop.captured.push_back(leaf(true));
  for (std::size_t i = 0, count = 1 + below(4, random); i < count; ++i) {
    Leaf next = leaf(i == 0 || below(2, random) == 0);
    for (std::size_t c = 0; c < loop.captured.size(); ++c)
      if (below(3, random) == 0 && loop.captured[c].dtype == next.dtype && loop.captured[c].is_vector == next.is_vector)
        next.begins_as = static_cast<int>(c);
    loop.leaves.push_back(next);
  }
  const std::size_t values = loop.leaves.size() + loop.captured.size();
  for (std::size_t i = 0; i < loop.leaves.size(); ++i)
    loop.next.push_back({below(6, random), below(values, random), below(values, random)});
  loop.steps = 3 + static_cast<Index>(below(8, random));
  loop.snapshots = static_cast<Index>(below(4, random));
  loop.nests = below(4, random) == 0;
  loop.uses_begin = below(2, random) == 0;
  loop.uses_captured = below(2, random) == 0;
  loop.keeps_whole = below(2, random) == 0;
  return loop;
}

Shape shape_of(const Leaf& leaf) { return leaf.is_vector ? Shape{length} : Shape{}; }

// Returns x in the leaf's dtype and shape.
Tensor fitted(const Tensor& x, const Leaf& leaf) {
  Tensor y = x;
  if (leaf.dtype == bool_ && y.dtype() != bool_) y = y > 0;
  if (y.rank() > 0 && !leaf.is_vector) y = leaf.dtype == bool_ ? any(y) : sum(y);
  if (y.dtype() != leaf.dtype) y = astype(y, leaf.dtype);
  return y.rank() == 0 && leaf.is_vector ? broadcast_to(y, {length}) : y;
}

Tensor next_float(std::size_t kind, const Tensor& x, const Tensor& a, const Tensor& b) {
  switch (kind) {
    case 0: return x * 0.5 + tanh(a) * b * 0.25;
    case 1: return tame(x + 0.1 * a * sin(x));
    case 2: return where(a > b, x * 0.9, cos(b * x));
    case 3: return tame(x - a) + 0.25 * b;
    case 4: return maximum(x * 0.75, tame(a * b)) - relu(x - b) * 0.5;
    default: return x * 0.875;
  }
}

Tensor next_integer(std::size_t kind, const Tensor& x, const Tensor& a, const Tensor& b) {
  switch (kind) {
    case 0: return remainder(x + a, 7);
    case 1: return remainder(x * 3 + b, 11) - 4;
    case 2: return where(a > b, x + 1, b);
    case 3: return maximum(x - a, b) - 2;
    default: return remainder(x + 1, 5);
  }
}

Tensor next_bool(std::size_t kind, const Tensor& x, const Tensor& a, const Tensor& b) {
  switch (kind) {
    case 0: return logical_not(x);
    case 1: return logical_xor(x, a);
    case 2: return logical_or(logical_and(x, a), b);
    default: return a == x;
  }
}

Tensors step(const Loop& loop, const Tensors& state, const Tensors& captured) {
  Tensors next;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const Leaf& leaf = loop.leaves[i];
    const auto value = [&](std::size_t v) {
      return fitted(v < state.size() ? state[v] : captured[v - state.size()], leaf);
    };
    const auto& [kind, a, b] = loop.next[i];
    if (leaf.dtype == bool_) next.push_back(next_bool(kind, state[i], value(a), value(b)));
    else if (is_float(leaf.dtype)) next.push_back(next_float(kind, state[i], value(a), value(b)));
    else next.push_back(next_integer(kind, state[i], value(a), value(b)));
  }
  return next;
}

/// Runs the loop. `given` are the captured floats and then the initial floats; `fixed` are the
/// other initial values.
Tensors run(const Loop& loop, const Tensors& given, const Tensors& fixed) {
  const Tensors captured(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(loop.captured.size()));
  Tensors begin;
  std::size_t next = captured.size(), next_fixed = 0;
  for (const Leaf& leaf : loop.leaves)
    begin.push_back(leaf.begins_as >= 0    ? captured[static_cast<std::size_t>(leaf.begins_as)]
                    : is_float(leaf.dtype) ? given[next++]
                                           : fixed[next_fixed++]);
  const LoopOptions options{.snapshots = loop.snapshots};
  const auto one = [captured, &loop](const Tensors& state) { return step(loop, state, captured); };
  const auto some = [=, &loop](const Tensors& state) {
    return stave::loop(3, one, options)(step(loop, state, captured));
  };
  Tensors results =
      loop.nests ? stave::loop(loop.steps, some, options)(begin) : stave::loop(loop.steps, one, options)(begin);
  if (loop.uses_begin)
    for (std::size_t i = 0; i < results.size(); ++i)
      if (is_float(loop.leaves[i].dtype)) results[i] = results[i] * begin[i] + begin[i];
  if (loop.uses_captured)
    for (std::size_t c = 0; c < captured.size(); ++c) results.push_back(captured[c] * captured[c]);
  return results;
}

Tensor loss(const Loop& loop, const Tensors& given, const Tensors& fixed) {
  Tensor total;
  for (const Tensor& x : run(loop, given, fixed)) {
    if (!is_float(x.dtype()) || (total.defined() && !loop.keeps_whole)) continue;
    const Tensor part = astype(sum(x * 0.75), float64);
    total = total.defined() ? total + part : part;
  }
  return total;
}

std::string text_of(const Loop& loop) {
  std::ostringstream out;
  out << loop.steps << " steps, " << loop.snapshots << " snapshots" << (loop.nests ? ", nested" : "")
      << (loop.uses_begin ? ", used again: what it begins as" : "")
      << (loop.uses_captured ? ", used again: captured" : "") << (loop.keeps_whole ? "" : ", the first state alone")
      << "\n";
  for (const Leaf& leaf : loop.captured) out << "  captured " << leaf.dtype << (leaf.is_vector ? "[3]\n" : "[]\n");
  for (std::size_t i = 0; i < loop.leaves.size(); ++i)
    out << "  state " << loop.leaves[i].dtype << (loop.leaves[i].is_vector ? "[3]" : "[]") << " begins as "
        << loop.leaves[i].begins_as << ", next " << loop.next[i].kind << " of " << loop.next[i].a << " and "
        << loop.next[i].b << "\n";
  return out.str();
}

Tensor random_tensor(const Leaf& leaf, Random& random, Index lanes) {
  Shape shape = shape_of(leaf);
  if (lanes > 0) shape.insert(shape.begin(), lanes);
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (double& value : values)
    value = is_float(leaf.dtype) ? std::uniform_real_distribution(-1.5, 1.5)(random)
                                 : static_cast<double>(below(leaf.dtype == bool_ ? 2 : 9, random));
  return astype(from(values, shape), leaf.dtype);
}

// Returns true for the same bits. Zero cotangents may differ in their sign, where a tape has no
// cotangent.
bool is_same(const Tensor& a, const Tensor& b) {
  if (stave_detail::same_bits(a, b)) return true;
  return is_float(a.dtype()) && stave_detail::same_bits(a + 0., b + 0.);
}

/// Returns "", or the differing results of f itself and of f compiled.
template <class F>
std::string wrong(const char* what, const F& f, std::span<const Tensors> points) {
  const auto compiled = compile(f);
  for (int again = 0; again < 2; ++again)
    for (const Tensors& at : points) {
      const Tensors expected = f(at);
      Tensors found;
      try {
        found = compiled(at);
      } catch (const std::exception& error) {
        return std::string(what) + " throws: " + error.what();
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (is_same(found[i], expected[i])) continue;
        std::ostringstream out;
        out << what << ": result " << i << ", compiled, is " << found[i] << ", and " << expected[i] << " by itself";
        return out.str();
      }
    }
  return "";
}

std::string wrong(const Loop& loop, Random random) {
  Tensors fixed;
  for (const Leaf& leaf : loop.leaves)
    if (!is_float(leaf.dtype)) fixed.push_back(random_tensor(leaf, random, 0));
  const auto points = [&](Index lanes) {
    std::vector<Tensors> all(2);
    for (Tensors& at : all) {
      for (const Leaf& leaf : loop.captured) at.push_back(random_tensor(leaf, random, lanes));
      for (const Leaf& leaf : loop.leaves)
        if (is_float(leaf.dtype) && leaf.begins_as < 0) at.push_back(random_tensor(leaf, random, lanes));
    }
    return all;
  };
  const std::vector<Tensors> single = points(0), many = points(4);
  const auto value = [&](const Tensors& given) { return run(loop, given, fixed); };
  const auto sum_of = [&](const Tensors& given) { return loss(loop, given, fixed); };
  const auto gradient = [&](const Tensors& given) { return grad(sum_of)(given); };
  const auto lanes = [&](const Tensors& given) { return vmap(value)(given); };
  const auto lanes_of_gradient = [&](const Tensors& given) { return vmap(gradient)(given); };
  const auto gradient_of_lanes = [&](const Tensors& given) {
    return grad([&](const Tensors& xs) { return sum(vmap(sum_of)(xs)); })(given);
  };
  std::string what = wrong("the value", value, single);
  if (what.empty()) what = wrong("the gradient", gradient, single);
  if (what.empty()) what = wrong("lanes", lanes, many);
  if (what.empty()) what = wrong("lanes of the gradient", lanes_of_gradient, many);
  if (what.empty()) what = wrong("the gradient of lanes", gradient_of_lanes, many);
  return what;
}

// Returns a simpler loop that still fails.
Loop shrunk(Loop loop, const Random& random) {
  const auto keeps_failing = [&](auto change) {
    Loop less = loop;
    change(less);
    if (!wrong(less, random).empty()) loop = std::move(less);
  };
  keeps_failing([](Loop& l) { l.nests = false; });
  keeps_failing([](Loop& l) { l.uses_begin = false; });
  keeps_failing([](Loop& l) { l.uses_captured = false; });
  keeps_failing([](Loop& l) { l.keeps_whole = true; });
  keeps_failing([](Loop& l) { l.snapshots = 0; });
  keeps_failing([](Loop& l) { l.steps = 3; });
  for (std::size_t i = 0; i < loop.leaves.size(); ++i) {
    keeps_failing([&](Loop& l) { l.next[i].kind = 5; });
    if (loop.leaves[i].begins_as < 0)
      keeps_failing([&](Loop& l) { l.leaves[i].dtype = is_float(l.leaves[i].dtype) ? float64 : int32; });
  }
  return loop;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  std::mutex printing;
  return fuzz(options, [&](std::uint64_t seed) {
    Random random(seed);
    const Loop loop = random_loop(random);
    const std::string what = wrong(loop, random);
    if (what.empty()) return true;
    const Loop least = shrunk(loop, random);
    const std::lock_guard lock(printing);
    std::printf("fuzz_loops --only %llu: %s\n%sThe least of it that fails: %s\n%s",
                static_cast<unsigned long long>(seed), what.c_str(), text_of(loop).c_str(),
                wrong(least, random).c_str(), text_of(least).c_str());
    return false;
  });
}
