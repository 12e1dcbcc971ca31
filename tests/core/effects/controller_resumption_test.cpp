// What a controller may do with the rest of a computation: drop it, and resume it later and
// elsewhere.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/core/effects/controller.h>
#include <stave/stave.h>

#include "controllers.h"
#include "witness.h"

namespace {

using namespace controller_test;
using namespace stave;
using stave_test::Witness;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Controller, DroppingUnwinds) {
  Drops drops;
  int destroyed = 0;
  const auto result = with(drops, [&] {
    Witness witness{destroyed};
    return perform(Ask{1});
  });
  EXPECT_FALSE(result);
  EXPECT_EQ(destroyed, 1);
}

// The outer controller drops the body at each operation in turn. The inner controller performs one
// of them itself: then its own computation ends as well, and so does the body around both.
TEST(Controller, AnOuterControllerDropsItsWholeBody) {
  struct PassOn : Controller {
    void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(std::move(call))); }
  };
  struct AnswerFirst : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      Outputs outputs = perform(call);
      rest.resume_last(std::move(outputs));
      perform(call);
    }
  };
  struct DropAt : Controller {
    int left;
    explicit DropAt(int left) : left(left) {}
    void handle(Call& call, Resumption<Call> rest) override {
      if (left-- == 0) return rest.drop();
      rest.resume_last(perform(std::move(call)));
    }
  };
  const Tensor x = tensor({1., 2., 3.});
  for (int at = 0; at < 3; ++at) {
    int inner_ended = 0;
    bool went_on = false;
    const auto body = [&](auto inner) {
      const auto result = with(inner, [&] {
        const Witness end{inner_ended};
        return sum(square(sin(x)));
      });
      went_on = true;
      return result.value();
    };
    DropAt outer(at), other(2 * at + 1);
    EXPECT_FALSE(with(outer, [&] { return body(std::make_shared<PassOn>()); })) << at;
    EXPECT_TRUE(inner_ended == 1 && !went_on) << at;
    inner_ended = 0;
    EXPECT_FALSE(with(other, [&] { return body(std::make_shared<AnswerFirst>()); })) << at;
    EXPECT_TRUE(inner_ended == 1 && !went_on) << at;
  }
}

TEST(Controller, AnUnusedResumptionIsDropped) {
  struct Forgets : Controls<Ask> {
    void handle(Ask&, Resumption<Ask>) override {}
  } forgets;
  int destroyed = 0;
  EXPECT_FALSE(with(forgets, [&] {
    Witness witness{destroyed};
    return perform(Ask{1});
  }));
  EXPECT_EQ(destroyed, 1);
}

TEST(Controller, CaughtCancellationIsThrownAgain) {
  Drops drops;
  int swallowed = 0;
  bool reached = false;
  const std::optional<int> result = with(drops, [&] {
    for (int i = 0; i < 3; ++i) try {
        perform(Ask{i});
      } catch (...) {
        ++swallowed;
      }
    reached = true;
    return 5;
  });
  EXPECT_FALSE(result);
  EXPECT_EQ(swallowed, 3);
  EXPECT_TRUE(reached);
}

TEST(Controller, DestructorsMayPerformEffectsDuringADrop) {
  struct Below : Handles<Ask> {
    int handle(Ask& ask) override { return -ask.question; }
  } below;
  struct Performs {
    int& got;
    ~Performs() { got = perform(Ask{3}); }
  };
  Drops drops;
  int got = 0;
  with(below, [&] {
    EXPECT_FALSE(with(drops, [&] {
      Performs performs{got};
      return perform(Ask{1});
    }));
  });
  EXPECT_EQ(got, -3);
}

TEST(Controller, DropDuringUnwindingPassesTheEffectOn) {
  struct Below : Handles<Ask> {
    int handle(Ask& ask) override { return -ask.question; }
  } below;
  struct Performs {
    int& got;
    ~Performs() { got = perform(Ask{3}); }
  };
  Drops drops;
  int got = 0;
  std::string text;
  with(below, [&] {
    with(drops, [&] {  // its own exception is in flight when it is dropped
      try {
        Performs performs{got};
        throw std::runtime_error("own");
      } catch (const std::runtime_error& error) {
        text = error.what();
      }
      perform(Ask{1});
      ADD_FAILURE() << "went on";
    });
  });
  EXPECT_EQ(got, -3);
  EXPECT_EQ(text, "own");
}

TEST(Controller, UncancellableDelaysADrop) {
  struct Below : Handles<Ask> {
    int handle(Ask& ask) override { return -ask.question; }
  } below;
  Drops drops;
  std::vector<int> answers;
  with(below, [&] {
    EXPECT_FALSE(with(drops, [&]() -> int {
      {
        Uncancellable guard;
        answers.push_back(perform(Ask{1}));
        answers.push_back(perform(Ask{2}));
      }
      answers.push_back(perform(Ask{3}));
      return 0;
    }));
  });
  EXPECT_THAT(answers, ElementsAre(-1, -2));
}

