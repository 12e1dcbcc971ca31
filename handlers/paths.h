// Control flow under vmap: a function for many lanes, path by path. Internal to vmap.cpp.
//
// A path is a run of the function for a set of lanes; at first there is one, with all of them, and its operations are batched. Where
// the function reads a value (item, bool, to_vector, data) the lanes part by the bits of what they have there. The running path goes
// on with those that are as its first lane, and takes the rows of these from a value when it next needs it: nothing is unwound. Each
// other class is put aside; when the path has ended, the function runs again from its start for that class: its operations are
// answered from the log of the first run up to the read, and performed from there on. At the end the results of all paths are
// joined in the order of the lanes.
//
// The log keeps nothing alive. What the function had let go of by the time of the read no operation after it can need: the second run
// is given a hollow value in its place. A lane that is alone computes on its real values, from the start, where that takes no more than the
// log does: that is the function itself, and costs what it costs. So do lanes of a path whose log is too long, or in which operations
// carried functions (checkpoint): on batched values.
//
// All that paths perform they perform below vmap, of batched values: to the handlers around it these are ordinary operations, so
// derivatives of any order and lanes of lanes follow.
#pragma once

#include <any>
#include <optional>
#include <vector>

#include <stave/core/carried.h>
#include <stave/core/ops/collective.h>
#include <stave/handlers/lanes.h>
#include <stave/handlers/sow.h>
#include <stave/handlers/vjp_flat.h>

namespace stave_detail {

/// What a path performed between two reads at which lanes part. It belongs to the thread on which vmap runs.
struct PathLog : RefCounted {
  struct Step {
    const Op* op;       // null: the next of the events
    LaneValue* value;   // an output; null: it is gone
    std::size_t bytes;  // that were behind that; `untouched`: the operation touched no lane, and may be performed again
  };
  static constexpr std::size_t untouched = ~std::size_t{0};
  // A read, and what it gave; or an operation, and what it threw, or gave for all lanes together.
  struct Event {
    const void* log;  // the value that was read, as a LaneValue says it; of an argument: that, and 0
    std::uint32_t step;
    Tensor answer;
    const Op* op = nullptr;
    std::exception_ptr threw;
  };
  IntrusivePtr<PathLog> before;
  RowsPtr lanes;
  std::vector<Step> steps;
  std::vector<Event> events;
  std::size_t length = 0;  // of those before
  std::uint64_t work = 0;  // what its operations read, in elements of a lane; of those before, too
  bool joint = false;      // it has what all lanes computed together; or those before do
  PathLog* next_to_free = nullptr;

  PathLog(IntrusivePtr<PathLog> previous, RowsPtr rows)
      : before(std::move(previous)), lanes(std::move(rows)), length(before ? before->length + before->steps.size() : 0),
        work(before ? before->work : 0), joint(before && before->joint) {}
  /// Whether a lane is answered from it in less time than it takes to compute that.
  bool saves_work() const noexcept {
    if (joint) return true;                // which a lane by itself cannot
    constexpr std::uint64_t least = 1024;  // elements of an operation, on average: of fewer, it is computed as fast
    return work >= least * (length + steps.size());
  }
  ~PathLog() {
    for (const Step& step : steps)
      if (step.value) step.value->log = nullptr;
  }
};
using PathLogPtr = IntrusivePtr<PathLog>;
void destroy(PathLog* log) noexcept;  // and those before, in a loop

/// The answers to the effects of a path. Those before the read at which it parted from others are known.
class PathEffects final : public Remembers, public Handling<Sowing> {
 public:
  using Answers = std::vector<std::any>;
  /// Of a run, for these lanes.
  struct Run {
    const Vmap& vmap;
    const Rows& lanes;
    InstallationId id;
  };
  /// Of a path, which has these lanes, and is `alone` from when it has one of several.
  PathEffects(Run run, const RowsPtr& lanes, const bool& alone, Answers known)
      : run_(run), lanes_(lanes), alone_(alone), known_(std::move(known)) {}
  std::string describe() const override { return ""; }
  void* handling(const EffectType& effect) override;
  const std::any* next_answer() override;
  void remember(std::any answer) override { given_.push_back(std::move(answer)); }
  void forget(const std::type_info&) override { remember(Forgotten()); }
  std::any answer_kept(const EffectType& effect, std::any performed) override;
  Sowing::Result handle(Sowing& sowing) override;

  /// What all of these lanes were answered so far; as far as that is one.
  Answers of(const Rows& lanes) const;
  /// Those of the same vmap around this point of the program; null: there are none.
  static PathEffects* around(const Vmap& vmap) noexcept;
  struct OfPath {
    RowsPtr lanes;
    Answers answers;
  };
  /// A function that an operation carries is run here, on paths of its own. Gives how many answers there are so far.
  std::size_t call_begins();
  /// Since there were `count` answers, lanes went on these paths, and were answered so; `before` has what those that parted, in that
  /// order, were answered until then.
  void call_ends(std::size_t count, std::vector<OfPath> before, std::vector<OfPath> paths);

 private:
  struct Branches;
  const std::any* answer_on(const Branches& branches) const;
  static const OfPath* find_path(std::span<const OfPath> paths, std::span<const OfPath> before, const Rows& lanes);

