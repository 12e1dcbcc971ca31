// compile: records what a function performs at its first call, and replays the recording
// afterwards.
//
//   const auto step = compile([](const Params& p, const Tensor& x, const Tensor& y) {
//     return value_and_grad(loss)(p, x, y);
//   });
//   // The first call runs the function; the next ones run only the operations that it performs.
//   auto [value, gradient] = step(params, x, y);
//
// compile(f) returns what f returns, bit for bit, provided that f learns about its tensors only by
// reading them and by errors that it catches, and about the outside world only by effects. Other
// actions of f (printing, counting, assigning to variables outside) happen when f is recorded,
// and not when it is replayed. Tensors and numbers that f captures are constants from then on.
// {.check = true} runs f beside each replay and throws where the results differ. There are two
// exceptions. First, some derivatives of `loop` and `scan` equal those of f only up to rounding:
// those of second and higher order, and the gradient with respect to the initial carry of a scan if
// that carry is also used elsewhere. Second, a zero in the first gradient of a loop with snapshots,
// or of a loop inside another one, may have the other sign.
//
// - Control flow: values are concrete while f is recorded: if, while and item() work. Each value
//   that f reads is a guard. A replay that finds another value runs f again and adds its path to
//   a tree of recorded paths, for up to 16 values of a read. A path is not added where many were
//   added since the last replay that reached the end; and from the fifth value of an array on,
//   only when that value occurs for the second time. compiled.recordings() counts the paths. In
//   compile(vmap(f)) the guard is the value of all lanes together: a replay needs a recording with
//   the same values in all lanes.
// - Effects of your own types that a handler outside of f answers happen in each call, once, in
//   order, and the handlers that are installed around that call answer them. A replay passes them
//   the tensors that it computes. Tensors in an answer are inputs. Everything else in an answer,
//   and the shapes, dtypes and strides of its tensors, is a guard. core/effects/recordable.h says
//   which types effects and answers may have.
// - Errors: an operation that throws an error which f catches is a guard, by the error's type.
//   If f reads the error's text, the recording is not kept.
// - A recording is valid for arguments of the shapes, dtypes, strides and structure that it was
//   made with, and with equal numbers, strings and the like beside their tensors. A compiled
//   function keeps recordings for the 64 such signatures that were used last.
// - Donated arguments: a replay may take the memory of a tensor that is moved in and that nobody
//   else holds, if the tensor is a whole array on the CPU. A result that replaces a part of it
//   (dynamic_update_slice, scatter, x.at(i).set(y)) is computed there, and so is a result of the
//   same size that is computed when the argument is not needed any more. Later operations must not
//   be able to throw, except for updates whose indices were checked before.
// - Under grad, jvp and vmap, f is recorded at an example (the values of one lane). Derivatives
//   and batched forms of the recording are programs again, made at their first use. Such a program
//   ends at each read and effect. compile(grad(f)) records f and its derivative together, and is
//   therefore faster. f itself is called where a value that it reads differs between lanes; where
//   an effect of f holds tensors, if it is answered or other effects follow; and where the function
//   of a higher-order operation (such as a checkpoint) performs an effect or throws.
// - Under other handlers of operations (debug, a checkpoint, your own), f itself is called,
//   because such a handler must see each operation and a replay performs none. To keep the speed,
//   compile a function that installs the handler: the operations that the handler performs are
//   then recorded. f is also called under a handler that answers an effect, such as `sample`,
//   which no handler answered when f was recorded.
// - Rules of functions that f calls (custom_vjp, custom_jvp) are recorded with f, up to the order
//   of the derivatives that the call takes. A call that takes a higher order makes another
//   recording; therefore a rule may call the function whose rule it is. Rules of custom_vmap are
//   recorded at their first use.
// - When 16 calls in a row find something that was not recorded, the next 16 calls run f itself, at
//   no further cost. If calls after that still find nothing recorded, the next 32 calls run f, then
//   64 and so on. f itself runs from then on if no recording can serve: if f reads more than 16 MiB
//   at once, performs effects that cannot be recorded, or captures values that an outer transform
//   traces.
// - Cost: the first call runs f, records it and shortens the recording. The second call
//   plans the recording. From the third call on only kernels are called. For 30,000 small
//   operations the three take 3 to 5 times, 1 to 3 times and half of the time of f itself (bars
//   first_call_vs_eager and the next ones of tests/bench). A call that finds something new costs f
//   and the replay up to that point; the new path is planned when it is taken again.
// - STAVE_EXPLAIN=1 in the environment reports, under the function's name (.name), when f is called
//   and why. It also reports what is machine code, and why elementwise operations were not fused
//   with those whose results they read ("exp of [4] is broadcast to [1000,4]: ...").
#pragma once

