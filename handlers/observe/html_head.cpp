#include <stave/handlers/observe/html_head.h>

#include <sys/utsname.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <stave/core/op/op.h>
#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/device.h>

namespace stave_detail {

namespace {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text, all;
  while (std::getline(file, text, '\0')) all += (all.empty() ? "" : " ") + text;
  constexpr std::size_t most = 500;
  return all.size() > most ? all.substr(0, most) + " ..." : all;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const std::size_t at = line.find(": "); at != line.npos) return line.substr(at + 2);
  return "";
}

std::string system_name() {
  utsname names{};
  if (uname(&names) != 0) return "";
  return fmt::format("{} {} {} on {}", names.sysname, names.release, names.machine, names.nodename);
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

// ---- peaks -------------------------------------------------------------------------------

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<void, Free>;

// Allocates an array of ones, which touches every page. It does not use Storage,
// so handlers and storage watchers do not see it.
template <class T>
Block ones_of(std::size_t count) {
  Block block(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64));
  if (!block) throw std::bad_alloc();
  std::fill_n(static_cast<T*>(block.get()), count, T(1));
  return block;
}

// Returns the seconds of the fastest of several runs, after a warm-up run. The runs take at least
// 50 ms together.
double seconds_of(const Op& op, std::span<const View> inputs, const View& output) {
  using Clock = std::chrono::steady_clock;
  Backend& backend = backend_of(cpu);
  double best = 1e300;
  const Clock::time_point begin = Clock::now();
  for (int run = 0; run < 2 || Clock::now() - begin < std::chrono::milliseconds(50); ++run) {
    const Clock::time_point start = Clock::now();
    backend.run(op, nullptr, inputs, {&output, 1});
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (run > 0) best = std::min(best, seconds);
  }
  return best;
}

constexpr Index side = 512, length = Index{8} << 20;

template <class T>
double flops(Dtype dtype) {
  constexpr auto count = static_cast<std::size_t>(side * side);
  const Block a = ones_of<T>(count), b = ones_of<T>(count), c = ones_of<T>(count);
  const Index shape[] = {side, side}, strides[] = {side, 1};
  const View inputs[] = {{a.get(), dtype, shape, strides}, {b.get(), dtype, shape, strides}};
  return 2. * side * side * side / seconds_of(op_matmul, inputs, {c.get(), dtype, shape, strides});
}

double bandwidth() {
  constexpr auto count = static_cast<std::size_t>(length);
  const Block a = ones_of<float>(count), b = ones_of<float>(count), c = ones_of<float>(count);
  const Index shape[] = {length}, strides[] = {1};
  const View inputs[] = {{a.get(), float32, shape, strides}, {b.get(), float32, shape, strides}};
  return 3. * 4 * length / seconds_of(op_add, inputs, {c.get(), float32, shape, strides});
}

MeasuredPeaks measure() {
  MeasuredPeaks peaks;
  peaks.flops = flops<float>(float32);
  peaks.flops_float64 = flops<double>(float64);
  peaks.bandwidth = bandwidth();
  peaks.how =
      fmt::format("measured when the report was written: products of {0}x{0} matrices, sums of arrays of {1} MiB", side,
                  4 * length >> 20);
  return peaks;
}

}  // namespace

HtmlHead html_head() {
  return {command_line(),
          STAVE_VERSION,
          system_name(),
          processor_name(),
          static_cast<int>(std::thread::hardware_concurrency()),
          date_now()};
}

const MeasuredPeaks& measured_peaks() {
  static const MeasuredPeaks peaks = measure();
  return peaks;
}

}  // namespace stave_detail
