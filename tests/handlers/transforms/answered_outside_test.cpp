// Effects that are answered outside the transforms that trace the values passed to them. A tensor
// that comes back unchanged keeps its derivative, an unrelated tensor is a constant, and a tensor
// computed from the value passed is an error if the result depends on it.
#include <memory>
#include <string>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using T = const Tensor&;
using Fn = std::function<Tensor(T)>;
using Transform = std::function<Tensor(const Fn&)>;

struct Give {
  using Result = Tensor;
  Tensor x;
};
struct GiveEach {
  static constexpr AcrossLanes across_lanes = AcrossLanes::each;
  using Result = Tensor;
  Tensor x;
};
struct GiveTogether {
  static constexpr AcrossLanes across_lanes = AcrossLanes::together;
  using Result = Tensor;
  Tensor x;
};
struct Opaque {  // a recording cannot store this effect
  using Result = Tensor;
  const Tensor* x;
};
struct Leave {
  using Result = void;
  Tensor x;
};
struct Fetch {
  using Result = Tensor;
};

// Answers each effect by a function of the value passed.
struct Answers : Handles<Give, GiveEach, GiveTogether, Opaque, Leave, Fetch> {
  Fn answer;
  Tensor left;
  explicit Answers(Fn given) : answer(std::move(given)) {}
  Tensor handle(Give& give) override { return answer(give.x); }
  Tensor handle(GiveEach& give) override { return answer(give.x); }
  Tensor handle(GiveTogether& give) override { return answer(give.x); }
  Tensor handle(Opaque& give) override { return answer(*give.x); }
  void handle(Leave& leave) override { left = leave.x; }
  Tensor handle(Fetch&) override { return answer(std::exchange(left, Tensor())); }
  std::string describe() const override { return "answers"; }
};

const struct {
  const char* name;
  Fn ask;
} asked[] = {
    {"Give", [](T x) { return perform(Give{x}); }},
    {"GiveEach", [](T x) { return perform(GiveEach{x}); }},
    {"GiveTogether", [](T x) { return perform(GiveTogether{x}); }},
    {"Opaque", [](T x) { return perform(Opaque{&x}); }},
    {"Fetch",
     [](T x) {
       perform(Leave{x});
       return perform(Fetch());
     }},
};

const Tensor x0 = tensor(0.7, float64), v0 = tensor(1.5, float64);
const Tensor xs = tensor({0.7, -0.4, 1.2}, float64), vs = tensor({1.5, 0.5, -2.}, float64);