TEST(Controller, ExceptionThrownDuringADropPropagates) {
  Drops drops;
  EXPECT_THROW(with(drops,
                    [] {
                      try {
                        perform(Ask{1});
                      } catch (...) {
                        throw std::out_of_range("while unwinding");
                      }
                    }),
               std::out_of_range);
}

// ---- resuming later and elsewhere --------------------------------------------------------------

TEST(Controller, BodyMayBeResumedAfterWithReturned) {
  auto keeps = std::make_shared<Keeps>();
  std::vector<int> log;
  EXPECT_FALSE(with(keeps, [&log] {
    log.push_back(perform(Ask{1}));
    log.push_back(perform(Ask{2}));
  }));
  EXPECT_EQ(keeps->question, 1);
  std::exchange(keeps->rest, {}).resume(10);
  EXPECT_EQ(keeps->question, 2);
  std::exchange(keeps->rest, {}).resume(20);
  EXPECT_FALSE(keeps->rest);
  EXPECT_THAT(log, ElementsAre(10, 20));
}

TEST(Controller, UsingAResumptionTwiceIsAnError) {
  auto keeps = std::make_shared<Keeps>();
  with(keeps, [] { perform(Ask{1}); });
  Resumption<Ask> rest = std::move(keeps->rest);
  rest.resume(1);
  try {
    rest.resume(1);
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("resume: this resumption was used or moved from"));
  }
}

TEST(Controller, ResumingABodyThatWithCancelledIsAnError) {
  // The controller is not shared, so it could be gone at the time of the resumption.
  Keeps keeps;
  int destroyed = 0;
  EXPECT_FALSE(with(keeps, [&] {
    Witness witness{destroyed};
    perform(Ask{1});
  }));
  EXPECT_EQ(destroyed, 1);
  try {
    keeps.rest.resume(1);
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cancelled when `with` of its controller ended"));
  }
}

TEST(Controller, ResumingOnAnotherThreadIsAnError) {
  auto keeps = std::make_shared<Keeps>();
  with(keeps, [] { perform(Ask{1}); });
  std::string text;
  std::thread([&] {
    try {
      keeps->rest.resume(1);
    } catch (const TransformError& error) {
      text = error.what();
    }
  }).join();
  EXPECT_THAT(text, HasSubstr("began on another thread"));
  std::exchange(keeps->rest, {}).resume(1);  // the resumption is still valid here
}

TEST(Controller, ResumeLastOutsideOfHandleIsAnError) {
  auto keeps = std::make_shared<Keeps>();
  with(keeps, [] { perform(Ask{1}); });
  EXPECT_THROW(keeps->rest.resume_last(1), TransformError);
  std::exchange(keeps->rest, {}).drop();
}

TEST(Controller, HandlersOfAResumedBodyAreAboveThoseOfTheResumer) {
  struct Answer : Handles<WithDefault> {
    int value;
    explicit Answer(int value) : value(value) {}
    int handle(WithDefault&) override { return value; }
  };
  auto keeps = std::make_shared<Keeps>();
  std::vector<int> log;
  Answer first(1), second(2), own(3);
  with(first, [&] {
    with(keeps, [&log, &own] {
      log.push_back(perform(WithDefault{}));  // answered under the handlers of the start
      perform(Ask{0});
      log.push_back(perform(WithDefault{}));  // answered under the handlers of the resumption
      with(own, [&] {
        perform(Ask{0});
        log.push_back(perform(WithDefault{}));  // answered under its own handler
      });
      log.push_back(perform(WithDefault{}));
    });
  });
  with(second, [&] { std::exchange(keeps->rest, {}).resume(0); });
  std::exchange(keeps->rest, {}).resume(0);
  EXPECT_THAT(log, ElementsAre(1, 2, 3, 7));
}

// Lanes of a program in lockstep: every lane performs its effect before any lane resumes.
TEST(Controller, ComputationsCanRunInLockstep) {
  struct Lanes : Controls<Tell> {
    std::vector<std::pair<int, Resumption<Tell>>> waiting;
    void handle(Tell& tell, Resumption<Tell> rest) override { waiting.emplace_back(tell.value, std::move(rest)); }
  };
  auto lanes = std::make_shared<Lanes>();
  std::vector<int> finished;
  for (int lane = 0; lane < 3; ++lane)
    with(lanes, [lane, &finished] {
      for (int step = 0; step <= lane; ++step) perform(Tell{10 * lane + step});
      finished.push_back(lane);
    });
  std::vector<std::vector<int>> rounds;
  while (!lanes->waiting.empty()) {
    auto round = std::exchange(lanes->waiting, {});
    rounds.emplace_back();
    for (auto& [value, rest] : round) rounds.back().push_back(value);
    for (auto& [value, rest] : round) rest.resume();
  }
  EXPECT_THAT(rounds, ElementsAre(ElementsAre(0, 10, 20), ElementsAre(11, 21), ElementsAre(22)));
  EXPECT_THAT(finished, ElementsAre(0, 1, 2));
}

}  // namespace
