// host MODULE: a program that links Stave and loads a module that links Stave too.
// Both identify an effect by its type, so a handler of one answers effects that the other performs.
// Values that the plugin made remain valid when its handlers have ended and it is closed.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <sstream>

#include "plugin.h"

using namespace stave;

namespace {

void* module = nullptr;
int failures = 0;

#define PLUGINS(function) (*reinterpret_cast<decltype(&(function))>(dlsym(module, #function)))

template <class Body>
void expect(const char* what, double expected, const Body& body) {
  double found = NAN;
  try {
    found = static_cast<double>(body());
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", what, error.what());
  }
  if (found == expected) return;
  std::printf("%s: %g, expected %g\n", what, found, expected);
  ++failures;
}

struct Answers : Handles<Rate, Loud> {
  double handle(Rate&) override { return 3; }
  int handle(Loud&) override { return 5; }
};
struct AnswersLater : Controls<Rate> {
  void handle(Rate&, Resumption<Rate> rest) override { rest.resume_last(4.); }
};

void two_operations() { sin(ones({3})); }

template <class Observer>
bool shows_sin(Observer observer) {
  std::ostringstream text;
  observer(text);
  return text.str().find("sin") != std::string::npos;
}

}  // namespace

int main(int, char** argv) {
  module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!module) return std::printf("%s\n", dlerror()), 1;
  Answers answers;
  AnswersLater later;
  expect("the program answers the plugin", 3,
         [&] { return with(answers, [] { return PLUGINS(plugin_asks_rate)(); }); });
  expect("and an effect that has a default", 5,
         [&] { return with(answers, [] { return PLUGINS(plugin_asks_loud)(); }); });
  expect("a controller of the program's does", 4,
         [&] { return *with(later, [] { return PLUGINS(plugin_asks_rate)(); }); });
  expect("nobody answers", -1, [] { return PLUGINS(plugin_asks_loud)(); });
  expect("the plugin answers the program", 7, [] { return PLUGINS(plugin_answers)([] { return perform(Rate{}); }); });
  expect("the plugin counts operations", 2, [] { return PLUGINS(plugin_counts)(two_operations); });
  expect("the plugin's Profile", 1, [] { return PLUGINS(plugin_profiles_sin)(two_operations); });
  expect("the program's Profile", 1, [] {
    return shows_sin([](std::ostream& out) {
      Profile profile;
      with(profile, two_operations);
      out << profile;
    });
  });
  expect("the program's debug", 1,
         [] { return shows_sin([](std::ostream& out) { debug(two_operations, {.out = &out})(); }); });
  expect("the program's Graph", 1, [] {
    return shows_sin([](std::ostream& out) {
      Graph graph;
      with(graph, two_operations);
      graph.write_dot(out);
    });
  });
  expect("operations_of", 2, [] {
    int n = 0;
    auto operations = operations_of([] { return sin(ones({3})); });
    for ([[maybe_unused]] const auto& operation : operations) ++n;
    return n;
  });
  expect("the plugin's gradient", 6, [] { return PLUGINS(plugin_gradient)(); });
  Tensor kept;
  PLUGINS(plugin_notes)(zeros({3}), kept);
  dlclose(module);
  expect("a value that the plugin annotated", 3, [&] { return sum(kept + 1.).item<double>(); });
  std::puts(failures == 0 ? "the program and the plugin understand each other" : "they do not understand each other");
  return failures == 0 ? 0 : 1;
}
