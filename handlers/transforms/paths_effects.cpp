// The effects of a path. An effect is performed once for the lanes that run together, once for
// each lane, or once with batched tensors, as the type of the effect specifies (AcrossLanes).
#include <algorithm>

#include <stave/core/op/function.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/scoped_name.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/across_lanes.h>
#include <stave/handlers/transforms/answered.h>
#include <stave/handlers/transforms/paths.h>

namespace stave_detail {

namespace {

const PathRun::Sown* find_sown(std::span<const PathRun::Sown> sown, const PathRun::Sown& like) {
  const auto found = std::find_if(sown.begin(), sown.end(), [&](const PathRun::Sown& other) {
    return other.name == like.name && other.attributes->tag == like.attributes->tag;
  });
  return found == sown.end() ? nullptr : &*found;
}

}  // namespace

void* PathEffects::handling(const EffectType& effect) {
  if (effect == effect_type<Sowing>()) return static_cast<Handling<Sowing>*>(this);
  if (effect == effect_type<FindPathEffects>()) return static_cast<Handling<FindPathEffects>*>(this);
  // WhichFloat is not remembered: the handlers around vmap give the same answer in each run.
  if (effect == effect_type<WhichFloat>()) return nullptr;
  return effect.recordable && effect.remembering ? effect.recordable->handling : effect.remembering;
}

// The answers to effects inside the function of a higher-order operation in which lanes split. The
// answers of the outer path hold all of them as one entry.
struct PathEffects::Branches {
  std::size_t call;
  std::vector<OfPath> paths, before;
};

// A tensor that answers an effect which is not recordable (EffectType::recordable is null).
// `followed` lists the transforms that differentiate the tensor, by their positions among the
// transforms that the effect passed on its way to the handler. When the function runs again, these
// transforms have lost the derivative of the tensor.
struct PathEffects::OpaqueAnswer {
  Tensor answer;
  std::vector<std::size_t> followed;
};

const std::any* PathEffects::next_answer() {
  const std::any* const known = next_ < known_.size() ? &known_[next_] : nullptr;
  const auto* const branches = known ? std::any_cast<Branches>(known) : nullptr;
  const std::any* const answer = branches ? answer_on(*branches) : known;
  if (!answer) return nullptr;
  next_ += !branches;
  given_.push_back(*answer);
  if (const auto* const opaque = std::any_cast<OpaqueAnswer>(answer)) {
    const auto transforms = transforms_passed();
    Tensor x = opaque->answer;
    for (const std::size_t i : opaque->followed)
      if (i < transforms.size()) x = transforms[i]->lost(std::move(x));
    return &(again_ = std::move(x));
  }
  return answer;
}

void PathEffects::remember(std::any answer) {
  const Tensor* const x = std::any_cast<Tensor>(&answer);
  std::vector<std::size_t> followed;
  const auto transforms = x && x->defined() ? transforms_passed() : std::vector<const FollowsDerivatives*>();
  for (std::size_t i = 0; i < transforms.size(); ++i)
    if (transforms[i]->follows(*x)) followed.push_back(i);
  if (followed.empty()) given_.push_back(std::move(answer));
  else given_.push_back(OpaqueAnswer{*x, std::move(followed)});
}

// Returns the next answer in `branches` for the lanes of the inner PathEffects that performs an
// effect now; null if there is none.
const std::any* PathEffects::answer_on(const Branches& branches) const {
  const PathEffects* const inner = inner_performer();
  if (!inner || branches.call != calls_) return nullptr;
  const OfPath* const path = find_path(branches.paths, branches.before, *inner->lanes_);
  const std::size_t number = inner->given_.size();
  if (!path || number >= path->answers.size() || std::any_cast<Branches>(&path->answers[number])) return nullptr;
  return &path->answers[number];
}

// Returns the path that has all of these lanes at its end, or else the last split before which all
// of them were on one path; null if there is none.
const PathEffects::OfPath* PathEffects::find_path(std::span<const OfPath> paths, std::span<const OfPath> before,
                                                  const Rows& lanes) {
  const auto have_them = [&](const OfPath& of) { return of.lanes->has(lanes); };
  const auto path = std::find_if(paths.begin(), paths.end(), have_them);
  if (path != paths.end()) return &*path;
  const auto parting = std::find_if(before.rbegin(), before.rend(), have_them);
  return parting != before.rend() ? &*parting : nullptr;
}

PathEffects::Answers PathEffects::of(const Rows& lanes) const {
  Answers all;
  for (const std::any& given : given_) {
    const auto* const branches = std::any_cast<Branches>(&given);
    if (const OfPath* const path = branches ? find_path(branches->paths, branches->before, lanes) : nullptr)
      all.insert(all.end(), path->answers.begin(), path->answers.end());
    all.push_back(given);
  }
  return all;
}

PathEffects::State PathEffects::state_at(const Mark& mark) const {
  const auto from = [](const Answers& answers, std::size_t first) {
    return answers.begin() + static_cast<std::ptrdiff_t>(first);
  };
  State state{Answers(from(given_, mark.given), given_.end()), Answers(given_.begin(), from(given_, mark.given)), 0,
              mark.calls, mark.collectives};
  state.known.insert(state.known.end(), from(known_, next_), known_.end());
  return state;
}

void PathEffects::restore(State state) {
  known_ = std::move(state.known);
  given_ = std::move(state.given);
  next_ = state.next;
  calls_ = state.calls;
  if (PathEffects* const found = stave::perform(FindPathEffects{run_.vmap, true}))
    found->next_collective = state.collectives;
}

std::size_t PathEffects::collectives_so_far() const noexcept {
  const PathEffects* const found = stave::perform(FindPathEffects{run_.vmap, true});
  return found ? found->next_collective : 0;
}

PathEffects* PathEffects::handle(FindPathEffects& find) {
  const bool is_of_vmap = &find.vmap == &run_.vmap;
  PathEffects* const outer = is_of_vmap && !find.outermost ? nullptr : stave::perform(find);
  return outer || !is_of_vmap ? outer : this;
}

std::size_t PathEffects::call_begins() {
  ++calls_;
  return given_.size();
}

void PathEffects::call_ends(std::size_t count, std::vector<OfPath> before, std::vector<OfPath> paths) {
  if (paths.size() > 1) {
    given_.resize(count);
    given_.push_back(Branches{calls_, std::move(paths), std::move(before)});
  }
  const auto is_over = [&](const std::any& known) {
    const auto* const branches = std::any_cast<Branches>(&known);
    return branches && branches->call <= calls_;
  };
  while (next_ < known_.size() && is_over(known_[next_])) ++next_;
}

// ---- sown values --------------------------------------------------------------------------------

// Finds out whether an outer handler gathers the value. If that handler wants joined lanes, lanes
// that have split sow their values together when all paths have ended.
Sowing::Result PathEffects::handle(Sowing& sowing) {
  if (const std::any* known = next_answer()) {
    if (const auto* threw = std::any_cast<Threw>(known)) std::rethrow_exception(threw->what);
    if (const auto* answer = std::any_cast<Sowing::Result>(known)) return *answer;
    throw_other_effect(typeid(Sowing));
  }
  Sowing::Result answer = perform_if_answered(sowing);
  if (answer.wants_joined_lanes && lanes_->size() < run_.lanes.size()) answer.joined_by.push_back(run_.id);
  remember(answer);
  return answer;
}

bool PathRun::is_joined(const Call& sow) const {
  const auto& by = sow.as<SowAttributes>().answer.joined_by;
  return !by.empty() && by.back() == id_;
}

Outputs PathRun::sown(const Call& sow) {
  const auto& attributes = sow.as<SowAttributes>();
  Sown value{scoped_name(attributes.name), IntrusivePtr<const SowAttributes>(&attributes), sow.input(0),
             attributes.answer.places};
  if (attributes.answer.planted)
    fail<TransformError>("plant: \"{}\" is sown where lanes of vmap have split: sow it before they split", value.name);
  const PathRun::Sown* const known = find_sown(path_->sown, value);
  if (known && known->places != value.places) fail_sown_twice(value.name);
  // A lane of an inner vmap that runs again alone sows a value that is known already.
  if (!known) path_->sown.push_back(std::move(value));
  return {sow.input(0)};
}

// Returns the sown values in the order of the first path, and appends them to each path's outputs.
// Throws TransformError if a path lacks one of them.
std::vector<PathRun::Sown> PathRun::take_sown(std::span<const std::unique_ptr<LanePath>> paths) const {
  std::vector<Sown> all = paths[0]->sown;
  for (const auto& path : paths) {
    for (const Sown& of_path : path->sown)
      if (!find_sown(all, of_path)) all.push_back(of_path);
  }
  for (Sown& sown : all) {
    sown.places.clear();
    for (const auto& path : paths) {
      const Sown* const found = find_sown(path->sown, sown);
      if (!found)
        fail<TransformError>(
            "sow: \"{}\" is sown by some lanes of vmap that have split, but not by {}: sow it on each path, or before "
            "lanes split",
            sown.name, path->lanes->str());
      const Tensor &a = sown.value, &b = found->value;
      if (a.shape() != b.shape() || a.dtype() != b.dtype())
        fail<ShapeError>("sow: \"{}\" is {} {} in {}, and {} {} in {}", sown.name, a.dtype(), a.shape(),
                         paths[0]->lanes->str(), b.dtype(), b.shape(), path->lanes->str());
      path->outputs.push_back(found->value);
      sown.places.insert(sown.places.end(), found->places.begin(), found->places.end());
    }
  }
  return all;
}

void PathRun::sow_all(std::span<const Sown> sown, Results& results) {
  const std::size_t first = results.outputs.size() - sown.size();
  for (std::size_t i = 0; i < sown.size(); ++i) {
    Sowing::Result answer = sown[i].attributes->answer;
    answer.places = sown[i].places;
    answer.joined_by.pop_back();
    sow_at(std::move(answer), sown[i].name, results.outputs[first + i], sown[i].attributes->tag);
  }
  results.outputs.resize(first);
  results.batched.resize(first);
}

// ---- across lanes -------------------------------------------------------------------------------

// The answer to an effect for the lanes of a path.
struct PathEffects::PathAnswer : RecordedAnswer {
  // For each tensor of the answer, the transforms that differentiate it, by their positions among
  // the transforms that the effect passed on its way to the handler.
  std::vector<std::vector<std::size_t>> followed = {};

