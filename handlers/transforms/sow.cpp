#include <stave/handlers/transforms/sow.h>

#include <atomic>

#include <stave/core/op/define.h>
#include <stave/core/op/higher_order.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/scoped_name.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/answered.h>
#include <stave/handlers/transforms/custom.h>

namespace stave_detail {

std::string SowAttributes::str() const { return fmt::format("\"{}\"", name); }

// The operation `sow` returns its operand. Handlers see it like any operation, and those outside of
// vmap see the batched tensor. Tangents and cotangents are not sown.
constinit const Op op_sow{
    .name = "sow",
    .infer = [](const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); },
    .reads = {0u, 0u},
    .jvp = [](const JvpContext& c) { return Outputs(c.tangent(0)); },
    .vjp = [](const VjpContext& c, int) { return c.ct(); },
    .batch = batch_in_front,
    .view = [](const Call& call) { return view_of(call.input(0)); },
};

namespace {

std::uint64_t next_place() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Rejects sowing with a harvest's tag. It is installed around a function with custom rules, and
// around these rules other than the backward rule.
class Refusing final : public Handles<Sowing> {
 public:
  Refusing(std::string tag, const char* rule) : tag_(std::move(tag)), rule_(rule) {}
  Sowing::Result handle(Sowing& sowing) override {
    if (sowing.tag == tag_)
      fail<TransformError>(
          "sow: \"{}\" is sown inside a function of {}, so the harvested value would have no derivative: sow it "
          "outside, as a result of that function",
          sowing.name, rule_);
    return perform_if_answered(sowing);
  }

 private:
  const std::string tag_;
  const char* const rule_;
};

}  // namespace

void fail_sown_twice(const std::string& name) {
  fail<Error>(
      "harvest: \"{}\" is sown twice: give each value a name of its own, by Scope(\"...\") around it, or by a number "
      "in it",
      name);
}

Sowing::Result sowing(const std::string& name, const std::string& tag) {
  return perform_if_answered(Sowing{name, tag});
}

Tensor sow_at(Sowing::Result answer, const std::string& name, const Tensor& x, const std::string& tag) {
  require_defined(x, "sow", 1);
  if (answer.places.empty()) return x;
  return apply(op_sow, {answer.planted ? stop_gradient(x) : x},
               make_intrusive<SowAttributes>(name, tag, std::move(answer)));
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Tensor sow(const std::string& name, const Tensor& x, const std::string& tag) {
  return sow_at(sowing(name, tag), name, x, tag);
}

Tensor sow_cotangent(const std::string& name, const Tensor& x, const std::string& tag) {
  using T = const Tensor&;
  const auto same = [](T y) { return y; };
  const auto by_rules = custom_vjp(
      same, [](T y) { return std::pair(y, std::vector<Tensor>()); },
      [name, tag](const std::vector<Tensor>&, T cotangent) { return sow(name, cotangent, tag); });
  return custom_jvp(by_rules, [](T y, T tangent) { return std::pair(y, tangent); })(x);
}

Outputs SownHandler::handle(Call& call) {
  if (call.op().is_higher_order) return handle_higher_order(call);
  if (&call.op() != &op_sow || call.as<SowAttributes>().tag != tag_) return perform(std::move(call));
  const auto& attributes = call.as<SowAttributes>();
  const auto& places = attributes.answer.places;
  Tensor x = sown({scoped_name(attributes.name), call.input(0), places, !mark_seen(places)});
  if (own_.contains(places[0])) return x;
  return perform(call.with_inputs({std::move(x)}));
}

Sowing::Result SownHandler::handle(Sowing& sowing) {
  Sowing::Result answer = perform_if_answered(sowing);
  if (sowing.tag != tag_) return answer;
  if (answer.places.empty()) own_.insert(answer.places.emplace_back(next_place()));
  answer.wants_joined_lanes |= wants_joined_lanes();
  answer.planted |= plants(scoped_name(sowing.name));
  return answer;
}

}  // namespace stave

namespace stave_detail {

// ---- harvest ------------------------------------------------------------------------------------

Sowing::Result Harvest::handle(Sowing& sowing) {
  return open_ ? SownHandler::handle(sowing) : perform_if_answered(sowing);
}

Tensor Harvest::sown(const SownValue& sown) {
  if (!sown.again) add(sown);
  return sown.value;
}

void Harvest::add(SownValue sown) {
  if (!names_.insert(sown.name).second) fail_sown_twice(sown.name);
  gathered_.push_back(std::move(sown));
}

NamedTensors Harvest::take() {
  open_ = false;
  NamedTensors values;
  for (SownValue& sown : gathered_) values.emplace(std::move(sown.name), std::move(sown.value));
  gathered_.clear();
  return values;
}

// The values that a function sows become additional results of the function, so transforms give
// them lanes and derivatives. This holds for a checkpoint as well, although no tape records the
// first run of its function. A function with custom rules is the exception: only its backward
// rule may sow (handle_with_rules).
Outputs Harvest::handle_higher_order(Call& call) {
  const FunctionAttributes& functions = functions_of(call);
  if (functions.has_derivative_rule() || functions.batch) return handle_with_rules(call);
  struct Gathered {
    std::size_t results = 0;
    std::vector<SownValue> sown;
    bool known = false;
  };
  const auto gathered = std::make_shared<Gathered>();
  const auto gather = [gathered, tag = tag()](FunctionRole, const FunctionInputs& given, auto run) {
    // The current scopes are entered again inside the function.
    const auto inside = std::make_shared<Harvest>(tag);
    FunctionResults results = with(inside, [&] { return run(given); });
    Gathered found{results.size(), {}, true};
    for (const SownValue& sown : inside->gathered()) {
      found.sown.push_back({sown.name, Tensor(), sown.places});
      results.push_back(sown.value);
    }
    inside->take();
    if (!gathered->known) *gathered = std::move(found);
    return results;
  };
  Outputs outputs = perform_functions(Inputs(call.inputs()), lifted(functions, gather));
  if (!gathered->known) return outputs;
  for (std::size_t i = 0; i < gathered->sown.size(); ++i) {
    const SownValue& sown = gathered->sown[i];
    if (mark_seen(sown.places)) add({sown.name, outputs[gathered->results + i], sown.places});
  }
  outputs.resize(gathered->results);
  return outputs;
}

Outputs Harvest::handle_with_rules(const Call& call) {
  const FunctionAttributes& functions = functions_of(call);
  const auto refusing = std::make_shared<Refusing>(tag(), functions.name);
  const auto refuse = [refusing](FunctionRole role, const FunctionInputs& given, auto run) {
    return role == FunctionRole::backward ? run(given) : with(refusing, [&] { return run(given); });
  };
  return perform_functions(Inputs(call.inputs()), lifted(functions, refuse));
}

// ---- plant --------------------------------------------------------------------------------------

Tensor Plant::sown(const SownValue& sown) {
  const auto& [name, x, places, again] = sown;
  const auto found = values_.find(name);
  if (found == values_.end()) return x;
  used_.insert(name);
  const Tensor& value = require_defined(found->second, "plant");
  if (value.shape() != x.shape())
    fail<ShapeError>("plant: \"{}\" has shape {}, but the value sown there has {}", name, value.shape(), x.shape());
  if (value.dtype() != x.dtype())
    fail<DtypeError>("plant: \"{}\" is {}, but the value sown there is {}", name, value.dtype(), x.dtype());
  return value;
}

void Plant::check_all_used() const {
  for (const auto& [name, value] : values_)
    if (!used_.contains(name)) fail<Error>("plant: nothing is sown under the name \"{}\"", name);
}

}  // namespace stave_detail
