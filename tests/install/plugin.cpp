#include "plugin.h"

#include <sstream>

using namespace stave;

double plugin_gradient() {
  return grad([](const Tensor& x) { return square(x); })(tensor(3.)).item<double>();
}

double plugin_asks_rate() { return perform(Rate{}); }
int plugin_asks_loud() { return perform(Loud{}); }

double plugin_answers(double (*body)()) {
  struct AnswersRate : Handles<Rate> {
    double handle(Rate&) override { return 7; }
  } answers;
  return with(answers, [&] { return body(); });
}

int plugin_counts(void (*body)()) {
  struct Counts : Handler {
    int n = 0;
    Outputs handle(Call& call) override {
      ++n;
      return perform(std::move(call));
    }
  } counts;
  with(counts, [&] { body(); });
  return counts.n;
}

bool plugin_profiles_sin(void (*body)()) {
  Profile profile;
  with(profile, [&] { body(); });
  std::ostringstream text;
  text << profile;
  return text.str().find("sin") != std::string::npos;
}

void plugin_notes(const Tensor& x, Tensor& result) {
  struct Notices : Handler {
    Notes<int> notes{"Notices"};
    Outputs handle(Call& call) override {
      Outputs outputs = perform(std::move(call));
      for (Tensor& output : outputs) output = notes.put(std::move(output), 1);
      return outputs;
    }
  } notices;
  result = with(notices, [&] { return sin(x); });
}
