// Operations that throw for some lanes. These lanes split from those for which the operation
// succeeds, so the function sees the error only in the lanes that have it, as in a loop over the
// lanes, and may catch it.
// The lanes that throw are found by bisection: the operation is performed for half of them, then
// for half of that half, and so on. If few of n lanes throw, this takes about log2(n) operations
// for each of them; if many throw, it takes at most about twice as many operations as the loop.
#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include <stave/core/effects/controller.h>
#include <stave/core/op/everywhere.h>
#include <stave/handlers/transforms/paths.h>

namespace stave_detail {

namespace {

// Returns the first line of an error's text without numbers, and without the name of the function
// at its beginning, because handlers may change that name while the error passes them. Lanes whose
// errors differ only in numbers or in that name take one path.
std::string without_numbers(std::string_view text) {
  const std::size_t name = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789");
  if (name != text.npos && text.substr(name).starts_with(": ")) text.remove_prefix(name + 2);
  const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  std::string kind;
  for (std::size_t i = 0; i < text.size() && text[i] != '\n';) {
    if (!is_digit(i) && !(text[i] == '-' && is_digit(i + 1))) {
      kind += text[i++];
      continue;
    }
    for (++i; is_digit(i) || (i < text.size() && text[i] == '.' && is_digit(i + 1));) ++i;
    kind += '#';
  }
  return kind;
}

// Returns the operation; null for a higher-order one, whose functions may throw any error.
const Op* operation_of(const Call& call) { return call.op().is_higher_order ? nullptr : &call.op(); }

// Returns the error without the information that every entry of the operands causes it
// (FailsForAllEntries): every entry of one lane may fail, but not those of other lanes.
std::exception_ptr of_some_entries(const std::exception_ptr& threw) {
  try {
    std::rethrow_exception(threw);
  } catch (const FailsForAllEntries& error) {
    return error.as_plain_error();
  } catch (...) {
    return threw;
  }
}

std::string type_of_kind(const std::string& kind) { return kind.substr(0, kind.find(": ")); }

bool are_alike(const std::exception_ptr& a, const std::exception_ptr& b) {
  return type_of_kind(kind_of_error(a)) == type_of_kind(kind_of_error(b));
}

[[noreturn]] void fail_undivided(const std::string& what) {
  fail<TransformError>(
      "vmap: {} throws for some of the lanes, which split there, inside a checkpoint with a policy, and the saved "
      "values would differ between the paths: use checkpoint without a policy",
      what);
}

}  // namespace

std::string kind_of_error(const std::exception_ptr& threw) {
  try {
    std::rethrow_exception(threw);
  } catch (const Error& error) {
    const auto* const everywhere = dynamic_cast<const FailsForAllEntries*>(&error);
    // what() is not called, because the error may record that its text was read.
    return std::string((everywhere ? everywhere->type : typeid(error)).name()) + ": " +
           without_numbers(error.std::runtime_error::what());
  } catch (const std::exception& error) {
    return std::string(typeid(error).name()) + ": " + error.what();
  } catch (...) {
    return "";
  }
}

Whose whose_error(const std::exception_ptr& threw, const Op* op) {
  const Whose by_shape = op ? Whose::of_all : Whose::of_some;
  try {
    std::rethrow_exception(threw);
  } catch (const FailsForAllEntries&) {
    // The rule of a user's own operation may perform an operation for each lane.
    return op && op->id != OpId::own ? Whose::of_each : Whose::of_some;
  } catch (const ShapeError&) {  // lanes of one path have one shape and dtype, on one device
    return by_shape;
  } catch (const DtypeError&) {
    return by_shape;
  } catch (const DeviceError&) {
    return by_shape;
  } catch (const TransformError&) {
    return Whose::of_all;
  } catch (const MemoryError&) {
    return Whose::of_all;
  } catch (const std::bad_alloc&) {
    return Whose::of_all;
  } catch (const Cancelled&) {
    return Whose::of_all;
  } catch (...) {
    return Whose::of_some;
  }
}

// The outcomes of an operation, lane by lane.
struct PathRun::Outcomes {
  struct Threw {
    std::string kind;
    std::vector<std::int32_t> lanes;
    std::exception_ptr first;
  };
  std::vector<std::int32_t> went_on;
  std::vector<Threw> threw;
  // The state in which each trial of a higher-order operation begins; empty for other operations.
  std::optional<PathEffects::State> effects;
  std::exception_ptr other;  // an error that belongs to all lanes; null: none was found