// The derivative of f, a function of one number, at x0 by each transform, times the same direction.
const struct {
  const char* name;
  Transform of;
  bool lanes = false;
} transforms[] = {
    {"grad", [](const Fn& f) { return grad(f)(x0); }},
    {"jvp", [](const Fn& f) { return jvp(f, x0, ones_like(x0)).second; }},
    {"vjp", [](const Fn& f) { return std::get<0>(vjp(f, x0).second(ones_like(x0))); }},
    {"value_and_grad", [](const Fn& f) { return value_and_grad(f)(x0).grad; }},
    {"jacrev", [](const Fn& f) { return jacrev(f)(x0); }},
    {"jacfwd", [](const Fn& f) { return jacfwd(f)(x0); }},
    {"linearize", [](const Fn& f) { return linearize(f, x0).second(ones_like(x0)); }},
    {"grad of checkpoint", [](const Fn& f) { return grad(checkpoint(f))(x0); }},
    {"jvp of checkpoint", [](const Fn& f) { return jvp(checkpoint(f), x0, ones_like(x0)).second; }},
    {"grad of a checkpoint of a computed value",
     [](const Fn& f) { return grad([&](T x) { return checkpoint([&](T y) { return f(y * 1.); })(x); })(x0); }},
    {"grad of jvp", [](const Fn& f) { return grad([&](T d) { return jvp(f, x0, d).second; })(ones_like(x0)); }},
    {"jvp of grad",  // d/dc c f'(x)
     [](const Fn& f) {
       return jvp([&](T c) { return grad([&](T x) { return c * f(x); })(x0); }, ones_like(x0), ones_like(x0)).second;
     }},
    {"vmap of grad",
     [](const Fn& f) {
       return vmap(grad(f))(stack({x0, x0}))(1);
     },
     true},
    {"vmap of jvp",
     [](const Fn& f) {
       return vmap([&](T x) { return jvp(f, x, ones_like(x)).second; })(stack({x0, x0}))(1);
     },
     true},
    {"vmap of vmap of grad",
     [](const Fn& f) {
       return vmap(vmap(grad(f)))(broadcast_to(x0, {2, 2}))(1, 1);
     },
     true},
    {"grad of vmap",
     [](const Fn& f) {
       return grad([&](T x) { return sum(vmap(f)(x)); })(stack({x0, x0}))(1);
     },
     true},
    {"vmap of grad of checkpoint",
     [](const Fn& f) {
       return vmap(grad(checkpoint(f)))(stack({x0, x0}))(1);
     },
     true},
    {"vmap of grad, lanes that part before",
     [](const Fn& f) {
       return vmap(grad([&](T x) { return bool(x > 0) ? f(x) : f(-x); }))(stack({-x0, x0}))(1);
     },
     true},
    {"vmap of grad, lanes that part after",
     [](const Fn& f) {
       return vmap(grad([&](T x) {
         const Tensor y = f(x);
         return bool(y > 100) || bool(x > 0) ? y : -y;
       }))(stack({x0, -x0}))(0);
     },
     true},
    {"vmap of grad, of the lane that runs again",
     [](const Fn& f) {
       return vmap(grad([&](T x) {
         const Tensor y = f(abs(x));
         return bool(x > 0) ? y : y * 1.;
       }))(stack({-x0, x0}))(1);
     },
     true},
    {"compile of grad", [](const Fn& f) { return compile(grad(f))(x0); }},
    {"the second call of compile of grad",
     [](const Fn& f) {
       const auto compiled = compile(grad(f));
       compiled(x0);
       return compiled(x0);
     }},
    {"grad of compile", [](const Fn& f) { return grad(compile(f))(x0); }},
    {"the second call of grad of compile",
     [](const Fn& f) {
       const auto compiled = compile(f);
       grad(compiled)(x0);
       return grad(compiled)(x0);
     }},
    {"grad where compile ran before",
     [](const Fn& f) {
       const auto compiled = compile(f);
       compiled(x0);
       return grad(compiled)(x0);
     }},
    {"jvp of compile", [](const Fn& f) { return jvp(compile(f), x0, ones_like(x0)).second; }},
    {"vmap of grad of compile",
     [](const Fn& f) {
       return vmap(grad(compile(f)))(stack({x0, x0}))(1);
     },
     true},
    {"grad in a controller's computation",
     [](const Fn& f) {
       struct Nothing : Controls<Leave> {
         void handle(Leave& leave, Resumption<Leave> rest) override {
           perform(Leave(leave));
           rest.resume_last();
         }
       } nothing;
       return *with(nothing, [&] { return grad(f)(x0); });
     }},
};

// Returns x times the answer to sin(x).
Tensor times_answer(const Fn& ask, T x) { return x * ask(sin(x)); }
const double s = std::sin(0.7), c = std::cos(0.7);

template <class Check>
void everywhere(Check check) {
  for (const auto& [effect, ask] : asked)
    for (const auto& [name, of, lanes] : transforms) {
      SCOPED_TRACE(std::string(effect) + ", " + name);
      check([&, transform = &of](const Fn& f) { return (*transform)(f); }, ask, std::string(effect), lanes);
    }
}

// For an effect shared by all lanes, vmap hands the answer to each lane. An answer computed outside
// vmap from lanes' values has no elements there.
bool is_shared(const std::string& effect) { return effect == "Give" || effect == "Opaque" || effect == "Fetch"; }

TEST(AnsweredOutside, ReturnedTensorKeepsItsDerivative) {
  everywhere([](auto derivative, const Fn& ask, const std::string& effect, bool) {
    Answers answers([](T x) { return x; });
    const auto differentiated = [&] { return derivative([&](T x) { return times_answer(ask, x); }); };
    with(answers, [&] {
      try {
        EXPECT_THAT(differentiated(), IsNumber(s + 0.7 * c, 1e-12));
        // A rerun cannot recognise the tensor in the answer: this is an error, not a derivative of
        // zero.
      } catch (const TransformError& error) {
        EXPECT_TRUE(effect == "Opaque" || effect == "Fetch");
        EXPECT_THAT(std::string(error.what()), HasSubstr("its derivative would be lost"));
      }
    });
  });
}

