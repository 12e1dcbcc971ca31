// A step of the extended Kalman filter of example 16, written as one C file for a processor without
// an operating system: C99 that needs libm alone, allocates nothing and returns an error code. Here
// the system's compiler compiles it, and it follows the robot like the library does.
#include <dlfcn.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <stave/handlers/compile/write_c.h>
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

// The state and its covariance after a step and a measurement.
std::pair<Tensor, Tensor> filter(const Tensor& state, const Tensor& covariance, const Tensor& seen) {
  const Tensor f = jacfwd(move)(state), moved = move(state);
  const Tensor p = matmul(f, covariance, matrix_transpose(f)) + 0.0025 * eye(5, float64);
  const Tensor h = jacfwd(look)(moved), hp = matmul(h, p);
  const Tensor spread = matmul(hp, matrix_transpose(h)) + diag(tensor({0.01, 0.0004}, float64));
  const Tensor gain = matrix_transpose(solve(spread, hp));
  return {moved + matmul(gain, seen - look(moved)), p - matmul(gain, hp)};
}

int main() {
  Tensor state = tensor({4., 0., 0.5, 0., 0.}, float64), covariance = eye(5, float64);
  const Tensor seen = tensor({5., 0.2}, float64);

  const auto folder = std::filesystem::temp_directory_path() / "stave_example_36";
  std::filesystem::create_directories(folder);
  std::ofstream source(folder / "ekf.c"), header(folder / "ekf.h");
  write_c(source, trace(filter)(state, covariance, seen),
          {.name = "ekf",
           .header = &header,
           .inputs = {"state", "covariance", "seen"},
           .outputs = {"next_state", "next_covariance"}});
  source.close();
  header.close();

  std::ifstream declarations(folder / "ekf.h");
  for (std::string line; std::getline(declarations, line);)
    if (line.starts_with("int ") || line.starts_with("const char")) std::cout << line << "\n";

  const std::string at = "cd '" + folder.string() + "' && ";
  if (std::system((at +
                   "cc -std=c99 -pedantic -Wall -Wextra -Wconversion -Werror -O2 -ffp-contract=off -shared -fPIC ekf.c "
                   "-o ekf.so -lm")
                      .c_str()) != 0) {
    std::cout << "there is no C compiler\n";
    return 77;
  }
  void* const library = dlopen((folder / "ekf.so").c_str(), RTLD_NOW);
  const auto ekf = reinterpret_cast<int (*)(const double*, const double*, const double*, double*, double*, void*)>(
      dlsym(library, "ekf"));

  // The program on the robot has the C function alone.
  std::array<double, 5> x{4, 0, 0.5, 0, 0}, next_x;
  std::array<double, 25> p{}, next_p;
  for (std::size_t i = 0; i < 5; ++i) p[6 * i] = 1;

  Tensor robot = tensor({5., 1., 1., 0.5, 0.3}, float64);
  for (int t = 0; t < 100; ++t) {
    robot = move(robot);
    const Tensor measured = look(robot) + tensor({0.1 * std::cos(7. * t), 0.02 * std::sin(5. * t)}, float64);
    std::tie(state, covariance) = filter(state, covariance, measured);

    const std::array<double, 2> z{measured(0).item<double>(), measured(1).item<double>()};
    check(ekf(x.data(), p.data(), z.data(), next_x.data(), next_p.data(), nullptr) == 0, "no error");
    x = next_x;
    p = next_p;
  }
  const Tensor in_c = from(std::span<const double>(x), {5});
  std::cout << "the robot is at " << robot << "\nbelieved to be at " << in_c << "\n";
  check(allclose(in_c, state, 1e-11, 1e-11), "C and the library believe the same");
  check(allclose(from(std::span<const double>(p), {5, 5}), covariance, 1e-11, 1e-11), "with the same certainty");

  // Where the library would throw, the function returns the number of an error.
  const auto error = reinterpret_cast<const char* (*)(int)>(dlsym(library, "ekf_error"));
  std::cout << "error 1: " << error(1) << "\n";
  dlclose(library);
  std::filesystem::remove_all(folder);
}