  /// Returns the number of lanes that threw an error of this error's type.
  std::size_t count_like(const std::exception_ptr& error) const {
    const std::string type = type_of_kind(kind_of_error(error));
    std::size_t count = 0;
    for (const Threw& known : threw)
      if (type_of_kind(known.kind) == type) count += known.lanes.size();
    return count;
  }
  void add(std::span<const std::int32_t> lanes, const std::exception_ptr& error) {
    std::string kind = kind_of_error(error);
    const auto is_same = [&](const Threw& known) { return !kind.empty() && known.kind == kind; };
    const auto known = std::find_if(threw.begin(), threw.end(), is_same);
    if (known != threw.end()) return void(known->lanes.insert(known->lanes.end(), lanes.begin(), lanes.end()));
    threw.push_back({std::move(kind), {lanes.begin(), lanes.end()}, error});
  }
};

// Restricts the path to these lanes for a trial; it writes no log meanwhile.
class PathRun::Narrowed {
 public:
  Narrowed(PathRun& run, std::span<const std::int32_t> lanes, bool alone, const Rows* named)
      : run_(run), path_(*run.path_), lanes_(path_.lanes), log_(std::move(path_.log)), alone_(path_.alone),
        keeps_rows_(std::exchange(run.keeps_rows_, false)), repeats_(std::exchange(run.repeats_, true)) {
    path_.log = nullptr;
    path_.lanes = make_intrusive<const Rows>(std::vector<std::int32_t>(lanes.begin(), lanes.end()));
    path_.alone = alone;
    run.named_ = named;
  }
  ~Narrowed() {
    run_.named_ = nullptr;
    run_.keeps_rows_ = keeps_rows_;
    run_.repeats_ = repeats_;
    path_.alone = alone_;
    path_.lanes = std::move(lanes_);
    path_.log = std::move(log_);
  }
  Narrowed(const Narrowed&) = delete;
  Narrowed& operator=(const Narrowed&) = delete;