TEST(AnsweredOutside, AnUnrelatedTensorIsAConstant) {
  const Tensor three = tensor(3., float64);
  everywhere([&](auto derivative, const Fn& ask, const std::string& effect, bool) {
    Answers answers(
        [&](T x) { return effect == "GiveTogether" && x.rank() > 0 ? full(x.shape(), 3., float64) : three * 1.; });
    with(answers, [&] { EXPECT_THAT(derivative([&](T x) { return times_answer(ask, x); }), IsNumber(3, 1e-12)); });
  });
}

TEST(AnsweredOutside, TensorComputedFromTheValueIsAnError) {
  const auto loses = AllOf(HasSubstr("was answered outside of"), HasSubstr("its derivative would be lost"));
  everywhere([&](auto derivative, const Fn& ask, const std::string& effect, bool lanes) {
    Answers answers([](T x) { return 2 * x; });
    const std::string text = with(answers, [&] {
      return message_of<TransformError>([&] { derivative([&](T x) { return times_answer(ask, x); }); });
    });
    EXPECT_THAT(
        text, testing::AnyOf(loses, HasSubstr(lanes && is_shared(effect) ? "is used outside of it" : "would be lost")));
    if (!lanes) {
      EXPECT_THAT(text, HasSubstr(effect + " was answered"));
    }
  });
}

TEST(AnsweredOutside, TensorComputedFromTheValueMayBeReadOrStopped) {
  everywhere([](auto derivative, const Fn& ask, const std::string& effect, bool lanes) {
    if (lanes && is_shared(effect)) return;
    Answers stops([](T x) { return 2 * stop_gradient(x); });
    with(stops, [&] { EXPECT_THAT(derivative([&](T x) { return times_answer(ask, x); }), IsNumber(2 * s, 1e-12)); });
    Answers computes([](T x) { return 2 * x; });
    with(computes, [&] {
      EXPECT_THAT(derivative([&](T x) { return x * stop_gradient(ask(sin(x))); }), IsNumber(2 * s, 1e-12));
      EXPECT_THAT(derivative([&](T x) {
                    const Tensor y = ask(sin(x));
                    return y.rank() == 0 ? x * x : x;  // the result does not depend on the answer
                  }),
                  IsNumber(1.4, 1e-12));
    });
  });
}

// The handler that answers may itself run under another transform, whose traced values the answers
// then carry.
TEST(AnsweredOutside, AnswersKeepDerivativesOfOuterTransforms) {
  const auto inner = [](const Transform& derivative, T w, const Fn& ask, const Fn& answer) {
    Answers answers([&](T x) { return x.rank() > 0 ? full(x.shape(), 1., float64) * answer(w) : answer(w); });
    return with(answers, [&] { return derivative([&](T x) { return times_answer(ask, x); }); });
  };
  everywhere([&](auto derivative, const Fn& ask, const std::string& effect, bool) {
    if (effect == "GiveTogether") return;
    const auto of = [&](T w) { return inner(derivative, w, ask, [](T y) { return y * y; }); };
    EXPECT_THAT(grad(of)(tensor(3., float64)), IsNumber(6, 1e-12));
    EXPECT_THAT(jvp(of, tensor(3., float64), tensor(1., float64)).second, IsNumber(6, 1e-12));
    EXPECT_THAT(vmap(of)(tensor({3., 2.}, float64)), IsNear(tensor({9., 4.}, float64)));
  });
}

