#include <stave/handlers/numerics/trust_region.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/reduce.h>

namespace stave_detail {

Tensor truncated_cg(const std::function<Tensor(const Tensor&)>& product,
                    const std::function<Tensor(const Tensor&)>& precondition, const Tensor& gradient,
                    const TruncatedCgLimits& limits) {
  const bool has_radius = limits.radius.defined();
  const Tensor bound = limits.tolerance * vector_norm(gradient);
  Tensor p = zeros_like(gradient), rest = gradient, scaled = precondition(rest), direction = -scaled;
  Tensor inner = vecdot(rest, scaled);
  // p^T m p, p^T m d and d^T m d for the direction d.
  Tensor size = zeros_like(inner), cross = size, length = inner;
  for (Index i = 0; i < limits.products && bool(vector_norm(rest) > bound); ++i) {
    const Tensor image = product(direction), curvature = vecdot(direction, image), step = inner / curvature;
    const Tensor next_size = size + step * (2 * cross + step * length);
    if (has_radius && bool(curvature <= 0 || next_size >= square(limits.radius))) {
      const Tensor left = square(limits.radius) - size;
      return p + (sqrt(square(cross) + length * left) - cross) / length * direction;
    }
    if (bool(curvature <= 0)) return i == 0 ? direction : p;
    p = p + step * direction;
    rest = rest + step * image;
    scaled = precondition(rest);
    const Tensor next = vecdot(rest, scaled), ratio = next / inner;
    direction = ratio * direction - scaled;
    cross = ratio * (cross + step * length);
    length = next + square(ratio) * length;
    size = next_size;
    inner = next;
  }
  return p;
}

Tensor dogleg(const Tensor& newton, const Tensor& steepest, const Tensor& radius, const Tensor& scale) {
  const auto inner = [&](const Tensor& p, const Tensor& q) { return sum(scale * p * q); };
  // The path leaves the trust region at the t with |steepest + t way| = radius.
  const Tensor way = newton - steepest, a = inner(way, way), b = inner(way, steepest);
  const Tensor length = inner(steepest, steepest), c = length - square(radius), t = (sqrt(square(b) - a * c) - b) / a;
  const Tensor bent = where(c >= 0, steepest * (radius / sqrt(length)), steepest + t * way);
  return where(inner(newton, newton) <= square(radius), newton, bent);
}

}  // namespace stave_detail
