// Control flow under vmap: runs a function for many lanes, path by path. Internal to vmap.cpp.
//
// A path is one run of the function for a set of lanes. At first there is one path with all lanes,
// and its operations are batched. If the function reads a value (item, bool, to_vector, data) whose
// bits differ between lanes, the lanes split. The running path continues with the lanes that agree
// with its first lane. It takes the rows of these lanes from a value when it next needs that value,
// so nothing is unwound. Every other group of lanes is set aside. When the path has ended,
// the function runs again from its start for each group: up to the read its operations are answered
// from the log of the first run, and after that they are performed. At the end the results
// of all paths are joined in the order of the lanes.
//
// An operation that throws for some lanes splits the path likewise, into the lanes for which it
// succeeded and those for which it threw. These are found by performing the operation for parts
// of the lanes (paths_errors.cpp). Errors that a program need not tell apart form one group:
// - errors of the library, if they have one type and first lines that differ only in numbers;
// - other std::exceptions, if they have one type and one text.
// Each exception that is not a std::exception is a group of its own.
//
// Some errors belong to all lanes, and do not split them:
// - errors of memory and of transforms, and cancellation;
// - errors of an operation that uses no lane's value, and of entries that fail in every lane;
// - errors of shapes, dtypes and devices, unless a higher-order operation's function throws them:
//   its paths may differ in these;
// - an error that no lane throws by itself.
// If an effect is performed once for each lane and its handler throws for some, the lanes split
// as well.
//
// A run that is answered from the log is checked: it must perform the operations of the log, with
// the same attributes. The first 32 operands are compared: those that are the same in all lanes by
// samples of their elements, if these can be read here, and those that are lanes' values by their
// identity. This detects most state that the function changes outside of itself.
//
// The log keeps no value alive. A value that was freed before the lanes split is called dead: no
// later operation needs it, so the second run gets a placeholder in its place. A single lane
// usually runs the function from the start on real values instead, if that takes no longer than
// replaying the log. Lanes also run from the start if their path has no log: it became too long, or
// its operations include higher-order ones (checkpoint) or a recorded loop.
//
// Paths pass the operations that they perform on to the handlers outside of vmap, as operations on
// batched tensors, or on the real values of a single lane. To these handlers they are ordinary
// operations, so derivatives of any order and nested vmaps work.
#pragma once

#include <any>
#include <optional>
#include <vector>

#include <stave/core/op/higher_order.h>
#include <stave/core/op/recorded_answer.h>
#include <stave/core/ops/collective.h>
#include <stave/handlers/transforms/lanes.h>
#include <stave/handlers/transforms/record_loop.h>
#include <stave/handlers/transforms/sow.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

/// The operations that a path performed between two splits of its lanes. The log belongs to the
/// thread on which vmap runs.
struct PathLog : RefCounted {
  /// The arguments of an operation in the first run. A second run is checked against them,
  /// which detects state that the function changes outside of itself.
  struct Given {
    AttributesPtr attributes;
    std::uint32_t outside = 0;  // hash of samples of the inputs that are the same in all lanes
    std::uint32_t lanes = 0;    // hash of the identities of the inputs that are lanes' values
    // Mask of the inputs that are lanes' values, for the first 32 inputs.
    std::uint32_t mask = 0;
    // True if an input that is the same in all lanes cannot be read here, because it holds the
    // lanes of an outer vmap or is on a device.
    bool unread = false;
    void add(std::size_t i, const Tensor& input, const Lanes* lane) noexcept;
  };
  struct Step {
    const Op* op;  // null: this step is the next entry of `events`
    // One output of the operation. Null: the output is dead, or `bytes` is `untouched`.
    LaneValue* value;
    // If `value` is null: the size of the dead value in bytes, or `untouched`: the operation used
    // no lane's value, and may be performed again.
    std::size_t bytes;
    // Arguments of the operation, in the step of its first output or of its event.
    Given given = {};
  };
  static constexpr std::size_t untouched = ~std::size_t{0};
  // Either a read, with its answer or exception, or an operation, with its exception or with the
  // result that all lanes computed together (a collective).
  struct Event {
    // The value that was read, given by the log and step of its LaneValue. An argument of the
    // function has no log: then `log` is the address of the LaneValue, and `step` is 0.
    const void* log = nullptr;
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
  std::size_t length = 0;  // number of steps in the logs before this one
  // The sum of the sizes of the largest inputs of all operations on lanes' values, in elements of
  // one lane, including the operations of earlier logs.
  std::uint64_t work = 0;
  // True if this log, or an earlier one, holds a collective's result, which all lanes computed
  // together.
  bool has_collective = false;
  int alone_below = 0;  // PathRun::alone_below() when the first log began
  PathLog* next_to_free = nullptr;