  PathAnswer() = default;
  PathAnswer(const EffectType& effect, std::any given) : RecordedAnswer(effect, std::move(given)) {}
  /// Sets `followed`. It is called in the first run.
  void set_followed() {
    const auto transforms = transforms_passed();
    followed.clear();
    if (transforms.empty()) return;
    for (const Tensor& x : tensors) {
      auto& by = followed.emplace_back();
      for (std::size_t i = 0; x.defined() && i < transforms.size(); ++i)
        if (transforms[i]->follows(x)) by.push_back(i);
    }
  }
  /// Marks the derivative of x, tensor n of the answer, as lost, because the transforms of the run
  /// that performs the effect again differentiate other values than those of the first run.
  Tensor lose_derivatives(std::size_t n, Tensor x) const {
    if (followed.empty() || !x.defined()) return x;
    const auto transforms = transforms_passed();
    for (const std::size_t i : followed[n])
      if (i < transforms.size()) x = transforms[i]->lost(std::move(x));
    return x;
  }
};

// Returns the inner PathEffects of this vmap, if it performs the current effect; else null.
// Several PathEffects of a vmap may be installed: one for vmap's function, and inside one for each
// function of a higher-order operation that is running. The inner one performs the effect for its
// lanes. The outer one remembers the answers for all lanes, and gives each lane its own answer when
// the function runs again.
const PathEffects* PathEffects::inner_performer() const noexcept {
  for (const Frame* at = current; at && at->kind == Frame::Kind::interception;) {
    const auto& working = static_cast<const Interception&>(*at);
    const auto* const found =
        working.answering ? dynamic_cast<const PathEffects*>(working.answering->handler) : nullptr;
    if (found && found != this && &found->run_.vmap == &run_.vmap) return found;
    at = working.performer;
  }
  return nullptr;
}

std::any PathEffects::answer_recordable(const EffectType& effect, std::any performed) {
  const bool shared = across_lanes(effect) == AcrossLanes::shared;
  if (const PathEffects* const inner = shared ? nullptr : inner_performer())
    return inner->known_outside_ ? inner->part_of_known(effect) : effect.recordable->perform(performed);
  EffectTensors given("vmap");
  given.add(effect, performed);
  if (const std::any* known = next_answer()) {
    const auto& answer = recorded_as<PathAnswer>(*known, effect);
    return answer.with([&](std::size_t i) { return answer.lose_derivatives(i, tensor_of(answer, i, given)); });
  }
  PathEffects* const outer = shared ? nullptr : stave::perform(FindPathEffects{run_.vmap, false});
  known_outside_ = outer ? outer->next_answer() : nullptr;
  const auto remember_everywhere = [&](const std::any& answer) {
    remember(answer);
    if (outer && !known_outside_) outer->remember(answer);
    known_outside_ = nullptr;
  };
  try {
    PathAnswer answer = shared ? answer_once(effect, std::move(performed), given)
                        : across_lanes(effect) == AcrossLanes::together
                            ? answer_together(effect, std::move(performed), given)
                            : answer_for_each(effect, performed, given);
    answer.set_followed();
    remember_everywhere(answer);
    return answer.with([&](std::size_t i) { return tensor_of(answer, i, given); });
  } catch (...) {
    remember_everywhere(Threw{std::current_exception()});
    throw;
  }
}

// Returns tensor i of an answer for this run. A lane that runs again alone gets its own real value
// in place of a batched one.
Tensor PathEffects::tensor_of(const PathAnswer& answer, std::size_t i, const EffectTensors& given) const {
  if (const int number = answer.passed[i]; number >= 0) return given[number];
  const Tensor& x = answer.tensors[i];
  const Lanes* const lanes = alone_ ? run_.vmap.notes.find(x) : nullptr;
  return lanes ? clone_node(lanes->value->of(lanes_, true, run_.lanes)) : x;
}

// Returns the part of the answer known to the outer PathEffects that belongs to the lanes for which
// the effect is performed now.
std::any PathEffects::part_of_known(const EffectType& effect) const {
  const auto& known = recorded_as<PathAnswer>(*known_outside_, effect);
  return known.with([&](std::size_t i) {
    Tensor x = known.tensors[i];
    if (const Lanes* const lanes = run_.vmap.notes.find(x)) {
      if (across_lanes(effect) == AcrossLanes::each)
        x = lanes->value->of(make_intrusive<const Rows>(std::vector{current_lane_}), true, run_.lanes);
      else if (alone_) x = expand_dims(lanes->value->of(lanes_, true, run_.lanes), 0);
      else x = lanes->value->of(lanes_, false, run_.lanes);
    }
    return known.lose_derivatives(i, std::move(x));
  });
}

PathEffects::PathAnswer PathEffects::answer_once(const EffectType& effect, std::any performed,
                                                 const EffectTensors& given) {
  given.put_marked(effect, performed, 0);
  PathAnswer answer(effect, effect.recordable->perform(performed));
  given.recognise(answer);
  return answer;
}

// The answer for one lane, or the error that the handler threw for it.
struct PathEffects::LaneAnswer : RecordedAnswer {
  std::exception_ptr threw;
};

// Performs the effect for each lane. Lanes for which the handler throws split from the others.
PathEffects::PathAnswer PathEffects::answer_for_each(const EffectType& effect, const std::any& performed,
                                                     const EffectTensors& given) {
  const Index size = lanes_->size();
  if (size == 0 && effect.recordable->has_answer)
    fail<TransformError>("vmap: {} is answered lane by lane, but there are no lanes", type_name(effect.type));
  std::vector<LaneAnswer> lanes;
  for (Index row = 0; row < size; ++row) lanes.push_back(answer_for_lane(effect, performed, given, row));
  std::vector<std::vector<std::size_t>> ways;
  std::vector<std::string> kinds;
  for (std::size_t row = 0; row < lanes.size(); ++row) {
    std::string kind = lanes[row].threw ? kind_of_error(lanes[row].threw) : "went on";
    const auto known = kind.empty() ? kinds.end() : std::find(kinds.begin(), kinds.end(), kind);
    const auto way = static_cast<std::size_t>(known - kinds.begin());
    if (way == kinds.size()) ways.emplace_back(), kinds.push_back(std::move(kind));
    ways[way].push_back(row);
  }
  if (ways.size() <= 1) return joined(effect, lanes, ways.empty() ? std::vector<std::size_t>() : ways[0], given);
  std::vector<PathRun::AnswerGroup> parts;
  for (const std::vector<std::size_t>& way : ways) {
    PathRun::AnswerGroup& part = parts.emplace_back();
    for (const std::size_t row : way) part.lanes.push_back(lanes_->lane(static_cast<Index>(row)));
    if (lanes[way[0]].threw) {
      part.answer = Threw{lanes[way[0]].threw};
      continue;
    }
    PathAnswer answer = joined(effect, lanes, way, given);
    answer.set_followed();
    part.answer = std::move(answer);
  }
  const std::any first = parts[0].answer;
  run_.paths.split_by_answers(effect, std::move(parts));
  if (const auto* const threw = std::any_cast<Threw>(&first)) std::rethrow_exception(threw->what);
  return std::any_cast<PathAnswer>(first);
}

PathEffects::LaneAnswer PathEffects::answer_for_lane(const EffectType& effect, const std::any& performed,
                                                     const EffectTensors& given, Index row) {
  std::any of_lane = performed;
  given.put_marked(effect, of_lane, 0, [&](const Tensor& x) {
    const Lanes* const lanes = run_.vmap.notes.find(x);
    if (!lanes) return x;
    return mark_lost(
        alone_ ? lanes->value->of(lanes_, true, run_.lanes) : lanes->value->of(lanes_, false, run_.lanes)[row],
        {&x, 1});
  });
  current_lane_ = lanes_->lane(row);
  try {
    return {RecordedAnswer(effect, effect.recordable->perform(of_lane)), nullptr};
  } catch (...) {
    const std::exception_ptr threw = std::current_exception();
    if (whose_error(threw, nullptr) == Whose::of_all) throw;
    return {RecordedAnswer(), threw};
  }
}

namespace {

// Throws TransformError if the answers in two lanes differ by more than the elements of tensors.
void check_alike(const RecordedAnswer& a, const RecordedAnswer& b, std::int32_t a_lane, std::int32_t b_lane) {
  const auto fail_differ = [&](const char* what) {
    fail<TransformError>("vmap: the answers to {} in lanes {} and {} have {}", type_name(a.type->type), a_lane, b_lane,
                         what);
  };
  if (!a.type->recordable->same_answer(a.answer, b.answer)) fail_differ("parts other than tensors that differ");
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const Tensor &x = a.tensors[i], &y = b.tensors[i];
    const bool like =
        x.defined() == y.defined() && (!x.defined() || (x.shape() == y.shape() && x.dtype() == y.dtype()));
    if (!like) fail_differ("tensors of different shapes or dtypes");
  }
}

}  // namespace