  struct KeptAnswer;
  class Tensors;
  KeptAnswer answer_once(const EffectType& effect, std::any performed, const Tensors& given);
  KeptAnswer answer_for_each(const EffectType& effect, const std::any& performed, const Tensors& given);
  KeptAnswer answer_together(const EffectType& effect, std::any performed, const Tensors& given);
  std::any known_answer(const EffectType& effect, const std::any& known, const Tensors& given) const;
  std::any part_of_known(const EffectType& effect) const;
  void check_alike(const EffectType& effect, std::span<const std::any> answers,
                   std::span<const std::vector<Tensor>> tensors, Index row) const;
  const PathEffects* asking() const noexcept;

  const Run run_;
  const RowsPtr& lanes_;
  const bool& alone_;
  const Answers known_;
  std::size_t next_ = 0, calls_ = 0;
  std::int32_t asked_lane_ = 0;              // while each is asked
  const std::any* known_outside_ = nullptr;  // what is asked now is known to the one around
  Answers given_;
};

/// A function's run for some lanes.
class PathRun final : public Handles<Call, ReadStorage, WhichPath, AxisSize> {
 public:
  /// A value that lanes sow which parted: its name, with the scopes inside of the function.
  struct Sown {
    std::string name;
    IntrusivePtr<const SowAttributes> attributes;
    Tensor value;
    std::vector<std::uint64_t> places;
  };
  enum class Of { vmap, call, undivided_call };
  /// Of vmap's function; or of one that an operation carries, which may have captured lanes, and within which they may not part if it is
  /// undivided.
  PathRun(std::shared_ptr<const Vmap> vmap, RowsPtr lanes, Of what);

  struct Results {
    Outputs outputs;
    std::vector<bool> batched;  // with the lanes as axis 0; else one for all
    bool divided = false;
  };
  /// f of the lanes of `inputs`, which carry them as axis 0 where `batched` says so.
  Results operator()(FlatFunction f, std::span<const Tensor> inputs, const std::vector<bool>& batched);

  Outputs handle(Call& call) override;
  Tensor handle(ReadStorage& read) override;
  Path handle(WhichPath&) override;
  std::optional<Index> handle(AxisSize& axis) override;
  bool discreet() const noexcept override { return true; }
  bool takes_programs() const noexcept override { return true; }
  std::string describe() const override;
  /// What the running path performed so far, and performs, cannot be answered from a log.
  void end_log() noexcept { path_->log = nullptr; }
  /// Whether the rows that paths take of values may be kept: not where a recorder may forget that they were.
  bool keeps_rows = true;

 private:
  struct LanePath {
    RowsPtr lanes;
    bool alone = false;  // one lane of several: computes on its real values
    int number = 0;
    PathLogPtr log;  // that it writes; null: none
    // What it replays: logs from the first one on, of the last one the first event alone. Empty: it performs.
    std::vector<PathLogPtr> replays;
    std::size_t segment = 0, step = 0, event = 0;
    std::vector<LaneValuePtr> pinned;  // what the function had when it came to the read, for as long as it replays
    std::vector<std::pair<PathLog*, std::size_t>> alive;  // steps of the logs before its own; no others are
    PathEffects::Answers known_effects;
    std::optional<PathEffects> effects;
    std::vector<Tensor> kept;  // answers to reads that stay
    std::vector<Sown> sown;    // since lanes parted
    Outputs outputs;

    void note(const Op& op, LaneValue* output);
    void note(PathLog::Event event);
    void pin();
    const PathLog::Step& next_step();
    const PathLog::Event& next_event() { return replays[segment]->events[event++]; }
    void end_replay();
  };
  struct Argument {
    Tensor same;         // for all lanes
    LaneValuePtr value;  // null: `same`
    Shape shape;
    NamePtr label;
  };

  class Alone;
  void run(LanePath& path, FlatFunction f, std::span<const Argument> arguments);
  Results joined(std::span<const std::unique_ptr<LanePath>> paths) const;
  Tensor part_of(const LanePath& path, const Tensor& output) const;
  Tensor rows_of(const Lanes& lanes, const LanePath& path) const;
  bool is_alone(const Rows& lanes) const noexcept { return lanes.size() == 1 && vmap_->size > 1; }

  Outputs performed(Call& call);
  Outputs replayed(Call& call);
  Tensor replayed_read(const LaneValuePtr& value);
  Tensor divided(const Lanes& read, const Tensor& x);
  std::unique_ptr<LanePath> parted(const LaneValuePtr& read, std::vector<std::int32_t> lanes, Tensor answer) const;

  // What lanes that parted sow, as further results: paths_effects.cpp.
  bool is_joined(const Call& sow) const;
  Outputs sown(const Call& sow);
  std::vector<Sown> take_sown(std::span<const std::unique_ptr<LanePath>> paths) const;
  static void sow_all(std::span<const Sown> sown, Results& results);

  // Collectives over the lanes, by the axis' name: paths_collective.cpp.
  bool answers(const Call& call) const;
  Outputs collective(const Call& call);

  // The operation `call`: paths_carried.cpp.
  Outputs handle_carrying(Call& call);
  FunctionAttributes lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                            std::shared_ptr<bool> outputs_batched) const;

  const std::shared_ptr<const Vmap> vmap_;
  const RowsPtr lanes_;
  const Of what_;
  const InstallationId id_ = next_installation_id();
  int paths_ = 0;                                    // so far
  LanePath* path_ = nullptr;                         // that runs
  std::vector<std::unique_ptr<LanePath>> aside_;     // for later; the last one is next
  std::vector<PathEffects::OfPath> before_parting_;  // of lanes that parted
};

}  // namespace stave_detail