#include <functional>
#include <memory>

#include <stave/handlers/compile/call_effect_log.h>
#include <stave/handlers/compile/trace.h>
#include <stave/handlers/transforms/same_besides_tensors.h>

namespace stave {

struct CompileOptions {
  /// Runs the function beside each replay, and throws TransformError where the results differ.
  bool check = false;
  /// The name of the function in errors, explanations (STAVE_EXPLAIN) and reports: "compile(ik)".
  std::string name = {};
  /// Whether operations on small arrays run as machine code, on the CPU: where that pays, never, or
  /// everywhere. With Native::required, a call throws TransformError, which names the operation, if
  /// one has no machine code.
  Native native = Native::automatic;
  /// Prepares what the recorded function captures, such as the weights of a model, for many runs:
  /// it packs them for products of matrices, transforms them for convolutions by Winograd's
  /// algorithm, and folds the scales of batch normalisation into them. These weights take memory
  /// beside the captured ones. Results may differ from those of the function in the last digits: on
  /// random values, a convolution's error is below 1e-6 of the sum of |x w|. Where a window
  /// contains an infinity, the result may be NaN.
  bool for_inference = false;
};

}  // namespace stave

namespace stave_detail {

/// The recordings of one function. Thread-safe.
class Recordings {
 public:
  explicit Recordings(const CompileOptions& options);
  ~Recordings();
  Recordings(const Recordings&) = delete;

  /// Returns true if a recorded call had the same arguments as this one, apart from tensors.
  using Same = FunctionRef<bool(const StaticArguments&)>;
  struct Signature;  // the layouts of a call's tensors
  struct Entry;      // the recordings for one signature
  using EntryPtr = std::shared_ptr<Entry>;

  /// Returns the entry for calls with these tensors and arguments, and creates it at the first such
  /// call. Returns null if f itself must be called.
  EntryPtr find(std::span<const Tensor> leaves, Same same, FunctionRef<std::unique_ptr<StaticArguments>()> arguments);
  /// Returns true if transforms trace the call's tensors, and receive the recording as a closed
  /// call.
  static bool is_followed(const Entry& entry);

  struct Answer {
    Outputs outputs;
    // The structure of the result, from the recording of the path that was replayed.
    std::shared_ptr<const void> structure;
  };
  /// Replays the recordings. Returns nothing if no recorded path fits. `may_learn` then says
  /// whether the path should be recorded. A replay may take the memory of leaves that have no other
  /// owner: a leaf is empty then, even if the replay throws. Where nothing is returned, the leaves
  /// are as before.
  static std::optional<Answer> replay(const EntryPtr& entry, std::span<Tensor> leaves, CallEffectLog& effect_log,
                                      bool& may_learn);
  /// Runs f, records it, and returns its results without notes. `structure` is called once f has
  /// run.
  Outputs record(const EntryPtr& entry, FlatFunction f, std::span<const Tensor> leaves, CallEffectLog& effect_log,
                 FunctionRef<std::shared_ptr<const void>()> structure);
  /// For a call whose tensors transforms trace: runs `record` at examples of these tensors.
  /// An error in it is not thrown, because f itself is called next and throws it.
  static void record_example(const EntryPtr& entry, std::span<const Tensor> leaves, CallEffectLog& effect_log,
                             FunctionRef<void(std::span<const Tensor>)> record);

  std::size_t count() const;
  /// Returns the function's name for messages: "compile(ik)", or "compile".
  const char* name() const noexcept;

