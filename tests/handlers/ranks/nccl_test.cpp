// Tests the NCCL calls that collectives of tensors on a device make.
// NCCL and the device are simulated (made_up/). ranks_test checks the results.
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/handlers/ranks/cotangent_sums.h>
#include <stave/handlers/ranks/ranks.h>
#include <stave/stave.h>

#include "made_up/late_device.h"

using namespace stave;
using stave_test::late_device;
using testing::HasSubstr;

namespace {

Ranks& all() {
  static Ranks ranks("i");
  return ranks;
}
int size() { return static_cast<int>(all().size()); }
int place() { return static_cast<int>(all().place()); }

Tensor there(const Tensor& x) {
  late_device();
  return to(x, cuda(0));
}

/// The simulated library's calls since the last call of this function.
std::string calls() {
  static void* const library = dlopen("libnccl.so.2", RTLD_NOW);
  return reinterpret_cast<const char* (*)()>(dlsym(library, "made_up_calls"))();
}
template <class F>
std::string calls_of(F f) {
  // A first call, which creates the communicator.
  with(all(), [] { return psum(there(ones({})), "i"); });
  calls();
  f();
  return calls();
}
std::string calls_of_psum(Dtype dtype) {
  return calls_of([&] { with(all(), [&] { return psum(there(ones({2, 3}, dtype)), "i"); }); });
}

template <class F>
std::string error_of(F f) {
  try {
    // Handlers other than Ranks' own, so that an exception does not end all processes.
    with(static_cast<Handles<Call, AxisSize>&>(all()), f);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

struct Environment {
  Environment(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name); }
  Environment(const Environment&) = delete;
  const char* name;
};

TEST(Nccl, SumsInTheDtypeOfTheHost) {
  const std::pair<Dtype, const char*> expected[] = {
      {bool_, "int32"},     {int8, "int8"},     {uint8, "uint8"},    {int16, "int32"},     {uint16, "uint32"},
      {int32, "int32"},     {int64, "int64"},   {uint64, "uint64"},  {float16, "float32"}, {bfloat16, "float32"},
      {float32, "float32"}, {uint32, "uint32"}, {float64, "float64"}};
  for (const auto& [dtype, exchanged] : expected)
    EXPECT_EQ(calls_of_psum(dtype), std::string("AllReduce 6 ") + exchanged + " sum") << dtype;
}

TEST(Nccl, CallsMatchTheCollectives) {
  const auto of = [](auto f, Dtype dtype) {
    return calls_of([&] { with(all(), [&] { return f(there(ones({size(), 3}, dtype))); }); });
  };
  const std::string elements = std::to_string(3 * size());
  EXPECT_EQ(of([](const Tensor& x) { return pmax(x, "i"); }, int64), "AllReduce " + elements + " int64 max");
  EXPECT_EQ(of([](const Tensor& x) { return pmin(x, "i"); }, uint16), "AllReduce " + elements + " uint32 min");
  EXPECT_EQ(of([](const Tensor& x) { return pmax(x, "i"); }, float16),
            "AllGather " + std::to_string(6 * size()) + " int8");
  EXPECT_EQ(of([](const Tensor& x) { return all_gather(x, "i"); }, bfloat16),
            "AllGather " + std::to_string(6 * size()) + " int8");
  EXPECT_EQ(of([](const Tensor& x) { return reduce_scatter(x, "i"); }, bfloat16), "ReduceScatter 3 float32 sum");
  std::string each = "GroupStart";
  for (int i = 0; i < size(); ++i) each += "; Send 24 " + std::to_string(i) + "; Recv 24 " + std::to_string(i);
  EXPECT_EQ(of([](const Tensor& x) { return all_to_all(x, "i"); }, float64), each + "; GroupEnd");
  EXPECT_EQ(calls_of([&] { with(all(), [&] { return psum(there(ones({0, 3})), "i"); }); }), "");
}

TEST(Nccl, PpermuteInvolvesOnlySendersAndReceivers) {
  if (size() < 2) GTEST_SKIP() << "of one place none is left out";
  const Tensor x = there(full({3}, 1.0 + place(), float32));
  Tensor found;
  const std::string asked = calls_of([&] { found = with(all(), [&] { return ppermute(x, "i", {{0, 1}}); }); });
  EXPECT_EQ(asked, place() == 0   ? "GroupStart; Send 12 1; GroupEnd"
                   : place() == 1 ? "GroupStart; Recv 12 0; GroupEnd"
                                  : "GroupStart; GroupEnd");
  EXPECT_EQ(found.to_vector<float>(), std::vector<float>(3, place() == 1 ? 1.F : 0.F));
}

// The work of collectives is in the device's queue, in order with the work before and after it.
// Memory that is freed meanwhile is not reused too early.
TEST(Nccl, CollectivesDoNotBlockTheHost) {
  const int n = size();
  Tensor x = there(full({1000}, 1.0, float64));
  with(all(), [&] { return psum(x, "i"); });  // a first call, which creates the communicator
  late_device().synchronize();
  const int reads = late_device().reads;
  for (int i = 0; i < 20; ++i)
    x = with(all(), [&] {
      const Tensor all_of_them = all_gather(x / n, "i"), permuted = ppermute(all_of_them, "i", {{0, 0}});
      return psum(all_of_them[place()], "i") + 0 * pmax(x * 2, "i") + 0 * sum(permuted);
    });
  EXPECT_EQ(late_device().reads, reads);
  EXPECT_GE(late_device().queue.work.size(), 80u);
  EXPECT_EQ(x.to_vector<double>(), std::vector<double>(1000, 1.0));
}

TEST(Nccl, AppearsInTheDescription) {
  with(all(), [] { return psum(there(ones({2})), "i"); });
  EXPECT_EQ(all().describe(), fmt::format("Ranks \"i\" (place {} of {}, cuda:0 by NCCL)", place(), size()));
}

// A place uses one device for NCCL. A tensor may be on another of its devices,
// which does not affect the other places.
TEST(Nccl, TensorsOfAnotherDeviceUseTheFirst) {
  static auto& second = *new stave_test::LateDevice(1);
  const Device device = cuda(place() == 0 ? 1 : 0);
  const Tensor x = to(ones({2, 3}), device);
  Tensor found;
  const std::string asked = calls_of([&] {
    found = with(all(), [&] {
      Tensor sum = psum(x, "i");
      // The first place has waited for the other places' streams, because its result was copied
      // to another device. A simulated stream makes progress only when its own place waits.
      late_device().synchronize();
      return sum;
    });
  });
  EXPECT_EQ(asked, "AllReduce 6 float32 sum");
  EXPECT_EQ(found.device(), device);
  EXPECT_EQ(found.to_vector<float>(), std::vector<float>(6, static_cast<float>(size())));
  EXPECT_TRUE(second.queue.work.empty() || place() == 0);
}

TEST(Nccl, EachAxisHasItsOwnCommunicator) {
  calls();
  {
    Ranks rows("rows", {.group = place() / 2});
    EXPECT_EQ(rows.describe(), fmt::format("Ranks \"rows\" (place {} of {})", rows.place(), rows.size()));
    with(rows, [] { return psum(ones({2}), "rows"); });
    EXPECT_EQ(calls(), "");
    with(rows, [] { return psum(there(ones({2})), "rows"); });
    EXPECT_THAT(calls(), HasSubstr(fmt::format("CommInitRank {} of {}", rows.place(), rows.size())));
  }
  EXPECT_EQ(calls(), "CommDestroy");
}

TEST(Nccl, FailuresNameTheCall) {
  const Tensor x = there(ones({size(), 2}));
  with(all(), [&] { return psum(x, "i"); });
  {
    const Environment fails("MADE_UP_FAILS", "AllReduce");
    EXPECT_THAT(error_of([&] { return psum(x, "i"); }),
                testing::StartsWith("psum: NCCL: ncclAllReduce: a system error: the cable is out"));
  }
  {
    const Environment fails("MADE_UP_FAILS", "Send");
    EXPECT_THAT(error_of([&] { return all_to_all(x, "i"); }),
                testing::StartsWith("all_to_all: NCCL: ncclSend and ncclRecv: a system error: the cable is out"));
  }
  {
    const Environment fails("MADE_UP_LATE_FAILURE", "1");
    EXPECT_THAT(
        error_of([&] { return pmax(x, "i"); }),
        testing::StartsWith("all_gather: NCCL: a collective before this one: a remote error: the cable is out"));
  }
  Ranks other("other");
  {
    const Environment fails("MADE_UP_FAILS", "CommInitRank");
    try {
      with(static_cast<Handles<Call, AxisSize>&>(other), [&] { return psum(x, "other"); });
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("psum: NCCL: ncclCommInitRank: a system error"));
      EXPECT_THAT(error.what(), HasSubstr("inside Ranks \"other\""));
    }
  }
  EXPECT_EQ(with(all(), [&] { return all_to_all(x, "i"); }).to_vector<float>(),
            std::vector<float>(static_cast<std::size_t>(2 * size()), 1.F));
}

// A recording of the device's work would be launched without calls of NCCL.
TEST(Nccl, CompiledProgramsAreNotRecorded) {
  const Tensor x = there(full({4}, 1.0 + place(), float32));
  with(all(), [&] { return psum(x, "i"); });
  const auto f = [](const Tensor& v) { return cumulative_sum(v * 2, 0) + cumulative_sum(sin(v), 0); };
  const auto alone = compile(f);
  const auto together = compile([&](const Tensor& v) { return with(all(), [&] { return f(psum(f(v), "i")); }); });
  Tensor expected = zeros({4});
  for (int i = 0; i < size(); ++i) expected = expected + f(full({4}, 1.0 + i, float32));
  expected = f(expected);
  late_device().recordings = late_device().refusals = 0;
  for (int call = 0; call < 8; ++call) EXPECT_TRUE(allclose(to(alone(x), cpu), f(to(x, cpu))));
  EXPECT_EQ(late_device().recordings, 1);
  for (int call = 0; call < 8; ++call) {
    calls();
    const Tensor found = to(together(x), cpu);
    EXPECT_EQ(calls(), "AllReduce 4 float32 sum");
    EXPECT_TRUE(allclose(found, expected));
  }
  EXPECT_EQ(late_device().recordings, 1);
  EXPECT_EQ(late_device().refusals, 1);
}

// The thread that sows makes the NCCL calls, in order with the other collectives.
TEST(Nccl, CotangentSumsDoNotWait) {
  const Tensor w = there(full({4}, 2.0, float32));
  with(all(), [&] { return psum(w, "i"); });
  CotangentSums sums(all());
  calls();
  const int reads = late_device().reads;
  with(sums, [&] { return grad([](const Tensor& v) { return sum(square(sow_cotangent("w", v))); })(w); });
  const NamedTensors found = sums.take();
  EXPECT_EQ(late_device().reads, reads);
  EXPECT_EQ(calls(), "AllReduce 4 float32 sum");
  EXPECT_EQ(found.at("w").device(), cuda(0));
  EXPECT_EQ(found.at("w").to_vector<float>(), std::vector<float>(4, 4.F * static_cast<float>(size())));
}

}  // namespace
