// Random programs: the library's values against the same computed the plain way, and derivatives
// against finite differences. Afterwards no handler is installed, no value has notes, and all
// memory is free.
#include <cmath>
#include <mutex>
#include <optional>
#include <sstream>

#include "generator.h"
#include "options.h"

namespace {

using namespace stave_fuzz;

std::string text(const Tensor& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

// Returns the derivative by Richardson's extrapolation; nullopt if steps of two sizes disagree
// because f is too steep for differences.
std::optional<Tensor> difference(const Fn1& f, const Tensor& x, const Tensor& v) {
  const auto central = [&](double h) { return (f(x + v * h) - f(x - v * h)) / (2 * h); };
  const Tensor coarse = central(2e-4), fine = central(1e-4);
  if (!allclose(coarse, fine, 1e-4, 1e-6)) return std::nullopt;
  return (4 * fine - coarse) / 3;
}

/// Returns true if the plain value decides nothing, because rounding or the step of the differences
/// matters: at a pole, or at a sort or maximum of nearly equal values.
bool is_unsure(const RandomProgram& program, const Tensor& x, const Tensor& c, const Tensor& plain) {
  take_kinks_near();
  static_cast<void>(run(program, Route::plain, x, c));
  if (take_kinks_near()) return true;
  for (int i = 1; i <= 8; ++i)
    if (!allclose(run(program, Route::plain, x * (1 + i * 1e-13), c), plain, 1e-7, 1e-10)) return true;
  return false;
}

/// Returns the error; "" if there is none.
std::string wrong_value(const RandomProgram& program, const Tensor& x, const Tensor& c) {
  const Tensor plain = run(program, Route::plain, x, c);
  if (!all(isfinite(plain)).item<bool>()) return "";
  const Tensor value = run(program, Route::library, x, c);
  if (!allclose(value, plain, 1e-6, 1e-9) && !is_unsure(program, x, c, plain))
    return "the value is " + text(value) + ", and " + text(plain) + " the plain way";
  return "";
}

std::string wrong_derivative(const RandomProgram& program, const Tensor& x, const Tensor& c) {
  const auto by = [&](Route route) { return Fn1([&, route](const Tensor& y) { return run(program, route, y, c); }); };
  const std::optional<Tensor> expected = difference(by(Route::plain), x, c);
  if (!expected || !all(isfinite(*expected)).item<bool>()) return "";
  const Tensor forward = jvp(by(Route::library), x, c).second;
  if (!allclose(forward, *expected, 1e-3, 1e-5))
    return "the derivative along c is " + text(forward) + " by jvp, and " + text(*expected) + " by differences";
  const Tensor reverse = sum(grad([&](const Tensor& y) { return sum(run(program, Route::library, y, c)); })(x) * c);
  if (!allclose(reverse, sum(*expected), 1e-3, 1e-5))
    return "the sum's derivative along c is " + text(reverse) + " by grad, and " + text(sum(*expected)) +
           " by differences";
  return "";
}

std::string wrong_replay(const RandomProgram& program, const Tensor& x, const Tensor& c, bool smooth) {
  const auto f = [&](const Tensor& y) { return run(program, Route::library, y, c); };
  const auto compiled = compile(f);
  // Second derivatives of loops are summed in another order. So are derivatives of compiled
  // functions inside the program, for which f itself is called.
  const std::string code = to_cpp(program);
  const bool rounds = code.find("loop(3") != std::string::npos || code.find("compile(f)") != std::string::npos;
  const auto wrong_at = [&](const Tensor& at) -> std::string {
    const Tensor expected = f(at), found = compiled(at);
    if (all(isfinite(expected)).item<bool>() &&
        !(rounds ? allclose(found, expected, 1e-9, 1e-12) : array_equal(found, expected)))
      return "compiled, it gives " + text(found) + ", and itself " + text(expected);
    if (!smooth) return "";
    const auto along = [&](const auto& g) { return jvp(g, std::tuple(at), std::tuple(c)).second; };
    const auto by_grad = [&](const auto& g) { return grad([&](const Tensor& y) { return sum(g(y)); })(at); };
    for (const auto& [mine, its] : {std::pair(along(compiled), along(f)), std::pair(by_grad(compiled), by_grad(f))})
      if (all(isfinite(its)).item<bool>() && !allclose(mine, its, 1e-6, 1e-9))
        return "compiled, its derivative is " + text(mine) + ", and by itself " + text(its);
    return "";
  };
  for (const Tensor& at : {x, x, x * 1.25, x}) {
    // Answers effects that no handler inside answers.
    Answers answers(tame(at + c));
    if (std::string what = with(answers, [&] { return wrong_at(at); }); !what.empty()) return what;
  }
  return "";
}

std::string left_behind(const Tensor& x, const Tensor& c) {
  if (const std::string handlers = current_handlers(); !handlers.empty())
    return "these handlers still stand: " + handlers;
  if (live_notes(x) + live_notes(c) > 0) return "an argument is still annotated";
  return "";
}

std::string wrong(const RandomProgram& program, const Tensor& x, const Tensor& c, bool smooth, bool alone) {
  try {
    const std::size_t before = memory_stats().live_bytes;
    std::string what = wrong_value(program, x, c);
    if (what.empty() && smooth) what = wrong_derivative(program, x, c);
    if (what.empty()) what = wrong_replay(program, x, c, smooth);
    if (what.empty()) what = left_behind(x, c);
    if (what.empty() && alone && memory_stats().live_bytes != before) what = "tensors are left in memory";
    return what;
  } catch (const std::exception& error) {
    // A documented error.
    if (is_of_halving(error.what()) && to_cpp(program).find("Halves") != std::string::npos) return "";
    return std::string("it throws: ") + error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv);
  static const Tensor shared = tensor({0.4, -0.7, 1.1}, float64);  // used by all threads
  std::mutex printing;
  return fuzz(options, [&](std::uint64_t seed) {
    Random random(seed);
    const bool smooth = below(2, random) == 0, alone = options.threads == 1;
    const RandomProgram program = random_program(random, 1 + static_cast<int>(below(3, random)), smooth);
    const Tensor x = random_vector(random), c = below(2, random) ? shared : random_vector(random);
    const std::string what = wrong(program, x, c, smooth, alone);
    if (what.empty()) return true;
    const RandomProgram least =
        shrunk(program, [&](const RandomProgram& p) { return !wrong(p, x, c, smooth, alone).empty(); });
    const std::lock_guard lock(printing);
    std::printf("fuzz_programs --only %llu: %s\nThe least of it that fails: %s\n%s",
                static_cast<unsigned long long>(seed), what.c_str(), wrong(least, x, c, smooth, alone).c_str(),
                to_test(least, x, c).c_str());
    return false;
  });
}
