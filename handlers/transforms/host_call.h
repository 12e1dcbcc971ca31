// host_call: calls foreign code that works on arrays in host memory (LAPACK, a simulator,
// a table look-up) as part of a program.
//
//   const auto solve = host_call([](const Tensor& a, const Tensor& b) {
//     std::vector<double> x(b.data<double>().begin(), b.data<double>().end());
//     call_lapack(a.data<double>(), x);
//     return from(x, b.shape());
//   }, {{Shape{3}, float64}});  // shape and dtype of what it returns
//
// The function's arguments are contiguous tensors on the CPU. They are constants to every
// transform, so data() and to_vector() may read them; trace and compile treat the call as a read of
// its arguments. The function runs outside of all handlers, once for each call that reaches the
// backend, and should have no side effects. It has no known derivative: grad and jvp throw if they
// differentiate an argument, unless custom_vjp or custom_jvp around the call defines a derivative.
// They also throw if an effect is answered outside of grad or
// jvp by a value that host_call computed from a value that they differentiate
// (docs/guides/effects.md). For vmap see VmapMethod.
#pragma once

#include <vector>

#include <stave/handlers/transforms/higher_order_trees.h>

namespace stave {

/// Says how vmap calls the function, as `vmap_method` of JAX's pure_callback does. If no argument
/// is mapped, the function is called once for all lanes, as without vmap.
enum class VmapMethod : std::uint8_t {
  // Calls the function for each lane, one after the other.
  sequential,
  // Calls the function once. All tensors of arguments and results have the lanes as axis 0; those
  // that are not mapped are broadcast. With nested vmaps, the axis of an outer vmap comes before
  // that of an inner one.
  broadcast_all
};

struct HostCallOptions {
  VmapMethod vmap_method = VmapMethod::sequential;
};

}  // namespace stave

namespace stave_detail {

struct HostCall {
  std::function<Outputs(std::span<const Tensor>)> function;
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
    if constexpr (can_be_called_by_operation<Returns::tree, const F, A...>) {
      using Result = typename HigherOrderCall<const F, A...>::Result;
      KeptCall<A...> kept(std::forward<A>(args)...);
      Inputs inputs = kept.inputs();
      kept.leaves.clear();  // what keeps the function keeps no tensors of this call
      const ResultStructure<Result> results("host_call");
      const auto function = [f = f_, kept, results](std::span<const Tensor> xs) {
        return results.flat(kept.call(std::as_const(*f), xs));
      };
      const Outputs outputs = host_call_flat({function, results_, options_}, std::move(inputs));
      // If vmap over no lanes did not call f, the structure is unknown.
      if constexpr (std::is_same_v<Result, Tensor>) return outputs[0];
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

/// Returns f, foreign code on host arrays (see above), as a function of tensors:
/// host_call(f, results)(args...). `results` has the shape and dtype of each tensor of f's result,
/// in one lane. The results are moved to the device of the first tensor of the arguments, and stay
/// on the CPU if there is none. Throws ShapeError or DtypeError if f returns other shapes or dtypes
/// than announced, and TransformError if it returns another number of tensors or an empty one, or
/// if grad or jvp differentiates an argument. Under vmap over no lanes, `sequential` does not call
/// f, which must then return a single Tensor. Programs and checkpoints keep a copy of f and call it
/// again, so f should capture by value.
template <class F>
auto host_call(F f, std::vector<Abstract> results, HostCallOptions options = {}) {
  return stave_detail::HostCallOf<F>(std::move(f), std::move(results), options);
}

}  // namespace stave
