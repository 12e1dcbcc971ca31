// check_keys: finds random keys that are used twice, as jax.experimental.key_reuse does.
//
//   const Tensor y = check_keys(train_step)(model, key);
//   with(KeyReuseCheck(), [&] { ... });
//
// One key gives the same numbers wherever it is used, so two uses give numbers that depend on each
// other. The first use of a key that conflicts with an earlier one throws KeyReuseError, which
// names both: operation, scopes, and the line of the source if the program was compiled with -g
// (source_lines.h).
//
//   normal(key, {3}); uniform(key);           // two samplers, or the same one twice
//   split(key); split(key);                   // the same new keys again
//   normal(key, {3}); split(key);             // the numbers are the words of the new keys
//   fold_in(key, 7); fold_in(key, 7);         // the same number; fold_in(key, 8) is another key
//   split(key, 3); fold_in(key, 1);           // row 1 of split(key, 3)
//
// - Keys are compared by their words, so Key(0) is one key however often it is made, and keys that
//   were derived along any path are distinct. Keys that were copied, read from files or taken from
//   lists are recognised.
// - Outside of vmap, a key of each lane is seen; one key that all lanes share is used once. Two
//   lanes with equal keys conflict. A loop that uses a key in each step conflicts in its second
//   step.
// - A function that runs again, as a checkpoint does in a backward pass, draws the same numbers
//   again on purpose: repeating the same operation with the same key does not count as a use there.
//   In forward mode it does.
// - Inside vmap, put check_keys(f) rather than a handler that several runs of the function share:
//   where lanes take other paths, the function runs again. Keys of several lanes are checked in the
//   first run only.
// - A compiled function is called as it is, without its recordings. Inside compile, the check sees
//   the first call only. Inside eval_shape, keys have no words, which is an error.
//
// The check reads each key that is used, which waits for the device, and remembers it in about 100
// bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include <stave/core/op/op.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave {

/// A random key was used twice.
class KeyReuseError : public Error {
  using Error::Error;
};

class KeyReuseCheck : public Handler {
 public:
  Outputs handle(Call& call) override;
  std::string describe() const override { return "check_keys"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

 private:
  struct Use;
  using UsePtr = std::shared_ptr<const Use>;
  /// The uses of one key: the sampler, or the fold_in of each number.
  struct Uses {
    UsePtr sampled, folded;
    std::unordered_map<std::uint32_t, UsePtr> by_number;
  };
  UsePtr conflict(std::uint64_t key, const std::uint32_t* number, const Use& use) const;
  [[noreturn]] static void fail_reused(std::uint64_t key, const std::uint32_t* number, const Use& first,
                                       const Use& second);

  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Uses> keys_;
};

}  // namespace stave

namespace stave_detail {

/// The result of check_keys(f).
template <class F>
class KeysChecked {
 public:
  explicit KeysChecked(F f) : f_(std::move(f)) {}

  template <class... A>
    requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... args) const {
    return with(std::make_shared<KeyReuseCheck>(),
                [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); });
  }

 private:
  F f_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable with the arguments and the result of f that throws KeyReuseError where f uses
/// a random key twice. Each call starts anew.
template <class F>
auto check_keys(F f) {
  return stave_detail::KeysChecked<F>(std::move(f));
}

}  // namespace stave