  PathLog(IntrusivePtr<PathLog> previous, RowsPtr rows)
      : before(std::move(previous)), lanes(std::move(rows)), length(before ? before->length + before->steps.size() : 0),
        work(before ? before->work : 0), has_collective(before && before->has_collective),
        alone_below(before ? before->alone_below : 0) {}
  /// Returns true if replaying the log for a lane takes less time than computing the lane's values.
  bool saves_work() const noexcept {
    if (has_collective) return true;  // a lane cannot compute a collective's result by itself
    // If operations have fewer elements than this on average, computing them is as fast as
    // replaying them.
    constexpr std::uint64_t least = 1024;
    return work >= least * (length + steps.size());
  }
  ~PathLog() {
    for (const Step& step : steps)
      if (step.value) step.value->log = nullptr;
  }
};
using PathLogPtr = IntrusivePtr<PathLog>;
void destroy(PathLog* log) noexcept;  // frees the log and the logs before it, without recursion
/// Returns the event of a read of `value`. The event identifies the value in the same way each time
/// that the function runs, even if a run attaches a label to the value.
PathLog::Event event_of_read(const LaneValuePtr& value, Tensor answer);
[[noreturn]] void fail_other_way(const std::string& performed, const std::string& logged);

/// Says which lanes have an error that an operation threw for several lanes: all of them,
/// whatever their values (of_all); each lane by itself (of_each); or some lanes by themselves
/// (of_some). A null `op` means that a function or a handler threw the error: these may throw
/// errors of shapes, dtypes and devices for some lanes.
enum class Whose { of_all, of_each, of_some };
Whose whose_error(const std::exception_ptr& threw, const Op* op);
/// Returns a text that is equal for errors that a program need not tell apart: errors of the
/// library with one type and first lines that differ only in numbers or in the function's name, and
/// other std::exceptions with one type and one text. It is empty for other exceptions.
std::string kind_of_error(const std::exception_ptr& threw);

class PathRun;

/// Calls `visit` with each PathRun around the place where it is performed, from inside out. A vmap
/// has several if a higher-order operation's function runs on paths of its own.
struct VisitRuns {
  static constexpr bool remembered = false;
  using Result = void;
  const FunctionRef<void(const PathRun&)> visit;
  static void unhandled() noexcept {}
};

class PathEffects;
/// Finds the innermost or the outermost installed PathEffects of a vmap; null if there is none.
struct FindPathEffects {
  static constexpr bool remembered = false;
  using Result = PathEffects*;
  const Vmap& vmap;
  const bool outermost;
  static PathEffects* unhandled() noexcept { return nullptr; }
};

/// The log of the answers to a path's effects. The answers from before the path's lanes split from
/// others are known, and are replayed.
class PathEffects final : public Remembers, public Handling<Sowing>, public Handling<FindPathEffects> {
 public:
  using Answers = std::vector<std::any>;
  /// The run of a function for these lanes.
  struct Run {
    const Vmap& vmap;
    const Rows& lanes;
    InstallationId id;
    PathRun& paths;
  };
  /// Creates the log for a path with these lanes. `alone` becomes true when the path is left with
  /// one of several lanes.
  PathEffects(Run run, const RowsPtr& lanes, const bool& alone, Answers known)
      : run_(run), lanes_(lanes), alone_(alone), known_(std::move(known)) {}
  std::string describe() const override { return ""; }
  void* handling(const EffectType& effect) override;
  const std::any* next_answer() override;
  void remember(std::any answer) override;
  void forget(const std::type_info&) override { remember(Forgotten()); }
  std::any answer_recordable(const EffectType& effect, std::any performed) override;
  Sowing::Result handle(Sowing& sowing) override;
  PathEffects* handle(FindPathEffects& find) override;