 private:
  PathRun& run_;
  LanePath& path_;
  RowsPtr lanes_;
  PathLogPtr log_;
  const bool alone_, keeps_rows_, repeats_;
};

// Returns the error that the operation throws for these lanes; null: none. Cancelled is thrown on.
std::exception_ptr PathRun::attempt(Call& call, std::span<const std::int32_t> lanes, bool alone, const Rows* named) {
  const Narrowed narrowed(*this, lanes, alone, named);
  try {
    PathLog::Given given;
    if (call.op().is_higher_order) handle_higher_order(call);
    else performed(call, given);
    return nullptr;
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    return std::current_exception();
  }
}

// Finds the outcome for each of these lanes. `error` is the error that the operation throws for all
// of them together; null if it is unknown.
void PathRun::find_outcomes(Call& call, std::span<const std::int32_t> lanes, std::exception_ptr error,
                            Outcomes& found) {
  if (found.other) return;
  const bool one = lanes.size() == 1;
  if (one || !error) {
    if (found.effects) path_->effects->restore(*found.effects);
    const std::exception_ptr thrown = attempt(call, lanes, one, nullptr);
    if (!thrown) return void(found.went_on.insert(found.went_on.end(), lanes.begin(), lanes.end()));
    const Whose whose = whose_error(thrown, operation_of(call));
    if (whose == Whose::of_all) return void(found.other = thrown);
    if (one) return found.add(lanes, thrown);
    if (whose == Whose::of_each) return add_all(call, lanes, thrown, found);
    error = thrown;
  }
  const std::size_t half = lanes.size() / 2, before = found.went_on.size();
  const std::size_t like_before = found.count_like(error);
  find_outcomes(call, lanes.first(half), nullptr, found);
  const bool second_throws = found.went_on.size() == before + half;
  find_outcomes(call, lanes.subspan(half), second_throws ? error : nullptr, found);
  if (found.other || found.count_like(error) > like_before) return;
  // None of these lanes by itself threw the error that all of them threw together.
  const auto threw_other = [&](const Outcomes::Threw& known) {
    return std::find(lanes.begin(), lanes.end(), known.lanes.back()) != lanes.end();
  };
  const auto other = std::find_if(found.threw.begin(), found.threw.end(), threw_other);
  found.other = other == found.threw.end() ? error : thrown_once(call, other->lanes.back(), other->first, error, found);
}

// A lane threw `a` and, in another attempt, `b`, which is of another type. So one of the two errors
// occurs only once (an outer handler may throw such an error). Returns that error, which must not
// be lost.
std::exception_ptr PathRun::thrown_once(Call& call, std::int32_t lane, const std::exception_ptr& a,
                                        const std::exception_ptr& b, const Outcomes& found) {
  if (found.effects) path_->effects->restore(*found.effects);
  const std::exception_ptr again = attempt(call, std::span(&lane, 1), true, nullptr);
  return again && are_alike(again, a) ? b : a;
}

// Adds all of these lanes to the lanes that throw. Except for a higher-order operation, the stored
// error comes from an attempt with one lane, like the errors that find_outcomes stores. If that
// attempt throws an error of another type than `threw`, sets found.other instead.
void PathRun::add_all(Call& call, std::span<const std::int32_t> lanes, const std::exception_ptr& threw,
                      Outcomes& found) {
  if (found.effects) path_->effects->restore(*found.effects);
  const std::exception_ptr error = call.op().is_higher_order ? nullptr : attempt(call, lanes.first(1), true, nullptr);
  if (error && !are_alike(error, threw)) return void(found.other = thrown_once(call, lanes[0], error, threw, found));
  found.add(lanes, error ? error : threw);
}

bool PathRun::may_differ(const Call& call, const std::exception_ptr& threw) const {
  const LanePath& path = *path_;
  if (path.alone || path.lanes->size() < 2 || path.errors < path.known_errors) return false;
  const auto is_lane = [&](const Tensor& x) { return vmap_->notes.find(x) != nullptr; };
  if (operation_of(call) && std::none_of(call.inputs().begin(), call.inputs().end(), is_lane)) return false;
  return whose_error(threw, operation_of(call)) != Whose::of_all && !throws_anew_below(threw);
}

void PathRun::fail_all(const Call& call, PathLog::Given given, std::exception_ptr threw) {
  LanePath& path = *path_;
  ++path.errors;
  // The log does not contain the operations of the functions, so a replay could not reach the
  // error.
  if (call.op().is_higher_order) path.log = nullptr;
  path.note({.op = &call.op(), .threw = threw, .given = std::move(given)});
  std::rethrow_exception(threw);
}

// Returns the error for these lanes: the error that the operation throws for the first of them,
// with the names of all; for a higher-order operation, `known`. The functions of a higher-order
// operation run again here only if `known` differs in type from `threw`, the error that all lanes
// threw together, because it may then be an error that occurs only once. If the operation does not
// throw an error of the type of `known` again, sets found.other.
std::exception_ptr PathRun::error_of(Call& call, const std::vector<std::int32_t>& lanes,
                                     const std::exception_ptr& known, const std::exception_ptr& threw,
                                     Outcomes& found) {
  const bool carries = call.op().is_higher_order;
  if (carries && are_alike(known, threw)) return known;
  if (found.effects) path_->effects->restore(*found.effects);
  const Rows named(lanes);
  const std::exception_ptr error = attempt(call, std::span(lanes).first(1), true, &named);
  if (error && are_alike(error, known)) return carries ? known : error;
  return found.other = error ? thrown_once(call, lanes[0], error, known, found) : known;
}

Outputs PathRun::split_by_error(Call& call, PathLog::Given given, std::exception_ptr threw,
                                const std::optional<PathEffects::Mark>& mark) {
  LanePath& path = *path_;
  if (!may_differ(call, threw)) fail_all(call, std::move(given), std::move(threw));
  std::vector<std::int32_t> lanes;
  for (Index row = 0; row < path.lanes->size(); ++row) lanes.push_back(path.lanes->lane(row));
  Outcomes found;
  std::optional<PathEffects::State> effects;  // the state after the operation threw
  if (mark) {
    effects = path.effects->state();
    found.effects = path.effects->state_at(*mark);
  }
  if (whose_error(threw, operation_of(call)) == Whose::of_each)
    fail_all(call, std::move(given), error_of(call, lanes, threw, threw, found));
  find_outcomes(call, lanes, threw, found);
  if (effects) path.effects->restore(*effects);
  if (found.other) fail_all(call, std::move(given), found.other);
  const std::string kind = kind_of_error(threw);
  std::vector<Part> parts;
  if (!found.went_on.empty()) parts.push_back({std::move(found.went_on)});
  for (Outcomes::Threw& of : found.threw) {
    // If lanes split inside the functions of a higher-order operation, `threw` already names them.
    const bool is_first = mark && of.kind == kind;
    std::exception_ptr error = error_of(call, of.lanes, is_first ? threw : of.first, threw, found);
    if (effects) path.effects->restore(*effects);
    if (found.other) fail_all(call, std::move(given), found.other);
    error = of_some_entries(error);
    Part& part = parts.emplace_back(Part{std::move(of.lanes)});
    part.threw = error;
    if (!mark) part.event = PathLog::Event{.op = &call.op(), .threw = error, .given = given};
  }
  if (parts.size() == 1) fail_all(call, std::move(given), parts[0].threw);
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.lanes[0] < b.lanes[0]; });
  if (kind_ == Kind::undivided_call) fail_undivided(call.op().name);
  const std::exception_ptr error = parts[0].threw;
  if (mark) path.log = nullptr;
  split(std::move(parts));
  if (error) {
    ++path.errors;
    std::rethrow_exception(error);
  }
  if (found.effects) path.effects->restore(std::move(*found.effects));
  struct Repeats {
    bool& repeats;
    const bool before;
    ~Repeats() { repeats = before; }
  } until_performed{repeats_, std::exchange(repeats_, true)};
  return perform_or_split(call);
}

void PathRun::split_by_answers(const EffectType& effect, std::vector<AnswerGroup> ways) {
  if (kind_ == Kind::undivided_call) fail_undivided(type_name(effect.type));
  std::vector<Part> parts;
  for (AnswerGroup& way : ways) {
    parts.push_back({std::move(way.lanes)});
    parts.back().answer = std::move(way.answer);
  }
  split(std::move(parts));
}

}  // namespace stave_detail
