// An extended Kalman filter tracks a robot by its distance and bearing from a beacon. Motion and
// measurement are plain functions, and jacfwd linearises them to matrices. scan goes through the
// measurements, and the filter is a function, too: grad tells how the likelihood of the
// measurements changes with the noise.
#include <cmath>
#include <iostream>
#include <numbers>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

constexpr double dt = 0.1;

// x, y, speed, heading, rate of turn
Tensor move(const Tensor& s) {
  const auto [x, y, speed, heading, turn] = unstack<5>(s);
  return stack({x + dt * speed * cos(heading), y + dt * speed * sin(heading), speed, heading + dt * turn, turn});
}
// distance and bearing
Tensor look(const Tensor& s) { return stack({hypot(s(0), s(1)), atan2(s(1), s(0))}); }

struct Belief {
  Tensor state, covariance;
};

Belief predict(const Belief& b, const Tensor& noise) {
  const Tensor f = jacfwd(move)(b.state);
  return {move(b.state), matmul(f, b.covariance, matrix_transpose(f)) + noise};
}

// Thrun, Burgard and Fox, Probabilistic Robotics, 2005, table 3.3.
// Returns the corrected belief and the log-likelihood of what was seen.
std::pair<Belief, Tensor> correct(const Belief& b, const Tensor& seen, const Tensor& noise) {
  const Tensor h = jacfwd(look)(b.state), surprise = seen - look(b.state), hp = matmul(h, b.covariance);
  const Tensor spread = matmul(hp, matrix_transpose(h)) + noise;
  const Tensor gain = matrix_transpose(solve(spread, hp));
  const Tensor log_likelihood =
      -(vecdot(surprise, solve(spread, surprise)) + slogdet(spread).second) / 2 - std::log(2 * std::numbers::pi);
  return {{b.state + matmul(gain, surprise), b.covariance - matmul(gain, hp)}, log_likelihood};
}

// Returns the belief after all measurements, and their log-likelihoods. measurements: [steps, 2]
std::pair<Belief, Tensor> follow(const Tensor& measurements, const Tensor& log_process_noise) {
  const Tensor process = exp(log_process_noise) * eye(5, float64), sensor = diag(tensor({0.01, 0.0004}, float64));
  const auto step = [=](const Belief& b, const Tensor& seen) { return correct(predict(b, process), seen, sensor); };
  return scan(step)(Belief{tensor({4., 0., 0.5, 0., 0.}, float64), eye(5, float64)}, measurements);
}

int main() {
  Tensor robot = tensor({5., 1., 1., 0.5, 0.3}, float64);
  std::vector<Tensor> seen;
  for (int t = 0; t < 100; ++t) {
    robot = move(robot);
    seen.push_back(look(robot) + tensor({0.1 * std::cos(7. * t), 0.02 * std::sin(5. * t)}, float64));
  }

  const Tensor measurements = stack(seen);

  const auto [belief, log_likelihoods] = follow(measurements, tensor(-6., float64));
  std::cout << "the robot is at " << robot << "\nbelieved to be at " << belief.state << "\n";
  // Results of JAX 0.10.2.
  check(allclose(sum(log_likelihoods), tensor(333.29539822638407, float64), 1e-10), "the likelihood is JAX's");
  check(
      allclose(belief.state,
               tensor({2.363778370757502, 7.098869069140967, 0.9561057721627975, 3.512553162009078, 0.3085676077533788},
                      float64),
               1e-9),
      "so is the state after 100 steps");
  check(allclose(trace(belief.covariance), tensor(0.1557389450660059, float64), 1e-9), "and its covariance");

  const auto likelihood = [&](const Tensor& noise) { return sum(follow(measurements, noise).second); };
  const Tensor slope = grad(likelihood)(tensor(-6., float64));
  std::cout << "d log p / d log noise = " << slope << ": less noise would explain the path better\n";
  check(allclose(slope, tensor(-10.80540940232294, float64), 1e-8), "the gradient through the filter is JAX's");
  // compile keeps the 100 steps as one loop, and so does the gradient.
  const auto compiled = compile(grad(likelihood));
  check(array_equal(compiled(tensor(-6., float64)), slope), "compiled, the gradient has the same bits");
}