  /// The results of collectives of all lanes, in order. Lanes that split later may run again from
  /// the start without a log, and then get the same results. The outermost run of the vmap keeps
  /// the results, so they include those inside the functions of higher-order operations.
  struct CollectiveResult {
    const Op* op;
    LaneValuePtr value;  // null: `same` is the result for all lanes
    Tensor same;
  };
  std::vector<CollectiveResult> collective_results;
  std::size_t next_collective = 0;

  /// Returns the answers that these lanes have received so far. They include the answers inside a
  /// higher-order operation's function that all of these lanes received together.
  Answers of(const Rows& lanes) const;
  /// A Mark is a position on the path. A State holds all answers that are known at a position, and
  /// the path can be restored to it.
  struct Mark {
    std::size_t next, calls, given, collectives;
  };
  Mark mark() const noexcept { return {next_, calls_, given_.size(), collectives_so_far()}; }
  struct State {
    Answers known, given;
    std::size_t next, calls, collectives;
  };
  State state() const { return {known_, given_, next_, calls_, collectives_so_far()}; }
  /// Returns the state at the mark. The answers received since the mark are known answers of this
  /// state, so another run from the mark receives them again.
  State state_at(const Mark& mark) const;
  void restore(State state);
  struct OfPath {
    RowsPtr lanes;
    Answers answers;
  };
  /// Marks the start of a higher-order operation's function, which runs here on paths of its own.
  /// Returns the number of answers so far.
  std::size_t call_begins();
  /// Marks the end of such a function. `count` is the number that call_begins returned. `paths`
  /// holds the answers that each of the function's paths received. `before` holds the answers up to
  /// each split, in the order of the splits.
  void call_ends(std::size_t count, std::vector<OfPath> before, std::vector<OfPath> paths);

 private:
  struct Branches;
  struct OpaqueAnswer;
  // The last result of next_answer(), if derivatives of the answer are marked as lost for this run.
  std::any again_;
  const std::any* answer_on(const Branches& branches) const;
  static const OfPath* find_path(std::span<const OfPath> paths, std::span<const OfPath> before, const Rows& lanes);

  struct PathAnswer;
  PathAnswer answer_once(const EffectType& effect, std::any performed, const EffectTensors& given);
  PathAnswer answer_for_each(const EffectType& effect, const std::any& performed, const EffectTensors& given);
  PathAnswer answer_together(const EffectType& effect, std::any performed, const EffectTensors& given);
  Tensor tensor_of(const PathAnswer& answer, std::size_t i, const EffectTensors& given) const;
  std::any part_of_known(const EffectType& effect) const;
  struct LaneAnswer;
  LaneAnswer answer_for_lane(const EffectType& effect, const std::any& performed, const EffectTensors& given,
                             Index row);
  PathAnswer joined(const EffectType& effect, std::span<const LaneAnswer> lanes, const std::vector<std::size_t>& rows,
                    const EffectTensors& given) const;
  const PathEffects* inner_performer() const noexcept;
  std::size_t collectives_so_far() const noexcept;

  const Run run_;
  const RowsPtr& lanes_;
  const bool& alone_;
  Answers known_;
  std::size_t next_ = 0, calls_ = 0;
  // The current lane while an effect is performed lane by lane.
  std::int32_t current_lane_ = 0;
  // The answer to the current effect if the outer PathEffects of this vmap knows it; else null.
  const std::any* known_outside_ = nullptr;
  Answers given_;
};

/// Runs a function for some lanes, path by path.
class PathRun final : public Handles<Call, ReadStorage, WhichPath, AxisSize, RecordLoop, VisitRuns> {
 public:
  /// A value that lanes sow after a split. Its name includes the scopes that the function entered.
  struct Sown {
    std::string name;
    IntrusivePtr<const SowAttributes> attributes;
    Tensor value;
    std::vector<std::uint64_t> places;
  };
  enum class Kind { vmap, call, undivided_call };
  /// Creates a run of vmap's function (Kind::vmap), or of the function of a higher-order operation
  /// (Kind::call), which may have captured lanes' values. Lanes may not split in a
  /// Kind::undivided_call.
  PathRun(std::shared_ptr<const Vmap> vmap, RowsPtr lanes, Kind what);

