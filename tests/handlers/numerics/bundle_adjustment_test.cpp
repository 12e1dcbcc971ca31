// Bundle adjustment: cameras and points from where the cameras see the points, beside SciPy
// (tests/data/bundle_adjustment.py). The seven directions that move the whole scene have no
// curvature.

#include <stave/handlers/numerics/least_squares.h>
#include <stave/stave.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;

namespace {

// Cameras [cameras, 6]: a rotation vector and a translation. Points [points, 3].
struct Scene {
  Tensor cameras, points;
};

// The position [2] in pixels at which a camera sees a point (Rodrigues' formula).
Tensor projected(const Tensor& camera, const Tensor& point) {
  const Tensor w = camera(slice(0, 3)), angle = vector_norm(w), k = w / angle;
  const Tensor turned =
      point * cos(angle) + cross(k, point) * sin(angle) + k * sum(k * point) * (1 - cos(angle)) + camera(slice(3, 6));
  return 500 * turned(slice(0, 2)) / turned(2);
}

class BundleAdjustment {
 public:
  BundleAdjustment(Index cameras, Index points) : cameras_(cameras) {
    const Tensor i = arange(0, cameras, 1, float64), j = arange(0, points, 1, float64);
    truth_ = {stack({0.1 * sin(i + 1) + 0.05, 0.1 * cos(2 * i) + 0.05, 0.05 * sin(3 * i) + 0.05, 0.3 * cos(i),
                     0.3 * sin(2 * i), 0.1 * sin(i)},
                    1),
              stack({sin(1.3 * j), cos(2.1 * j), 4 + sin(0.7 * j)}, 1)};
    std::vector<std::int32_t> camera, point;
    for (int c = 0; c < cameras; ++c)
      for (int p = 0; p < points; ++p)
        if ((c + p) % 3 != 0) {
          camera.push_back(c);
          point.push_back(p);
        }
    camera_ = from(camera);
    point_ = from(point);
    const Tensor phase = 12.9898 * arange(0, camera_.size(), 1, float64);
    observed_ = seen(truth_) + 0.5 * stack({sin(phase), cos(3 * phase)}, 1);
  }
  Tensor residual(const Scene& scene) const { return seen(scene) - observed_; }
  Scene start() const {
    const auto [all, unravel] = ravel(truth_);
    return unravel(all + 0.02 * sin(7.7 * arange(0, all.size(), 1, float64)));
  }
  // Each residual depends on the six unknowns of a camera and the three of a point.
  CsrMatrix jacobian(const Scene& scene) const {
    const auto [by_camera, by_point] =
        vmap(jacfwd<0, 1>(projected))(take(scene.cameras, camera_), take(scene.points, point_));
    const Tensor columns =
        concat({reshape(6 * camera_, {-1, 1}) + arange(0, 6, 1, int32),
                6 * static_cast<int>(cameras_) + reshape(3 * point_, {-1, 1}) + arange(0, 3, 1, int32)},
               1);
    const Index rows = observed_.size();
    return {arange(0, 9 * rows + 1, 9, int32), reshape(repeat(columns, {2}, 0), {-1}),
            reshape(concat({by_camera, by_point}, -1), {-1})};
  }

 private:
  Tensor seen(const Scene& scene) const {
    return vmap(projected)(take(scene.cameras, camera_), take(scene.points, point_));
  }

  Index cameras_;
  Scene truth_;
  Tensor camera_, point_, observed_;  // of each observation
};

TEST(BundleAdjustmentTest, AllSolversFindSciPysCost) {
  const BundleAdjustment problem(6, 40);
  const auto residual = [&](const Scene& scene) { return problem.residual(scene); };
  const auto jacobian = [&](const Scene& scene) { return problem.jacobian(scene); };
  EXPECT_NEAR(sum(square(residual(problem.start()))).item<double>() / 2, 4745.902629588503, 1e-8);
  const auto check = [](const LeastSquaresResult<Scene>& found, double tolerance) {
    EXPECT_TRUE(found.converged());
    EXPECT_NEAR(found.cost.item<double>(), 11.5782873853, tolerance);
    testing::Test::RecordProperty("steps", std::to_string(found.steps.item<int>()));
  };
  for (const LeastSquaresMethod method : {LeastSquaresMethod::levenberg_marquardt, LeastSquaresMethod::dogleg}) {
    check(least_squares(residual, problem.start(), {.method = method, .ftol = 1e-12}), 1e-8);
    check(least_squares(with_jacobian(residual, jacobian), problem.start(), {.method = method, .ftol = 1e-12}), 1e-8);
  }
  check(least_squares(residual, problem.start(), {.solver = LeastSquaresSolver::cg, .ftol = 1e-8}), 1e-3);
}

}  // namespace
