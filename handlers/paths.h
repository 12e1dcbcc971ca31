// Control flow under vmap: a function for many lanes, path by path. Internal to vmap.cpp.
//
// A path is a run of the function for a set of lanes; at first there is one, with all of them, and its operations are batched. Where
// the function reads a value (item, bool, to_vector, data) the lanes part by the bits of what they have there. The running path goes
// on with those that are as its first lane, and takes the rows of these from a value when it next needs it: nothing is unwound. Each
// other class is put aside; when the path has ended, the function runs again from its start for that class: its operations are
// answered from the log of the first run up to the read, and performed from there on. At the end the results of all paths are
// joined in the order of the lanes.
//
// An operation that throws for some lanes divides the path likewise, into those for which it
// went on, and those for which it threw. Which they are is found by performing it for parts of
// the lanes (paths_errors.cpp). Errors that a program need not tell apart are one class: of the
// library's those of one type whose texts differ in numbers alone, of other std::exceptions
// those of one type and text; of what is no std::exception each is its own. Errors that are no
// lane's are all lanes': of memory, of shapes, dtypes and devices (but of a function that an
// operation carries, whose ways may differ), of transforms; and one that no lane meets by
// itself. If an effect that is asked for each lane is answered by an exception for some, they
// part as well.
//
// A run that is answered from the log is held to it: its operations, their attributes, samples
// of their operands that are no lanes' values, and which values the others are. State that the
// function changes outside of itself shows there.
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
  /// What an operation was given, by which a second run is held to the first: state that the
  /// function changes outside of itself shows here.
  struct Given {
    AttributesPtr attributes;
    std::uint32_t outside = 0;  // a hash of samples of the inputs that are the same in all lanes
    std::uint32_t lanes = 0;    // a hash of which values of lanes the others are
    std::uint32_t mask = 0;     // the inputs that are lanes' values, as far as there are bits
    bool unread = false;        // some of those outside cannot be looked at here: lanes of a vmap around, or a device's
    void add(std::size_t i, const Tensor& input, const Lanes* lane) noexcept;
  };
  struct Step {
    const Op* op;       // null: the next of the events
    LaneValue* value;   // an output; null: it is gone
    std::size_t bytes;  // that were behind that; `untouched`: the operation touched no lane, and may be performed again
    Given given = {};   // of an operation, at its first step
  };
  static constexpr std::size_t untouched = ~std::size_t{0};
  // A read, and what it gave or threw; or an operation, and what it threw, or gave for all lanes
  // together.
  struct Event {
    const void* log = nullptr;  // the value that was read, as a LaneValue says it; of an argument: that, and 0
    std::uint32_t step = 0;
    Tensor answer = {};
    const Op* op = nullptr;
    std::exception_ptr threw = nullptr;
    Given given = {};
  };
  IntrusivePtr<PathLog> before;
  RowsPtr lanes;
  std::vector<Step> steps;
  std::vector<Event> events;
  std::size_t length = 0;  // of those before
  std::uint64_t work = 0;  // what its operations read, in elements of a lane; of those before, too
  bool joint = false;      // it has what all lanes computed together; or those before do
  int alone_below = 0;     // PathRun::alone_below() when the first one began
  PathLog* next_to_free = nullptr;

  PathLog(IntrusivePtr<PathLog> previous, RowsPtr rows)
      : before(std::move(previous)), lanes(std::move(rows)), length(before ? before->length + before->steps.size() : 0),
        work(before ? before->work : 0), joint(before && before->joint), alone_below(before ? before->alone_below : 0) {
  }
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
/// What a read is of, the same each time that the function runs: not the label that it gives anew.
PathLog::Event event_of_read(const LaneValuePtr& value, Tensor answer);
[[noreturn]] void fail_other_way(const std::string& performed, const std::string& logged);

/// Whose error it is that an operation threw for several lanes: that of all, whatever their values;
/// or of lanes by themselves, of each or of some. Null: a function or a handler threw it, which may
/// throw any for some.
enum class Whose { of_all, of_each, of_some };
Whose whose_error(const std::exception_ptr& threw, const Op* op);
/// The same for errors that a program need not tell apart: of the library's, which differ by
/// numbers of the lane, of one type and text but for these; of others, of one type and text. Empty:
/// nobody can tell what differs.
std::string kind_of_error(const std::exception_ptr& threw);

class PathRun;

