// A checker of physical units, as a handler of one's own: metres, seconds and kilograms are notes
// on values, and each operation derives the unit of its result, in backward passes too.
#include <array>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

using Unit = std::array<double, 3>;  // the exponents of metre, second and kilogram
const Unit metre{1, 0, 0}, second{0, 1, 0}, kilogram{0, 0, 1}, number{};

Unit times(Unit a, const Unit& b, double power = 1) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += power * b[i];
  return a;
}
std::string text_of(const Unit& unit) {
  std::ostringstream text;
  for (std::size_t i = 0; i < unit.size(); ++i)
    if (unit[i] != 0) text << (text.str().empty() ? "" : " ") << std::array{"m", "s", "kg"}[i] << "^" << unit[i];
  return text.str().empty() ? "a number" : text.str();
}

struct Units : Handler {
  Notes<Unit> units{"units"};
  Tensor with_unit(Tensor x, const Unit& unit) { return units.put(std::move(x), unit); }
  Unit of(const Tensor& x) const { return units.find(x) ? *units.find(x) : number; }

  Outputs handle(Call& call) override {
    if (call.op().is_higher_order) return perform(std::move(call));
    const Unit unit = unit_after(call);
    Outputs outputs = perform(std::move(call));
    if (unit == number) return outputs;
    for (Tensor& output : outputs) output = with_unit(std::move(output), unit);
    return outputs;
  }
  std::string describe() const override { return "units"; }

  Unit unit_after(const Call& call) const {
    const auto in = [&](std::size_t i) { return of(call.input(i)); };
    switch (call.op().id) {
      case OpId::multiply:
      case OpId::scale:  // the product of a factor and a tangent or cotangent
      case OpId::matmul: return times(in(0), in(1));
      case OpId::divide:
      case OpId::scale_by_inverse: return times(in(0), in(1), -1);
      case OpId::square: return times(in(0), in(0));
      case OpId::sqrt: return times(number, in(0), 0.5);
      case OpId::where: return common(call, 1);
      default: break;
    }
    const Unit unit = call.inputs().empty() ? number : common(call, 0);
    if (call.op().boolean) return number;  // a comparison
    // Linear operations, such as add and sum, keep the unit. Others take numbers only.
    if (unit == number || call.op().derivative == Derivative::linear) return unit;
    throw std::domain_error(call.op().name + (" of a value in " + text_of(unit)) + ": only numbers have it");
  }
  // The unit of all operands from `first` on. A 0 without a unit has every unit.
  Unit common(const Call& call, std::size_t first) const {
    const auto is_zero = [&](const Tensor& x) { return !units.find(x) && bool(all(x == 0)); };
    while (first + 1 < call.inputs().size() && is_zero(call.input(first))) ++first;
    const Unit unit = of(call.input(first));
    for (const Tensor& x : call.inputs().subspan(first + 1))
      if (is_inexact(x.dtype()) && of(x) != unit && !is_zero(x))
        throw std::domain_error(call.op().name + (": " + text_of(unit)) + " and " + text_of(of(x)) + " do not mix");
    return unit;
  }
};

int main() {
  Units units;
  const Tensor g = units.with_unit(tensor(9.81), times(metre, second, -2)), t = units.with_unit(tensor(2.), second);
  const Tensor masses = units.with_unit(tensor({1., 3.}), kilogram);
  const auto position = [&](const Tensor& time) { return 0.5 * g * square(time); };
  with(units, [&] {
    const Tensor velocity = grad(position)(t), acceleration = grad(grad(position))(t);
    const Tensor energies = masses * square(velocity) / 2 + masses * g * position(t);
    const Tensor speed = sqrt(2 * matmul(energies, ones({2})) / sum(masses));
    for (const Tensor& x : {velocity, acceleration, sum(energies), speed})
      std::cout << x << " in " << text_of(units.of(x)) << "\n";
    check(units.of(where(speed > velocity, speed, 0.)) == units.of(velocity), "a selected value keeps its unit");
    try {
      position(t) + t;
    } catch (const std::domain_error& error) {
      std::cout << error.what() << "\n";  // add: m^1 and s^1 do not mix
    }
  });
}
