#include "generator.h"

#include <algorithm>
#include <sstream>

namespace stave_fuzz {

thread_local void (*before_step)() = nullptr;

// ---- generating ---------------------------------------------------------------------------------

namespace {

// The steps that are allowed at a place in a program.
struct Place {
  int depth;         // how many more nests may be inside one another
  int second_order;  // the same, for expensive nests
  bool smooth, asks, carries, catches;
  bool answered = false;  // true inside a handler of Ask
  bool parts = true;      // true: lanes may split
};

const Row& random_row_of(Row::Kind kind, Random& random) {
  for (;;)
    if (const Row& row = rows()[below(rows().size(), random)]; row.kind == kind) return row;
}

bool may_stand(const Row& row, const Place& place) {
  switch (row.kind) {
    case Row::operation: return true;
    case Row::kinked: return !place.smooth;
    case Row::parts: return !place.smooth && place.parts;
    case Row::ask: return place.asks;
    case Row::throws: return place.catches;
    case Row::catches: return place.catches && place.parts && !place.smooth;
    case Row::catches_around: return place.catches && place.parts && !place.smooth && place.depth > 0 && place.carries;
    case Row::answer_by_asking: return place.depth > 0 && place.asks;
    case Row::second_order: return place.depth > 0 && place.second_order > 0;
    case Row::stands: return place.depth > 0 && place.carries && place.catches;
    case Row::carries:
    case Row::saves:
    case Row::traced:
    case Row::rule: return place.depth > 0 && place.carries;
    case Row::reads: return place.depth > 0 && place.carries && place.parts;
    default: return place.depth > 0;
  }
}

const Row& random_row(Random& random, const Place& place) {
  // A kind is chosen as often as it occurs here. Most errors occur where a few kinds combine.
  static constexpr Row::Kind nests[] = {
      Row::transform, Row::transform, Row::transform, Row::transform,      Row::second_order, Row::carries,
      Row::saves,     Row::rule,      Row::rule,      Row::catches_around, Row::reads,        Row::traced,
      Row::traced,    Row::stands,    Row::handler,   Row::lent,           Row::answer,       Row::answer_by_asking};
  static constexpr Row::Kind operations[] = {Row::operation, Row::operation, Row::operation, Row::operation,
                                             Row::operation, Row::operation, Row::kinked,    Row::parts,
                                             Row::throws,    Row::catches};
  if (place.answered && place.asks && below(6, random) == 0) return random_row_of(Row::ask, random);
  const bool nest = place.depth > 0 && below(2, random) == 0;
  for (;;) {
    const Row::Kind kind =
        nest ? nests[below(std::size(nests), random)] : operations[below(std::size(operations), random)];
    if (const Row& row = random_row_of(kind, random); may_stand(row, place)) return row;
  }
}

Place inside(const Row& row, Place place) {
  --place.depth;
  if (row.kind == Row::second_order) --place.second_order;
  if (row.kind == Row::lent) place.carries = false;
  if (row.kind == Row::saves) place.parts = false;
  if (row.kind == Row::handler || row.kind == Row::lent) place.catches = false;
  if (row.kind == Row::answer || row.kind == Row::answer_by_asking) place.asks = place.answered = true;
  if (row.kind == Row::rule || row.kind == Row::reads || row.kind == Row::traced) place.asks = false;
  if (row.kind == Row::traced) place.parts = place.catches = false;
  return place;
}

RandomProgram make(Random& random, const Place& place) {
  RandomProgram program;
  for (std::size_t i = 0, count = 1 + below(4, random); i < count; ++i) {
    const Row& row = random_row(random, place);
    const std::size_t values = i + 2;
    // The first operand is the last value, so that the result depends on every step.
    Step step{&row, i > 0 ? values - 1 : below(values, random), below(values, random), nullptr};
    if (row.nests()) step.f = std::make_shared<RandomProgram>(make(random, inside(row, place)));
    program.steps.push_back(std::move(step));
  }
  return program;
}

constexpr Place everywhere(int depth, bool smooth) { return {depth, 1, smooth, true, true, true}; }

// Shrinking may move steps to places where they are not allowed.
bool is_legal(const RandomProgram& program, const Place& place) {
  return std::all_of(program.steps.begin(), program.steps.end(), [&](const Step& step) {
    return may_stand(*step.row, place) && (!step.f || is_legal(*step.f, inside(*step.row, place)));
  });
}

}  // namespace

RandomProgram random_program(Random& random, int depth, bool smooth) {
  for (;;) {
    RandomProgram program = make(random, everywhere(depth, smooth));
    if (depth == 0 || std::any_of(program.steps.begin(), program.steps.end(), [](const Step& step) { return step.f; }))
      return program;
  }
}

Tensor random_vector(Random& random) {
  std::vector<double> values(length);
  for (double& value : values) value = std::uniform_real_distribution(-1.5, 1.5)(random);
  return from(values, place);
}

// ---- running ------------------------------------------------------------------------------------

Tensor run(const RandomProgram& program, Route route, const Tensor& x, const Tensor& c) {
  std::vector<Tensor> values{x, c};
  for (const Step& step : program.steps) {
    if (route == Route::library && before_step) before_step();
    // A pullback or a backward pass may keep f, so f owns its program.
    const Fn f = [route, of = step.f](const Tensor& a, const Tensor& b) { return run(*of, route, a, b); };
    const Row::Expression expression = route == Route::library ? step.row->library : step.row->plain;
    values.push_back(expression(f, values[step.a], values[step.b]));
  }
  return values.back();
}

// ---- printing -----------------------------------------------------------------------------------

std::string to_cpp(const RandomProgram& program, int indent) {
  const std::string margin(static_cast<std::size_t>(indent) + 2, ' ');
  std::ostringstream out;
  out << "[](const Tensor& v0, const Tensor& v1) -> Tensor {\n";
  std::size_t i = 2;
  for (const Step& step : program.steps) {
    out << margin << "const Tensor v" << i << " = [](const Fn& f, const Tensor& a, const Tensor& b) -> Tensor { return "
        << step.row->text << "; }(" << (step.f ? to_cpp(*step.f, indent + 2) : "Fn()") << ", v" << step.a << ", v"
        << step.b << ");\n";
    ++i;
  }
  out << margin << "return v" << i - 1 << ";\n" << margin.substr(2) << "}";
  return out.str();
}

std::string to_test(const RandomProgram& program, const Tensor& x, const Tensor& c) {
  std::ostringstream out;
  out.precision(17);
  const auto vector = [&](const Tensor& of) {
    const std::vector<double> values = of.to_vector<double>();
    out << "tensor({" << values[0] << ", " << values[1] << ", " << values[2] << "}, float64)";
  };
  out << "// g++ -std=c++20 -I build/dev/include -I tests/fuzz\n#include <iostream>\n#include \"vocabulary.h\"\n"
      << "using namespace stave_fuzz;\nint main() {\n  const Fn f = " << to_cpp(program, 2) << ";\n  std::cout << f(";
  vector(x);
  out << ", ";
  vector(c);
  out << ") << \"\\n\";  // " << run(program, Route::plain, x, c) << " the plain way\n}\n";
  return out.str();
}

// ---- shrinking ----------------------------------------------------------------------------------

namespace {

// Returns the program without step i; its result is replaced by its first operand.
RandomProgram without(const RandomProgram& program, std::size_t i) {
  RandomProgram result;
  const std::size_t gone = i + 2;
  for (std::size_t j = 0; j < program.steps.size(); ++j) {
    Step step = program.steps[j];
    for (std::size_t* operand : {&step.a, &step.b}) {
      if (*operand == gone) *operand = program.steps[i].a;
      else if (*operand > gone) --*operand;
    }
    if (j != i) result.steps.push_back(std::move(step));
  }
  return result;
}

std::vector<RandomProgram> smaller(const RandomProgram& program) {
  std::vector<RandomProgram> all;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    if (program.steps.size() > 1) all.push_back(without(program, i));
    const Step& step = program.steps[i];
    if (!step.f) continue;
    all.push_back(*step.f);
    for (RandomProgram& inner : smaller(*step.f)) {
      RandomProgram changed = program;
      changed.steps[i].f = std::make_shared<RandomProgram>(std::move(inner));
      all.push_back(std::move(changed));
    }
  }
  return all;
}

}  // namespace

RandomProgram shrunk(RandomProgram program, const std::function<bool(const RandomProgram&)>& fails) {
  for (bool smaller_found = true; smaller_found;) {
    smaller_found = false;
    for (RandomProgram& candidate : smaller(program)) {
      if (!is_legal(candidate, everywhere(99, false)) || !fails(candidate)) continue;
      program = std::move(candidate);
      smaller_found = true;
      break;
    }
  }
  return program;
}

}  // namespace stave_fuzz