/// The answers to the effects of a path. Those before the read at which it parted from others are known.
class PathEffects final : public Remembers, public Handling<Sowing> {
 public:
  using Answers = std::vector<std::any>;
  /// Of a run, for these lanes.
  struct Run {
    const Vmap& vmap;
    const Rows& lanes;
    InstallationId id;
    PathRun& paths;
  };
  /// Of a path, which has these lanes, and is `alone` from when it has one of several.
  PathEffects(Run run, const RowsPtr& lanes, const bool& alone, Answers known)
      : run_(run), lanes_(lanes), alone_(alone), known_(std::move(known)) {}
  std::string describe() const override { return ""; }
  void* handling(const EffectType& effect) override;
  const std::any* next_answer() override;
  void remember(std::any answer) override;
  void forget(const std::type_info&) override { remember(Forgotten()); }
  std::any answer_kept(const EffectType& effect, std::any performed) override;
  Sowing::Result handle(Sowing& sowing) override;

  /// The results of collectives of all lanes, in order: lanes that part later run again from the
  /// start where there is no log, and are given the same. The outermost run of the vmap keeps them,
  /// so that those of functions that operations carry are among them.
  struct Joint {
    const Op* op;
    LaneValuePtr value;  // null: `same`, for all lanes
    Tensor same;
  };
  std::vector<Joint> joint;
  std::size_t next_joint = 0;
  /// Null: there are none.
  static PathEffects* outermost(const Vmap& vmap) noexcept;

  /// What all of these lanes were answered so far; as far as that is one.
  Answers of(const Rows& lanes) const;
  /// Where the path stands; and all that it knows there, to be brought back to.
  struct Mark {
    std::size_t next, calls, given, joint;
  };
  Mark mark() const noexcept { return {next_, calls_, given_.size(), joint_so_far()}; }
  struct State {
    Answers known, given;
    std::size_t next, calls, joint;
  };
  State state() const { return {known_, given_, next_, calls_, joint_so_far()}; }
  /// That at the mark, where all that was answered since is known already.
  State state_at(const Mark& mark) const;
  void restore(State state);
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
  struct OpaqueAnswer;
  std::any again_;  // the last one, as this run has it
  const std::any* answer_on(const Branches& branches) const;
  static const OfPath* find_path(std::span<const OfPath> paths, std::span<const OfPath> before, const Rows& lanes);

  struct KeptAnswer;
  class Tensors;
  KeptAnswer answer_once(const EffectType& effect, std::any performed, const Tensors& given);
  KeptAnswer answer_for_each(const EffectType& effect, const std::any& performed, const Tensors& given);
  KeptAnswer answer_together(const EffectType& effect, std::any performed, const Tensors& given);
  std::any known_answer(const EffectType& effect, const std::any& known, const Tensors& given) const;
  std::any part_of_known(const EffectType& effect) const;
  struct OfLane;
  OfLane ask_for(const EffectType& effect, const std::any& performed, const Tensors& given, Index row);
  KeptAnswer kept_of(const EffectType& effect, std::span<const OfLane> lanes, const std::vector<std::size_t>& rows,
                     const Tensors& given) const;
  void check_alike(const EffectType& effect, const OfLane& a, const OfLane& b, std::int32_t a_lane,
                   std::int32_t b_lane) const;
  const PathEffects* asking() const noexcept;
  std::size_t joint_so_far() const noexcept;

  const Run run_;
  const RowsPtr& lanes_;
  const bool& alone_;
  Answers known_;
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
  /// Lanes part by what each of them was answered to an effect. The answers are those of a way, for
  /// those that go it.
  struct Way {
    std::vector<std::int32_t> lanes;
    std::any answer;
  };
  void part_by_answers(const EffectType& effect, std::vector<Way> ways);
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
    // What it replays: logs from the first one on; of the last one the first event alone, if its
    // lanes parted by that. Empty: it performs.
    std::vector<PathLogPtr> replays;
    std::size_t segment = 0, step = 0, event = 0;
    std::vector<LaneValuePtr> pinned;  // what the function had when lanes parted, for as long as it replays
    std::vector<std::pair<PathLog*, std::size_t>> alive;  // steps of the logs before its own; no others are
    int errors = 0;                                       // operations that threw so far
    int known_errors = 0;                                 // so many of which are known to throw for all of its lanes
    PathEffects::Answers known_effects;
    std::vector<PathEffects::Joint> known_joint;
    std::optional<PathEffects> effects;
    std::vector<Tensor> kept;  // answers to reads that stay
    std::vector<Sown> sown;    // since lanes parted
    Outputs outputs;