 private:
  struct State;
  class Replay;
  void explain_call() const;  // reports that f itself is called
  std::unique_ptr<State> state_;
};

/// Throws TransformError unless both have the same bits.
void check_replay(const char* name, const Outputs& replayed, const Outputs& performed);

template <class F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options)
      : f_(std::move(f)), options_(std::move(options)), recordings_(std::make_shared<Recordings>(options_)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Selected = SelectTrees<A...>;
    if constexpr (can_call<Returns::anything, const F, Selected, A...>) {
      using Result = typename Calls<const F, Selected, A...>::Result;
      static_assert(may_pass<Result>,
                    "stave: compile: the function returns a type that holds tensors where transforms cannot find them");
      static_assert(std::is_copy_constructible_v<Result>,
                    "stave: compile: the function returns a type that cannot be copied");
      return run<Result>(std::forward<A>(args)...);
    } else {
      return Refused();
    }
  }

  /// Returns the number of recorded paths through the function, for all signatures together.
  std::size_t recordings() const { return recordings_->count(); }
  /// Returns another function, compiled with the options of this one.
  template <class Other>
  Compiled<Other> like(Other other) const {
    return Compiled<Other>(std::move(other), options_);
  }

 private:
  template <class Result, class... A>
  Result run(A&&... args) const {
    using Static = StaticArgumentsOf<Decayed<A>...>;
    std::vector<Tensor> leaves = all_leaves(args...);
    const auto same = [&](const StaticArguments& kept) { return Static::same(kept, args...); };
    const auto entry = recordings_->find(
        leaves, same, [&]() -> std::unique_ptr<StaticArguments> { return std::make_unique<Static>(args...); });
    const auto plainly = [&]() -> Result { return std::invoke(f_, std::forward<A>(args)...); };
    if (!entry) return plainly();
    CallEffectLog effect_log(recordings_->name());  // the effects of this call
    bool may_learn = true;
    const bool donates = !options_.check && !Recordings::is_followed(*entry);
    if (donates) (put_donated<A>(args, nullptr), ...);
    auto answer = Recordings::replay(entry, leaves, effect_log, may_learn);
    if (donates && !answer) {
      const Tensor* next = leaves.data();
      ((next = put_donated<A>(args, next)), ...);
    }
    if (!answer && !may_learn) return std::move(effect_log).run(plainly);
    if (!answer && Recordings::is_followed(*entry)) {
      Recordings::record_example(entry, leaves, effect_log, [&](std::span<const Tensor> examples) {
        std::tuple<StoredArgument<Decayed<A>>...> copies(args...);
        std::apply(
            [&](auto&... copy) { learn<Result>(entry, examples, effect_log, static_cast<A&&>(passed(copy))...); },
            copies);
      });
      answer = Recordings::replay(entry, leaves, effect_log, may_learn);
      if (!answer) return std::move(effect_log).run(plainly);
    }
    if (!answer) return learn<Result>(entry, leaves, effect_log, std::forward<A>(args)...);
    Result result = tree_copy(*static_cast<const Result*>(answer->structure.get()));
    put(result, answer->outputs.data());
    if (options_.check) {
      const Result beside = std::move(effect_log).run(plainly);
      check_replay(recordings_->name(), answer->outputs, leaves_of(beside));
    }
    return result;
  }

  // Runs f, and records it.
  template <class Result, class... A>
  Result learn(const Recordings::EntryPtr& entry, std::span<const Tensor> leaves, CallEffectLog& effect_log,
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
    const Outputs outputs = recordings_->record(entry, flat, leaves, effect_log, structure);
    put(*result, outputs.data());
    return std::move(*result);
  }

  // Replaces the tensors of an argument that is moved in by those from `next` on; null: by empty
  // tensors, so that `leaves` are the only owners. Returns the tensors after those of the argument.
  template <class A>
  static const Tensor* put_donated(std::remove_reference_t<A>& arg, const Tensor* next) {
    if constexpr (is_donated<A>) {
      PutLeaves put{next};
      put_leaves<true>(arg, put);
      return put.next;
    } else {
      return next ? next + all_leaves(arg).size() : nullptr;
    }
  }
  // A const argument, and a tree that shares objects with others, cannot give up its tensors.
  template <class A>
  static constexpr bool is_donated = [] {
    if constexpr (std::is_lvalue_reference_v<A> || std::is_const_v<std::remove_reference_t<A>> || !is_tree<A>)
      return false;
    else return !may_share<Decayed<A>>;
  }();

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
  std::shared_ptr<Recordings> recordings_;  // shared by all copies
};

/// Compiles `made`, a function that the library derived from a compiled function, such as
/// vmap(grad(f)), with the options of f. The result records `made` as a whole.
template <class F, class Made>
auto compiled_like(const Compiled<F>& f, Made made) {
  return f.like(std::move(made));
}

}  // namespace stave_detail

namespace stave {

/// Returns f as a callable that records f at its first call and replays the recording afterwards.
/// It takes the arguments and returns the results of f. Those parts of arguments that are not
/// tensors are compared by ==. The callable keeps a copy of f, and calls it wherever no recording
/// serves, so objects that f captures by reference must live as long as the callable and its
/// copies.
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
