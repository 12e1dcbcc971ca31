// Checks the fields of an operation's record that declare which values its VJP rule reads;
// a tape keeps only those. For each call that a row performs and each input that has a cotangent,
// the rule runs with only the declared values, and must give the same result as with all values.
// It then runs once more without each declared value, which must fail.

#include <optional>
#include <utility>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/layout.h>

#include "table/run.h"

namespace table {

namespace {

using stave::Abstract, stave::Derivative, stave::ValueSet;

// Input numbers beyond the mask's bits: a shift by that much would wrap around.
static_assert(!ValueSet(0b1).has_input(32) && !ValueSet(0b1).has_input(40));
static_assert(ValueSet(~0u).has_input(40) && !ValueSet(ValueSet::outputs).has_input(31));

/// The elements of x. Complex ones are parts along a last axis.
Array array_of(const Tensor& x) { return to_array(is_complex(x.dtype()) ? stack({real(x), imag(x)}, -1) : x); }

/// One call and its results.
class Rule {
 public:
  Rule(const Call& call, const Outputs& outputs) : call_(call), outputs_(outputs) {
    Random random(std::string("reads/") + call.op().name);
    for (const Tensor& input : call.inputs()) abstracts_.push_back({input.shape(), input.dtype()});
    for (const Tensor& output : outputs) {
      const auto part = [&] { return to_tensor(random.weights(real_of(output.dtype()), output.shape())); };
      if (!is_inexact(output.dtype())) cotangents_.emplace_back();
      else cotangents_.push_back(is_complex(output.dtype()) ? complex(part(), part()) : part());
    }
  }

  /// The cotangent of input i if the rule gets only the `given` values;
  /// nullopt if the rule fails without another value.
  std::optional<Array> cotangent(std::size_t i, ValueSet given) const {
    std::vector<Tensor> inputs(call_.inputs().begin(), call_.inputs().end());
    for (std::size_t j = 0; j < inputs.size(); ++j)
      if (!given.has_input(j)) inputs[j] = Tensor();
    const Outputs outputs = given.has_outputs() ? outputs_ : Outputs(outputs_.size(), Tensor());
    try {
      return array_of(call_.op().vjp({call_.op(), call_.attributes(), inputs, outputs, abstracts_, cotangents_},
                                     static_cast<int>(i)));
    } catch (const stave::TransformError&) {
      return std::nullopt;
    }
  }

  bool gives(std::size_t i) const {
    const Op& op = call_.op();
    return op.vjp && is_inexact(abstracts_[i].dtype) &&
           (op.derivative != Derivative::linear || op.linear_in.has_input(i)) && !refuses(i);
  }

  /// Returns true if the rule throws an error that says that the function has no derivative
  /// by input i.
  bool refuses(std::size_t i) const {
    try {
      call_.op().vjp({call_.op(), call_.attributes(), call_.inputs(), outputs_, abstracts_, cotangents_},
                     static_cast<int>(i));
    } catch (const stave::TransformError& error) {
      return std::string(error.what()).find("has no derivative with respect to operand " + std::to_string(i)) !=
             std::string::npos;
    }
    return false;
  }

  /// An error text if the record's declaration for input i is wrong, else an empty string.
  std::string fault(std::size_t i) const {
    const ValueSet said = call_.op().reads_for(i);
    const std::optional<Array> all = cotangent(i, ~0u), declared = cotangent(i, said);
    const std::string rule = std::string("the VJP rule of ") + call_.op().name + " for input " + std::to_string(i);
    if (!all) return rule + " does not work";
    if (!declared) return rule + " reads more than it is said to";
    compare(rule, Kind::value, *declared, *all, 0);
    if (said.has_outputs() && cotangent(i, said.mask & ~ValueSet::outputs)) return rule + " does not read the outputs";
    for (std::size_t j = 0; j < call_.inputs().size(); ++j)
      if (said.has_input(j) && cotangent(i, said.mask & ~(1u << j)))
        return rule + " does not read input " + std::to_string(j);
    return "";
  }

 private:
  const Call& call_;
  const Outputs& outputs_;
  std::vector<Abstract> abstracts_;
  std::vector<Tensor> cotangents_;
};

}  // namespace

Outputs ReadsCheck::handle(Call& call) {
  performed.insert(call.op().name);
  const Call kept = call;
  Outputs outputs = perform(std::move(call));
  if (outputs.empty() || real_of(outputs[0].dtype()) != float64 || outputs[0].size() == 0) return outputs;
  const Rule rule(kept, outputs);
  for (std::size_t i = 0; i < kept.inputs().size(); ++i) {
    if (!rule.gives(i)) continue;
    checked.insert(kept.op().name);
    try {
      if (const std::string fault = rule.fault(i); !fault.empty()) report_.fail("reads", fault);
    } catch (const Mismatch& mismatch) {
      report_.fail("reads", mismatch.what());
    }
  }
  return outputs;
}

}  // namespace table