    void note(const Op& op, LaneValue* output, PathLog::Given given = {});
    void note(PathLog::Event event);
    void pin();
    bool replaying();
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
  /// Lanes that go one way from here. The event is what tells them from others; none: they are told
  /// by what they perform.
  struct Part {
    std::vector<std::int32_t> lanes;
    std::optional<PathLog::Event> event = {};
    std::exception_ptr threw = nullptr;  // what the operation threw for them, by which they part
    std::any answer = {};                // what an effect was answered for them, by which they part
  };

  class Alone;
  void run(LanePath& path, FlatFunction f, std::span<const Argument> arguments);
  Results joined(std::span<const std::unique_ptr<LanePath>> paths) const;
  Tensor part_of(const LanePath& path, const Tensor& output) const;
  Tensor rows_of(const Lanes& lanes, const LanePath& path) const;
  bool is_alone(const Rows& lanes) const noexcept { return lanes.size() == 1 && vmap_->size > 1; }

  Outputs attempted(Call& call);
  Outputs performed(Call& call, PathLog::Given& given);
  Tensor read(const Lanes& read, const Tensor& x);
  Tensor divided(const Lanes& read, const Tensor& x);
  void part(std::vector<Part> parts);
  std::unique_ptr<LanePath> parted(Part part, bool checks) const;
  static int alone_below() noexcept;
  static bool throws_anew_below(const std::exception_ptr& threw) noexcept;

  // Runs from the log: paths_log.cpp.
  PathLog::Given given_of(const Call& call) const;
  void check_given(const Call& call, const PathLog::Given& first) const;
  Outputs replayed(Call& call);
  Tensor replayed_read(const LaneValuePtr& value);

  // Errors of some lanes: paths_errors.cpp.
  struct Outcomes;
  class Narrowed;
  bool may_differ(const Call& call, const std::exception_ptr& threw) const;
  Outputs divided_by_error(Call& call, PathLog::Given given, std::exception_ptr threw,
                           const std::optional<PathEffects::Mark>& mark);
  [[noreturn]] void fail_all(const Call& call, PathLog::Given given, std::exception_ptr threw);
  void find_outcomes(Call& call, std::span<const std::int32_t> lanes, std::exception_ptr error, Outcomes& found);
  void add_all(Call& call, std::span<const std::int32_t> lanes, const std::exception_ptr& threw, Outcomes& found);
  std::exception_ptr attempt(Call& call, std::span<const std::int32_t> lanes, bool alone, const Rows* named);
  std::exception_ptr error_of(Call& call, const std::vector<std::int32_t>& lanes, const std::exception_ptr& known,
                              const std::exception_ptr& threw, Outcomes& found);
  std::exception_ptr thrown_once(Call& call, std::int32_t lane, const std::exception_ptr& a,
                                 const std::exception_ptr& b, const Outcomes& found);

  // What lanes that parted sow, as further results: paths_effects.cpp.
  bool is_joined(const Call& sow) const;
  Outputs sown(const Call& sow);
  std::vector<Sown> take_sown(std::span<const std::unique_ptr<LanePath>> paths) const;
  static void sow_all(std::span<const Sown> sown, Results& results);

  // Collectives over the lanes, by the axis' name: paths_collective.cpp.
  bool answers(const Call& call) const;
  Outputs collective(const Call& call);
  Outputs collected(const Call& call, const PathLog::Given& given, PathEffects* outermost);
  Outputs known_collective(const Call& call, const PathLog::Given& given, const PathEffects::Joint& known);

  // The operation `call`: paths_carried.cpp.
  Outputs handle_carrying(Call& call);
  FunctionAttributes lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                            std::shared_ptr<bool> outputs_batched, std::shared_ptr<bool> repeats) const;

  const std::shared_ptr<const Vmap> vmap_;
  const RowsPtr lanes_;
  const Of what_;
  const InstallationId id_ = next_installation_id();
  int paths_ = 0;                  // so far
  int went_alone_ = 0;             // how often a running path was left with one lane
  std::exception_ptr threw_anew_;  // the last one by an operation, the same for all lanes, that did not throw before
  std::size_t first_joint_ = 0;    // number of the first collective in it
  LanePath* path_ = nullptr;       // that runs
  const Rows* named_ = nullptr;    // whom errors name, where one lane stands for them; null: those that run
  bool repeats_ = false;           // an operation whose functions ran already, and threw
  int partings_ = 0;               // so far
  std::vector<std::unique_ptr<LanePath>> aside_;     // for later; the last one is next
  std::vector<PathEffects::OfPath> before_parting_;  // of lanes that parted
};

}  // namespace stave_detail