// The outer transform sees the answer's computation, which runs inside it; the inner transform has
// lost it.
TEST(AnsweredOutside, OnlyTransformsInsideTheHandlerLoseTheDerivative) {
  Answers answers([](T x) { return 2 * x; });
  const auto of_outer = [&](T w) {
    return with(answers, [&] { return grad([&](T x) { return x * perform(Give{w * w}); })(x0); });
  };
  EXPECT_THAT(grad(of_outer)(tensor(3., float64)), IsNumber(12, 1e-12));
  // The handler runs inside grad, so the derivative is kept.
  const auto hides = [&](T x) { return with(answers, [&] { return x * perform(Give{x}); }); };
  EXPECT_THAT(grad(hides)(x0), IsNumber(4 * 0.7, 1e-12));
  EXPECT_THAT(hessian(hides)(x0), IsNumber(4, 1e-12));
  EXPECT_THAT([&] { with(answers, [&] { return hessian([](T x) { return perform(Give{x * x}); })(x0); }); },
              ThrowsMessage<TransformError>(HasSubstr("would be lost")));
}

// All kinds of operations that may compute the answer from the value passed.
TEST(AnsweredOutside, EveryKindOfOperationIsDetected) {
  const Fn made[] = {
      [](T x) { return x + x; },
      [](T x) { return reshape(reshape(x, {1}), Shape{}); },
      [](T x) {
        return sum(stack({x, x}));
      },
      [](T x) { return where(x > 0, x, 0.); },
      [](T x) {
        return std::get<0>(topk(stack({x, x}), 1))(0);
      },
      [](T x) {
        return qr(reshape(x, {1, 1})).second(0, 0);
      },
      [](T x) { return checkpoint([](T y) { return y * y; })(x); },
      [](T x) { return checkpoint([x] { return x * x; })(); },
      [](T x) { return compile([](T y) { return sin(y) * y; })(x); },
      [](T x) { return grad([](T y) { return y * y * y; })(x); },
      [](T x) { return jvp([](T y) { return y * y; }, x, ones_like(x)).second; },
      [](T x) {
        return vmap([](T y) { return y * y; })(stack({x, x}))(0);
      },
      [](T x) { return vmap([&](T y) { return y * x; })(ones({2}, float64))(0); },
      [](T x) {
        return custom_vjp([](T y) { return sin(y); }, [](T y) { return std::pair(sin(y), y); },
                          [](T y, T g) { return cos(y) * g; })(x);
      },
      [](T x) { return loop(3, [](T y) { return y * 0.5; })(x); },
      [](T x) { return astype(astype(x, float32), float64) * 1.; },
  };
  int number = 0;
  for (const Fn& answer : made) {
    SCOPED_TRACE(number++);
    Answers answers(answer);
    with(answers, [&] {
      const auto loses = HasSubstr("its derivative would be lost");
      for (const auto& [effect, asks] : asked) {
        if (std::string(effect) == "GiveTogether") continue;
        const auto& ask = asks;  // clang 14 does not let lambdas capture structured bindings
        const auto f = [&](T x) { return times_answer(ask, x); };
        EXPECT_THAT(message_of<TransformError>([&] { grad(f)(x0); }), loses);
        EXPECT_THAT(message_of<TransformError>([&] { jvp(f, x0, x0); }), loses);
        if (is_shared(effect)) continue;
        EXPECT_THAT(message_of<TransformError>([&] { vmap(grad(f))(xs); }), loses);
      }
    });
  }
}

// ---- controllers --------------------------------------------------------------------------------

struct KeepsRest : Controls<Give> {
  Tensor given;
  Resumption<Give> rest;
  void handle(Give& give, Resumption<Give> resumption) override {
    given = give.x;
    rest = std::move(resumption);
  }
};

Tensor resumed(const Transform& derivative, const Fn& answer) {
  Tensor found;
  const auto shared = std::make_shared<KeepsRest>();
  with(shared, [&] { found = derivative([](T x) { return x * perform(Give{sin(x)}); }); });
  Tensor next = answer(std::exchange(shared->given, Tensor()));
  while (shared->rest) {
    Resumption<Give> rest = std::move(shared->rest);
    rest.resume(next);
    if (shared->given.defined()) next = answer(std::exchange(shared->given, Tensor()));
  }
  return found;
}

TEST(AnsweredOutside, AnswersByResumptionsFollowTheSameRule) {
  for (const auto& [name, of, lanes] : transforms) {
    if (lanes || std::string(name).find("compile") != std::string::npos) continue;
    SCOPED_TRACE(name);
    EXPECT_THAT(resumed(of, [](T x) { return x; }), IsNumber(s + 0.7 * c, 1e-12));
    EXPECT_THAT(resumed(of, [](T) { return tensor(3., float64); }), IsNumber(3, 1e-12));
    EXPECT_THAT(resumed(of, [](T) { return tensor(3., float64) * 1.; }), IsNumber(3, 1e-12));
    EXPECT_THAT(message_of<TransformError>([&, f = &of] { resumed(*f, [](T x) { return 2 * x; }); }),
                HasSubstr("its derivative would be lost"));
  }
}

