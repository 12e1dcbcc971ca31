// How long notes on values live.
#include <thread>

#include <stave/stave.h>

#include "lifetime.h"
#include "matchers.h"

namespace lifetime_test {

using namespace stave;
using namespace stave_test;

struct Payload {
  int value = 0;
  Tensor held;
};

TEST(Notes, AreFoundOnTheValueTheyWerePutOn) {
  const Notes<Payload> notes("test");
  const Tensor x = tensor({1., 2.}), noted = notes.put(x, {5, {}});
  EXPECT_EQ(notes.find(x), nullptr);  // x is shared, so its clone carries the note.
  ASSERT_NE(notes.find(noted), nullptr);
  EXPECT_EQ(notes.find(noted)->value, 5);
  EXPECT_EQ(noted.node().storage, x.node().storage);
  const Tensor copy = noted;
  EXPECT_EQ(notes.find(copy)->value, 5);
  EXPECT_EQ(live_notes(noted), 1);
}

TEST(Notes, AreWrittenInPlaceOnAValueThatNobodyElseOwns) {
  const Notes<Payload> notes("test");
  Tensor x = tensor({1., 2.});
  const Node* const node = x.node_ptr().get();
  x = notes.put(std::move(x), {1, {}});
  EXPECT_EQ(x.node_ptr().get(), node);
  x = notes.put(std::move(x), {2, {}});  // replaces the first note
  EXPECT_EQ(x.node_ptr().get(), node);
  EXPECT_EQ(notes.find(x)->value, 2);
  EXPECT_EQ(live_notes(x), 1);
  x = notes.strip(std::move(x));
  EXPECT_EQ(x.node_ptr().get(), node);
  EXPECT_EQ(live_notes(x), 0);
}

TEST(Notes, OfSeveralInstallationsAreIndependent) {
  const Notes<Payload> a("a"), b("b");
  const Tensor x = a.put(b.put(tensor(1.), {2, {}}), {1, {}});
  EXPECT_EQ(a.find(x)->value, 1);
  EXPECT_EQ(b.find(x)->value, 2);
  const Tensor kept = x, y = a.strip(x);  // x is shared, so the clone y keeps the other note.
  EXPECT_EQ(a.find(y), nullptr);
  EXPECT_EQ(b.find(y)->value, 2);
  EXPECT_EQ(a.find(kept)->value, 1);
  const Tensor clone = clone_node(x);
  EXPECT_NE(clone.node_ptr().get(), x.node_ptr().get());
  EXPECT_EQ(a.find(clone)->value, 1);
  EXPECT_EQ(live_notes(clone), 2);
  EXPECT_NE(a.id(), b.id());
}

TEST(Notes, EndWithTheirInstallation) {
  Tensor x = tensor(1.);
  const std::size_t before = live();
  {
    const Notes<Payload> notes("test");
    x = notes.put(std::move(x), {1, zeros(one_mib)});
    EXPECT_EQ(live_notes(x), 1);
    EXPECT_EQ(live(), before + MiB);
  }
  EXPECT_EQ(live_notes(x), 0);
  EXPECT_EQ(live(), before);  // The payload is freed together with the note.
  EXPECT_EQ(live_notes(clone_node(x)), 0);
}

TEST(Notes, EndWithTheirValue) {
  const Notes<Payload> notes("test");
  const std::size_t before = live();
  {
    const Tensor x = notes.put(tensor(1.), {1, zeros(one_mib)});
    EXPECT_EQ(live(), before + MiB + 4);
  }
  EXPECT_EQ(live(), before);
}

// The value or the maker, whichever ends last, frees the note,
// on any thread. The sanitizers check this.
TEST(Notes, MayEndOnAnotherThread) {
  const std::size_t before = live();
  {
    const Notes<Payload> notes("test");
    Tensor x = notes.put(tensor(1.), {1, zeros(one_mib)});
    std::thread([y = std::move(x)]() mutable { y = Tensor(); }).join();
  }
  EXPECT_EQ(live(), before);
  Tensor survivor;
  {
    const Notes<Payload> notes("test");
    survivor = notes.put(tensor(1.), {1, zeros(one_mib)});
  }
  std::thread([y = std::move(survivor)]() mutable { y = Tensor(); }).join();
  EXPECT_EQ(live(), before);
}

// Notes that hold each other's values in a chain are destroyed without recursion.
TEST(Notes, ThatHoldEachOtherEndWithTheirInstallation) {
  const std::size_t before = live();
  {
    const Notes<Payload> notes("test");
    Tensor x = tensor(1.);
    for (int i = 0; i < 1000; ++i) x = notes.put(tensor(2.), {i, std::move(x)});
  }
  EXPECT_EQ(live(), before);
}

// The note of each value holds the value's inputs, like the tape of a user.
struct Parents : Handler {
  Notes<Inputs> parents{"Parents"};
  Outputs handle(Call& call) override {
    const Inputs inputs(call.inputs().begin(), call.inputs().end());
    Outputs outputs = perform(call);
    for (Tensor& output : outputs) output = parents.put(std::move(output), inputs);
    return outputs;
  }
};
struct ResumesLast : Controller {
  void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(call)); }
};

TEST(Notes, LongChainsOfNotesEndWithTheirValues) {
  const auto chain = [] {
    Tensor y = ones({3});
    for (int i = 0; i < 200'000; ++i) y = y + 1.;
    return y;
  };
  const std::size_t before = live();
  Parents parents;
  {
    const Tensor y = with(parents, chain);
    EXPECT_GT(live(), before + 200'000 * 12);
  }
  EXPECT_EQ(live(), before);
  ResumesLast controller;
  EXPECT_TRUE(with(controller, [&] { return with(parents, chain).size() == 3; }));
  EXPECT_EQ(live(), before);
  // Values of a tape and notes of a handler alternate in the chain.
  EXPECT_THAT(grad([&](T x) { return with(parents, [&] { return sum(chain() * x); }); })(ones({3})),
              Equals(full({3}, 200'001.)));
  const auto under_grad = [&](T x) {
    return with(parents, [&] {
      Tensor y = x;
      for (int i = 0; i < 100'000; ++i) y = y * y;
      return sum(y);
    });
  };
  EXPECT_THAT(grad(under_grad)(ones({3})), testing::_);
  EXPECT_EQ(live(), before);
}

}  // namespace lifetime_test
