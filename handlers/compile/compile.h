// compile: a function that is recorded at its first call, and replayed from then on.
//
//   const auto step = compile([](const Params& p, const Tensor& x, const Tensor& y) { return value_and_grad(loss)(p, x, y); });
//   auto [value, gradient] = step(params, x, y);     // the first call runs the function; the next ones only what it computes
//
// What it promises: the results of f, bit for bit, where all that f learns from its tensors it learns by reading them, or by errors
// that it catches, and all that it asks the world it asks by effects. What f does besides (printing, counters, variables that it changes)
// is done when it is recorded, and not when it is replayed; tensors and numbers that it captures are constants from then on.
// {.check = true} runs f beside each replay and throws where they differ. (Derivatives of second and higher order of `repeat` are f's up
// to rounding; a zero in a first gradient of one with snapshots, or in another one, may have the
// other sign.)
//
// - Values are real while it is recorded, so if, while and item() work. What is read is a branch: a replay that meets another value
//   runs f again, and adds the way that it goes, for up to 16 values of a read; not where much was already recorded since the last
//   replay, and from the fifth value of an array on when it is met again. compiled.recordings() counts the ways. Under a vmap inside of
//   f a read is of all lanes: compile(vmap(f)) replays the pattern of lanes that it met before.
// - Effects of one's own that something outside of f answers happen at each call, once, in order, by the handlers that stand there. A
//   replay gives them the tensors that it computes. Tensors of an answer are inputs; what else an answer holds, and their shapes, dtypes
//   and strides, are a branch. What effects and answers may be made of: core/effects/kept.h.
// - An operation that throws an error which f catches is a branch, by the error's type. If f asks for the error's text, f is called.
// - A recording serves arguments of the shapes, dtypes, strides and structure for which it was made, with equal numbers, strings and the
//   like beside their tensors. Of a named function of one's own, 64 are kept.
// - Under grad, jvp and vmap it is recorded at an example (a lane's values), and the derivatives and lanes of what is recorded are
//   programs again, made at the first use. They end at each read and effect, so compile(grad(f)), where nothing does, is faster still. A
//   read that differs between lanes is f's own affair: f is called. So it is where an effect of f holds tensors, if it is answered or
//   others follow, or where a function that an operation carries (a checkpoint) performs one or throws.
// - Under other handlers of operations (debug, one's own, a checkpoint), f itself is called: they are to see each operation, and a replay
//   performs none. Compile a function that installs the handler instead: what the handler performs is recorded then. f is called, too,
//   under those that answer `sample` and the like, which nobody heard when it was recorded.
// - Rules of functions that it calls (custom_vjp, custom_jvp) are recorded with it for as many derivatives as are taken at once, which is
//   another recording where they are more; so a rule may call the function whose rule it is. Those of custom_vmap at the first use.
// - f itself is called for a while, at no further cost, where 16 calls in a row met what was not met before: for 16 calls, then, if
//   still nothing is met again, for 32, 64 and so on. It is from then on where recordings do not serve: reads of more than 16 MiB, effects
//   that cannot be kept, captured values that a transform outside follows.
// - What calls cost: the first one runs f, writes down what it performs and shortens that, the second plans it, from the third on
//   kernels are called, and nothing else. Of 30,000 small operations the three take 3 to 5, 1 to 3 and half of the time of f itself (bars
//   first_call_vs_eager and the next ones of tests/bench). A call that meets what was not met before costs f and the replay up to there;
//   what it recorded is made ready when it is met again.
// - STAVE_EXPLAIN=1 in the environment says so, and why, by the function's name (.name); and why elementwise operations were not fused
//   with those they read ("exp of [4] is broadcast to [1000,4]: ...").
#pragma once

#include <functional>
#include <memory>

#include <stave/handlers/compile/asked.h>
#include <stave/handlers/compile/trace.h>
#include <stave/handlers/transforms/same_besides_tensors.h>

namespace stave {

struct CompileOptions {
  /// Runs the function beside each replay, and throws TransformError where they differ.
  bool check = false;
  /// What errors, explanations (STAVE_EXPLAIN) and reports call the function: "compile(ik)".
  std::string name = {};
};

}  // namespace stave

namespace stave_detail {

/// The recordings of one function.
class Recordings {
 public:
  /// `name`: the function's; empty: it has none.
  explicit Recordings(const std::string& name);
  ~Recordings();
  Recordings(const Recordings&) = delete;

  /// Whether a recorded call had these arguments besides tensors.
  using Same = FunctionRef<bool(const StaticArguments&)>;
  struct Signature;  // of a call's tensors
  struct Entry;      // what was recorded for a signature
  using EntryPtr = std::shared_ptr<Entry>;

  /// The entry for such a call, made at the first. Null: f is to be called itself.
  EntryPtr find(std::span<const Tensor> leaves, Same same, FunctionRef<std::unique_ptr<StaticArguments>()> arguments);
  /// Whether transforms follow the call's tensors, and take what is recorded whole.
  static bool is_followed(const Entry& entry);

  struct Answer {
    Outputs outputs;
    std::shared_ptr<const void> structure;  // of the result, as the recording that ended so left it
  };
  /// What the recordings give; nothing where no way leads on from what is met. `may_learn`: that is to be recorded.
  static std::optional<Answer> replay(const EntryPtr& entry, std::span<const Tensor> leaves, AskedOutside& asked,
                                      bool& may_learn);
  /// f, recorded: its own results, without notes. `structure` is asked for when f has run.
  Outputs record(const EntryPtr& entry, FlatFunction f, std::span<const Tensor> leaves, AskedOutside& asked,
                 FunctionRef<std::shared_ptr<const void>()> structure);
  /// Of a call that is followed: `record` at examples of its tensors. What that throws, f itself is to throw.
  static void record_example(const EntryPtr& entry, std::span<const Tensor> leaves, AskedOutside& asked,
                             FunctionRef<void(std::span<const Tensor>)> record);