  struct Results {
    Outputs outputs;
    // batched[i]: output i has the lanes as axis 0; otherwise it is one value for all.
    std::vector<bool> batched;
    bool divided = false;
  };
  /// Runs f for the lanes of `inputs`. `batched` says which inputs carry the lanes as axis 0.
  Results operator()(FlatFunction f, std::span<const Tensor> inputs, const std::vector<bool>& batched);

  Outputs handle(Call& call) override;
  Tensor handle(ReadStorage& read) override;
  Path handle(WhichPath&) override;
  std::optional<Index> handle(AxisSize& axis) override;
  Index handle(RecordLoop& loop) override;
  void handle(VisitRuns& runs) override {
    runs.visit(*this);
    stave::perform(runs);
  }
  HandlerProperties properties() const noexcept override {
    return {.runs_no_user_code = true, .takes_closed_calls = true};
  }
  std::string describe() const override;
  /// A group of lanes of an effect that is performed for each lane, with their answer or error. The
  /// handler either returned for all of these lanes, maybe with other tensors for each, or it threw
  /// errors of one kind. Lanes split if there are several groups.
  struct AnswerGroup {
    std::vector<std::int32_t> lanes;
    std::any answer;
  };
  void split_by_answers(const EffectType& effect, std::vector<AnswerGroup> ways);

 private:
  struct LanePath {
    RowsPtr lanes;
    bool alone = false;  // the path has one lane of several, and computes on the lane's real values
    int number = 0;
    PathLogPtr log;  // the log that the path writes; null: none
    // The logs that the path replays, from the first one on. If its lanes split by an event,
    // the last log contributes only its first event. Empty: the path performs its operations.
    std::vector<PathLogPtr> replays;
    std::size_t segment = 0, step = 0, event = 0;
    // Values that were live when the lanes split, kept alive during the replay.
    std::vector<LaneValuePtr> kept_alive;
    // The steps of earlier logs whose values were live at the last split. The values of their other
    // steps are dead.
    std::vector<std::pair<PathLog*, std::size_t>> alive;
    int errors = 0;        // number of operations that threw so far
    int known_errors = 0;  // number of these that are known to throw for all lanes of the path
    PathEffects::Answers known_effects;
    std::vector<PathEffects::CollectiveResult> known_collectives;
    std::optional<PathEffects> effects;
    std::vector<Tensor> kept;  // answers to reads whose storage must stay valid
    std::vector<Sown> sown;    // values sown since lanes split
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
    Tensor same;         // the value for all lanes
    LaneValuePtr value;  // null: `same` is used
    Shape shape;
    NamePtr label;
  };
  /// A group of lanes that take one path from here on. `event` is the event that distinguishes the
  /// group from the others in the log. There is none for lanes for which an operation succeeded,
  /// and where lanes split by an effect's answer or an error of a higher-order operation.
  struct Part {
    std::vector<std::int32_t> lanes;
    std::optional<PathLog::Event> event = {};
    std::exception_ptr threw = nullptr;  // the error by which they split; null: none
    std::any answer = {};                // the answer to an effect by which they split; or empty
  };

  class Alone;
  void run(LanePath& path, FlatFunction f, std::span<const Argument> arguments);
  Results joined(std::span<const std::unique_ptr<LanePath>> paths) const;
  Tensor part_of(const LanePath& path, const Tensor& output) const;
  Tensor rows_of(const Lanes& lanes, const LanePath& path) const;
  bool is_alone(const Rows& lanes) const noexcept { return lanes.size() == 1 && vmap_->size > 1; }