// Joins the answers of the lanes in these rows.
PathEffects::PathAnswer PathEffects::joined(const EffectType& effect, std::span<const LaneAnswer> lanes,
                                            const std::vector<std::size_t>& rows, const EffectTensors& given) const {
  if (rows.empty()) return {effect, std::any()};
  const LaneAnswer& first = lanes[rows[0]];
  if (first.threw) std::rethrow_exception(first.threw);
  std::vector<std::int32_t> numbers;
  for (const std::size_t row : rows) {
    numbers.push_back(lanes_->lane(static_cast<Index>(row)));
    check_alike(first, lanes[row], numbers.front(), numbers.back());
  }
  const RowsPtr parted = rows.size() == lanes.size() ? lanes_ : make_intrusive<const Rows>(std::move(numbers));
  const bool alone = alone_ || (parted->size() == 1 && run_.vmap.size > 1);
  PathAnswer answer;
  static_cast<RecordedAnswer&>(answer) = first;
  for (std::size_t i = 0; i < first.tensors.size(); ++i) {
    std::vector<Tensor> values;
    for (const std::size_t row : rows) values.push_back(lanes[row].tensors[i]);
    const int number = given.number_of(values[0]);
    const bool is_passed = number >= 0 && std::all_of(values.begin(), values.end(),
                                                      [&](const Tensor& x) { return given.number_of(x) == number; });
    Tensor& x = answer.tensors[i];
    if (is_passed) answer.passed[i] = number, x = Tensor();
    else if (x.defined() && !alone) x = mark_lost(run_.vmap.lane(stack(values), parted), values);
  }
  return answer;
}

PathEffects::PathAnswer PathEffects::answer_together(const EffectType& effect, std::any performed,
                                                     const EffectTensors& given) {
  const Index size = lanes_->size();
  given.put_marked(effect, performed, 0, [&](const Tensor& x) {
    const Lanes* const lanes = run_.vmap.notes.find(x);
    if (alone_) return mark_lost(expand_dims(lanes ? lanes->value->of(lanes_, true, run_.lanes) : x, 0), {&x, 1});
    return mark_lost(lanes ? lanes->value->of(lanes_, false, run_.lanes) : broadcast_lanes(x, size), {&x, 1});
  });
  PathAnswer answer(effect, effect.recordable->perform(performed));
  given.recognise(answer);
  for (Tensor& x : answer.tensors) {
    if (!x.defined()) continue;
    if (x.rank() == 0 || x.shape(0) != size)
      fail<ShapeError>("vmap: the answer to {} must have the {} lanes as axis 0, but has shape {}",
                       type_name(effect.type), size, x.shape());
    x = alone_ ? x[0] : mark_lost(run_.vmap.lane(x, lanes_), {&x, 1});
  }
  return answer;
}

}  // namespace stave_detail
