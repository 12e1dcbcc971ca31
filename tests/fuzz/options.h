// The options of the fuzzers: --seed N (default: a new one each time, which is printed), --seconds
// S (default 10), --trials N (default: as many as time allows), --threads T (default 1); --only N
// runs just the trial of that seed.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <stave/core/effects/sanitize.h>

#if STAVE_ASAN || STAVE_TSAN
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace stave_fuzz {

struct Options {
  std::uint64_t seed = std::random_device()();
  double seconds = 10;
  std::uint64_t trials = std::numeric_limits<std::uint64_t>::max();
  int threads = 1;
  bool only = false;

  Options(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (i + 1 == argc) usage();
      if (name == "--seed" || name == "--only") seed = std::strtoull(argv[i + 1], nullptr, 10), only = name == "--only";
      else if (name == "--seconds") seconds = std::strtod(argv[i + 1], nullptr);
      else if (name == "--trials") trials = std::strtoull(argv[i + 1], nullptr, 10);
      else if (name == "--threads") threads = std::atoi(argv[i + 1]);
      else usage();
    }
  }
  [[noreturn]] static void usage() {
    std::fputs("usage: [--seed N | --only N] [--seconds S] [--trials N] [--threads T]\n", stderr);
    std::exit(2);
  }
};

/// The trial of this thread, which a crash prints.
inline thread_local std::uint64_t current_trial = 0;
inline void say_which() {
  std::fprintf(stderr, "This was --only %llu\n", static_cast<unsigned long long>(current_trial));
}
inline void end_by_signal(int signal) {
  say_which();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Calls trial(seed) for one seed after another, on each thread, until the time is over or a trial
/// returns false. Returns the exit status.
template <class Trial>
int fuzz(const Options& options, Trial trial) {
  std::signal(SIGABRT, end_by_signal);
  std::signal(SIGALRM, end_by_signal);
#if STAVE_ASAN || STAVE_TSAN
  __sanitizer_set_death_callback(say_which);
#else
  std::signal(SIGSEGV, end_by_signal);
  std::signal(SIGBUS, end_by_signal);
#endif
  constexpr unsigned longest_trial = 300;  // in seconds, including sanitizers
  if (options.only) return trial(options.seed) ? 0 : 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.seconds);
  std::atomic<bool> failed = false;
  std::atomic<std::uint64_t> next = options.seed, done = 0;
  const auto run = [&] {
    while (!failed && std::chrono::steady_clock::now() < end) {
      alarm(longest_trial);
      current_trial = next++;
      if (current_trial - options.seed >= options.trials) return;
      if (!trial(current_trial)) failed = true;
      ++done;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < options.threads; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
  std::printf("%llu trials%s\n", static_cast<unsigned long long>(done), failed ? ", the last of which failed" : "");
  return failed ? 1 : 0;
}

}  // namespace stave_fuzz
