// Effects, and controllers that answer, drop or keep them, for the tests of controllers.
#pragma once

#include <utility>

#include <stave/core/effects/controller.h>
#include <stave/stave.h>

namespace controller_test {

using namespace stave;

struct Ask {
  using Result = int;
  int question;
};
struct Tell {
  using Result = void;
  int value;
};
struct WithDefault {
  using Result = int;
  int unhandled() const { return 7; }
};

struct Double : Controls<Ask> {
  void handle(Ask& ask, Resumption<Ask> rest) override { rest.resume_last(2 * ask.question); }
};

struct Drops : Controls<Ask> {
  void handle(Ask&, Resumption<Ask> rest) override { rest.drop(); }
};

struct Keeps : Controls<Ask> {
  Resumption<Ask> rest;
  int question = 0;
  void handle(Ask& ask, Resumption<Ask> given) override {
    question = ask.question;
    rest = std::move(given);
  }
};

}  // namespace controller_test