// While one computation waits for its answer, other computations differentiate as usual.
TEST(AnsweredOutside, WaitingComputationDoesNotAffectOthers) {
  const auto waiting = std::make_shared<KeepsRest>();
  Tensor late;
  with(waiting, [&] { late = grad([](T x) { return x * perform(Give{sin(x)}); })(x0); });
  EXPECT_THAT(grad([](T x) { return x * x * x; })(x0), IsNumber(3 * 0.49, 1e-12));
  EXPECT_THAT(hessian([](T x) { return sum(x * x * x); })(xs), IsNear(diag(6 * xs)));
  EXPECT_THAT(vmap(grad(checkpoint([](T x) { return x * x * x; })))(xs), IsNear(3 * xs * xs));
  EXPECT_THAT(jvp([](T x) { return x * x; }, xs, vs).second, IsNear(2 * xs * vs));
  waiting->rest.resume(waiting->given);
  EXPECT_THAT(late, IsNumber(s + 0.7 * c, 1e-12));
}

// ---- compiled functions -------------------------------------------------------------------------

TEST(AnsweredOutside, AReplayRefusesWhatARecordingRefuses) {
  const Tensor three = tensor(3., float64);
  bool computes = false;
  Answers answers([&](T x) { return computes ? x * 2 : three * 1.; });
  for (const auto& [effect, ask] : asked) {
    if (std::string(effect) == "Opaque") continue;
    SCOPED_TRACE(effect);
    const auto inside = compile(grad([ask = ask](T x) { return times_answer(ask, x); }));
    const auto around = compile([ask = ask](T x) { return times_answer(ask, x); });
    with(answers, [&] {
      for (int i = 0; i < 3; ++i) {
        computes = false;
        EXPECT_THAT(inside(x0), IsNumber(3, 1e-12));
        EXPECT_THAT(grad(around)(x0), IsNumber(3, 1e-12));
        EXPECT_THAT(around(x0), IsNumber(2.1, 1e-12));
        computes = true;
        EXPECT_THAT(around(x0), IsNumber(1.4 * s, 1e-12));
        EXPECT_THAT([&] { inside(x0); }, ThrowsMessage<TransformError>(HasSubstr("would be lost")));
        EXPECT_THAT([&] { grad(around)(x0); }, ThrowsMessage<TransformError>(HasSubstr("would be lost")));
      }
    });
  }
}

// An answer computed from a constant loses no derivative.
TEST(AnsweredOutside, TensorComputedFromAConstantIsAConstant) {
  everywhere([](auto derivative, const Fn& ask, const std::string&, bool) {
    Answers doubles([](T x) { return 2 * x; });
    const Tensor four = tensor(4., float64);
    with(doubles, [&] { EXPECT_THAT(derivative([&](T x) { return x * ask(four); }), IsNumber(8, 1e-12)); });
  });
}

// The results of foreign code follow the same rule as answers.
TEST(AnsweredOutside, ResultsOfHostCallsFollowTheSameRule) {
  const auto twice = host_call([](T x) { return tensor(2 * x.to_vector<double>()[0], float64); }, {{Shape{}, float64}});
  Answers answers([&](T x) { return twice(x); });
  with(answers, [&] {
    const auto loses = ThrowsMessage<TransformError>(HasSubstr("derivative"));
    EXPECT_THAT([&] { grad([](T x) { return x * perform(Give{x}); })(x0); }, loses);
    EXPECT_THAT([&] { vmap(grad([](T x) { return x * perform(GiveEach{x}); }))(xs); }, loses);
    EXPECT_THAT([&] { jvp([](T x) { return x * perform(Give{x}); }, x0, x0); }, loses);
    EXPECT_THAT([&] { grad([&](T x) { return x * twice(x); })(x0); }, loses);
  });
}

}  // namespace