  std::size_t count() const;
  /// "compile(ik)", or "compile".
  const char* name() const noexcept;

 private:
  struct State;
  class Replay;
  void explain_call() const;  // that the function itself is called
  std::unique_ptr<State> state_;
};

/// Throws TransformError, unless both are the same, bit for bit.
void check_replay(const char* name, const Outputs& replayed, const Outputs& performed);

template <class F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options)
      : f_(std::move(f)), options_(std::move(options)), recordings_(std::make_shared<Recordings>(options_.name)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Selected = SelectTrees<A...>;
    if constexpr (can_call<Returns::anything, const F, Selected, A...>) {
      using Result = typename Calls<const F, Selected, A...>::Result;
      static_assert(may_pass<Result>,
                    "stave: compile: the function returns what holds tensors where transforms cannot follow");
      static_assert(std::is_copy_constructible_v<Result>, "stave: compile: the function returns what cannot be copied");
      return run<Result>(std::forward<A>(args)...);
    } else {
      return Refused();
    }
  }

  /// How many ways of the function are recorded, for all signatures.
  std::size_t recordings() const { return recordings_->count(); }
  /// Another function, compiled with the same options.
  template <class Other>
  Compiled<Other> like(Other other) const {
    return Compiled<Other>(std::move(other), options_);
  }

 private:
  template <class Result, class... A>
  Result run(A&&... args) const {
    using Static = StaticArgumentsOf<Decayed<A>...>;
    const std::vector<Tensor> leaves = all_leaves(args...);
    const auto same = [&](const StaticArguments& kept) { return Static::same(kept, args...); };
    const auto entry = recordings_->find(
        leaves, same, [&]() -> std::unique_ptr<StaticArguments> { return std::make_unique<Static>(args...); });
    const auto plainly = [&]() -> Result { return std::invoke(f_, std::forward<A>(args)...); };
    if (!entry) return plainly();
    AskedOutside asked(recordings_->name());  // in this call
    bool may_learn = true;
    auto answer = Recordings::replay(entry, leaves, asked, may_learn);
    if (!answer && !may_learn) return std::move(asked).run(plainly);
    if (!answer && Recordings::is_followed(*entry)) {
      Recordings::record_example(entry, leaves, asked, [&](std::span<const Tensor> examples) {
        std::tuple<StoredArgument<Decayed<A>>...> copies(args...);
        std::apply([&](auto&... copy) { learn<Result>(entry, examples, asked, static_cast<A&&>(passed(copy))...); },
                   copies);
      });
      answer = Recordings::replay(entry, leaves, asked, may_learn);
      if (!answer) return std::move(asked).run(plainly);
    }
    if (!answer) return learn<Result>(entry, leaves, asked, std::forward<A>(args)...);
    Result result = tree_copy(*static_cast<const Result*>(answer->structure.get()));
    put(result, answer->outputs.data());
    if (options_.check) {
      const Result beside = std::move(asked).run(plainly);
      check_replay(recordings_->name(), answer->outputs, leaves_of(beside));
    }
    return result;
  }

  // Runs f, recorded.
  template <class Result, class... A>
  Result learn(const Recordings::EntryPtr& entry, std::span<const Tensor> leaves, AskedOutside& asked,
               A&&... args) const {
    std::optional<Result> result;
    const auto flat = [&](std::span<const Tensor> inputs) {
      result.emplace(call_with_leaves<true>(SelectTrees<A...>(), f_, inputs, std::forward<A>(args)...));
      Outputs outputs = leaves_of(*result);
      put(*result, nullptr);
      return outputs;
    };
    const auto structure = [&] {
      auto kept = std::make_shared<Result>(tree_copy(*result));
      put(*kept, nullptr);
      return std::shared_ptr<const void>(std::move(kept));
    };
    const Outputs outputs = recordings_->record(entry, flat, leaves, asked, structure);
    put(*result, outputs.data());
    return std::move(*result);
  }

  template <class Result>
  static Result tree_copy(const Result& result) {
    if constexpr (is_tree<Result>) return copy_tree(result);
    else return result;
  }
  template <class Result>
  static Outputs leaves_of(const Result& result) {
    if constexpr (is_tree<Result>) return flat_outputs<true>(result);
    else return {};
  }
  template <class Result>
  static void put(Result& result, const Tensor* outputs) {
    PutLeaves put{outputs};
    if constexpr (is_tree<Result>) put_leaves<true>(result, put);
  }

  F f_;
  CompileOptions options_;
  std::shared_ptr<Recordings> recordings_;  // of all copies
};

/// What a function of the library makes of one that is compiled, compiled as a whole.
template <class F, class Made>
auto compiled_like(const Compiled<F>& f, Made made) {
  return f.like(std::move(made));
}

}  // namespace stave_detail

namespace stave {

/// f, recorded and replayed. Arguments and results as f's; what of an argument is no tensor is
/// compared by ==. The callable keeps a copy of f, and calls it wherever no recording serves: what
/// f captures by reference must live as long as the callable and its copies.
template <class F>
auto compile(F f, CompileOptions options = {}) {
  return stave_detail::Compiled<F>(std::move(f), std::move(options));
}

#define STAVE_NAMES(Name)                                                     \
  inline auto compile(stave_detail::Name f, CompileOptions options = {}) {    \
    return stave_detail::Compiled<stave_detail::Name>(f, std::move(options)); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