  Outputs perform_or_split(Call& call);
  Outputs performed(Call& call, PathLog::Given& given);
  static bool writes_over_inputs(const Op& op);
  bool has_given_up(const Call& call) const;
  static Outputs elementwise(Call& call, const BatchContext& c, std::span<const Lanes* const> found, Inputs& inputs);
  Tensor read(const Lanes& read, const Tensor& x);
  Tensor divided(const Lanes& read, const Tensor& x);
  void split(std::vector<Part> parts);
  std::unique_ptr<LanePath> new_path(Part part, bool checks) const;
  static int alone_below() noexcept;
  static bool throws_anew_below(const std::exception_ptr& threw) noexcept;

  // Runs that are answered from the log: paths_log.cpp.
  PathLog::Given given_of(const Call& call) const;
  void check_defined(const Call& call, const PathLog::Given& first) const;
  Outputs replayed(Call& call);
  Tensor replayed_read(const LaneValuePtr& value);

  // Errors of some lanes: paths_errors.cpp.
  struct Outcomes;
  class Narrowed;
  bool may_differ(const Call& call, const std::exception_ptr& threw) const;
  Outputs split_by_error(Call& call, PathLog::Given given, std::exception_ptr threw,
                         const std::optional<PathEffects::Mark>& mark);
  [[noreturn]] void fail_all(const Call& call, PathLog::Given given, std::exception_ptr threw);
  void find_outcomes(Call& call, std::span<const std::int32_t> lanes, std::exception_ptr error, Outcomes& found);
  void add_all(Call& call, std::span<const std::int32_t> lanes, const std::exception_ptr& threw, Outcomes& found);
  std::exception_ptr attempt(Call& call, std::span<const std::int32_t> lanes, bool alone, const Rows* named);
  std::exception_ptr error_of(Call& call, const std::vector<std::int32_t>& lanes, const std::exception_ptr& known,
                              const std::exception_ptr& threw, Outcomes& found);
  std::exception_ptr thrown_once(Call& call, std::int32_t lane, const std::exception_ptr& a,
                                 const std::exception_ptr& b, const Outcomes& found);

  // Values that lanes sow after a split. Each path returns them as additional results of the
  // function, and they are joined like these: paths_effects.cpp.
  bool is_joined(const Call& sow) const;
  Outputs sown(const Call& sow);
  std::vector<Sown> take_sown(std::span<const std::unique_ptr<LanePath>> paths) const;
  static void sow_all(std::span<const Sown> sown, Results& results);

  // Collectives over the lanes, by the name of the axis: paths_collective.cpp.
  bool answers(const Call& call) const;
  Outputs collective(const Call& call);
  Outputs perform_collective(const Call& call, const PathLog::Given& given, PathEffects* outermost);
  Outputs known_collective(const Call& call, const PathLog::Given& given, const PathEffects::CollectiveResult& known);

  // The higher-order operation `call`: paths_higher_order.cpp.
  Outputs handle_higher_order(Call& call);
  FunctionAttributes lifted(const FunctionAttributes& functions, std::vector<bool> batched,
                            std::shared_ptr<bool> outputs_batched, std::shared_ptr<bool> repeats) const;

  const std::shared_ptr<const Vmap> vmap_;
  const RowsPtr lanes_;
  const Kind kind_;
  const InstallationId id_ = next_installation_id();
  int paths_ = 0;        // number of paths so far
  int times_alone_ = 0;  // how often a running path was left with one lane
  // The last error that an operation threw in a replay although it did not throw in the first run.
  // The operation uses no lane's value.
  std::exception_ptr threw_anew_;
  std::size_t first_collective_ = 0;  // number of the first collective in this run
  LanePath* path_ = nullptr;          // the running path
  // The lanes that errors name, if one lane runs for several; null: the running lanes.
  const Rows* named_ = nullptr;
  // True while an operation is repeated that threw for some lanes. The functions of a higher-order
  // operation then begin their effect logs anew.
  bool repeats_ = false;
  // True if rows that paths take from values may be cached. It is false where a recorder may
  // discard the operation that took them, and while an operation is tried for some of the lanes.
  bool keeps_rows_ = true;
  int splits_ = 0;                                // number of splits so far
  std::vector<std::unique_ptr<LanePath>> aside_;  // paths set aside; the last one runs next
  // The answers of the lanes before each split; unused for Kind::vmap.
  std::vector<PathEffects::OfPath> before_splits_;
};

}  // namespace stave_detail
