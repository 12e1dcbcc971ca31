// host_call: foreign code in a program, which works on arrays in host memory: LAPACK, a simulator, a table look-up.
//
//   const auto solve = host_call([](const Tensor& a, const Tensor& b) {
//     std::vector<double> x(b.data<double>().begin(), b.data<double>().end());
//     call_lapack(a.data<double>(), x);
//     return from(x, b.shape());
//   }, {{Shape{3}, float64}});                                  // shape and dtype of what it returns
//
// The function's arguments are contiguous tensors on the CPU, constants to every transform, so data() and to_vector() may read
// them; to trace and compile the call is a read of them. It runs below all handlers, once for each call that reaches it, and should have
// no side effects. No derivative is known of it: grad and jvp throw, unless custom_vjp or
// custom_jvp says what it is; so they do where an effect is answered outside of them by what is
// computed of a value that they differentiate (docs/guides/effects.md). For vmap see
// VmapMethod.
#pragma once

#include <vector>

#include <stave/handlers/transforms/carried_trees.h>

namespace stave {

/// What vmap does with a function that knows nothing of lanes. As in JAX's pure_callback.
enum class VmapMethod : std::uint8_t {
  sequential,    // calls it for each lane, one after the other
  broadcast_all  // calls it once: all arguments and results have the lanes as axis 0, in front of those of a vmap inside
};

struct HostCallOptions {
  VmapMethod vmap_method = VmapMethod::sequential;
};

}  // namespace stave

namespace stave_detail {

struct HostCall {
  CarriedFunction function;
  std::vector<Abstract> results;
  HostCallOptions options;
};
Outputs host_call_flat(const HostCall& host, Inputs inputs);

template <class F>
class HostCallOf {
 public:
  HostCallOf(F f, std::vector<Abstract> results, HostCallOptions options)
      : f_(std::make_shared<F>(std::move(f))), results_(std::move(results)), options_(options) {}

  template <class... A>
  auto operator()(A&&... args) const {
    if constexpr (can_carry<Returns::tree, const F, A...>) {
      using Result = typename CarriedCall<const F, A...>::Result;
      const KeptCall<A...> kept(std::forward<A>(args)...);
      const ResultStructure<Result> results("host_call");
      const CarriedFunction function = [f = f_, kept, results](std::span<const Tensor> xs) {
        return results.flat(kept.call(std::as_const(*f), xs));
      };
      const Outputs outputs = host_call_flat({function, results_, options_}, kept.inputs());
      if constexpr (std::is_same_v<Result, Tensor>) return outputs[0];  // of no lanes, too: f was not called
      else return results.tree(outputs);
    } else {
      return Refused();
    }
  }

 private:
  std::shared_ptr<F> f_;
  std::vector<Abstract> results_;
  HostCallOptions options_;
};

}  // namespace stave_detail

namespace stave {

/// f, foreign code on host arrays (see above), as a function of tensors: host_call(f, results)(args...). `results` are shape and
/// dtype of each tensor of f's result, which comes to the device of the first argument. What f returns must be so: else it
/// throws ShapeError or DtypeError. TransformError if grad or jvp follows an argument. Under vmap of no lanes f is not called,
/// and must return a single Tensor. Programs and checkpoints keep a copy of f and call it again: it
/// should capture by value.
template <class F>
auto host_call(F f, std::vector<Abstract> results, HostCallOptions options = {}) {
  return stave_detail::HostCallOf<F>(std::move(f), std::move(results), options);
}

}  // namespace stave
