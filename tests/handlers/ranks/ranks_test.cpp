// Tests Ranks under mpirun. Each function is compared with the same function under vmap over
// the data of all places. tests/handlers/ranks/CMakeLists.txt runs it with 1, 2, 4 and 9 processes,
// with tensors on the CPU and on simulated devices; run_gpu.sh runs it with tensors on a GPU.
#include <cmath>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stave/handlers/ranks/cotangent_sums.h>
#include <stave/handlers/ranks/ranks.h>
#include <stave/stave.h>

#include "made_up/late_device.h"

using namespace stave;
using stave_test::device_of_tests;
using testing::HasSubstr;

namespace {

Ranks& all() {
  static Ranks ranks("i");
  return ranks;
}

class NoDeviceNoTests : public testing::Environment {
  void SetUp() override {
    const char* const asked = std::getenv("STAVE_TEST_DEVICE");
    if (asked && std::strcmp(asked, "gpu") == 0 && !cuda_available()) GTEST_SKIP() << "no CUDA device can be used here";
  }
};
testing::Environment* const no_device_no_tests = testing::AddGlobalTestEnvironment(new NoDeviceNoTests);

Tensor there(const Tensor& x) { return to(x, device_of_tests()); }

// Numbers for each place, with shape [places, ...]; all processes have the same ones.
Tensor data(const Shape& shape, Dtype dtype) {
  Shape every = shape;
  every.insert(every.begin(), all().size());
  if (dtype == bool_) return data(shape, float64) > 0;
  if (is_complex(dtype)) return there(normal(Key(7), every, dtype));
  const Tensor x = normal(Key(7), every, is_float(dtype) ? float64 : float32);
  return there(astype(is_float(dtype) ? x : x * 10., dtype));
}

// The elements as doubles; the real parts of complex numbers before the imaginary ones.
std::vector<double> numbers_of(const Tensor& x) {
  const Tensor flat = reshape(x, {-1});
  return astype(is_complex(x.dtype()) ? concat({real(flat), imag(flat)}) : flat, float64).to_vector<double>();
}

using Function = std::function<Tensor(const Tensor&)>;

// Checks that f of this place's data equals this place's lane of vmap(f), up to rounding,
// and that a second run gives the same bits.
void expect_as_lanes(const Function& f, const Tensor& x, double tolerance, const std::string& what) {
  const Tensor expected = vmap(f, {.axis_name = "i"})(x)[all().place()];
  const Tensor found = with(all(), [&] { return f(x[all().place()]); });
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const std::vector<double> a = numbers_of(found), b = numbers_of(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) EXPECT_TRUE(std::isnan(a[i])) << what;
    else EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << " at " << i;
  }
  const std::vector<double> again = numbers_of(with(all(), [&] { return f(x[all().place()]); }));
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), again.data(), a.size() * sizeof(double)) == 0) << what;
}

struct Named {
  const char* name;
  Function f;
};

std::vector<Named> collectives() {
  const Index n = all().size();
  std::vector<std::pair<Index, Index>> ring, shift;
  for (Index i = 0; i < n; ++i) ring.emplace_back(i, (i + 1) % n);
  for (Index i = 0; i + 1 < n; ++i) shift.emplace_back(i, i + 1);
  return {{"psum", [](const Tensor& x) { return psum(x, "i"); }},
          {"pmean", [](const Tensor& x) { return pmean(x, "i"); }},
          {"pmax", [](const Tensor& x) { return pmax(x, "i"); }},
          {"pmin", [](const Tensor& x) { return pmin(x, "i"); }},
          {"all_gather", [](const Tensor& x) { return all_gather(x, "i", {.axis = 1}); }},
          {"all_gather tiled", [](const Tensor& x) { return all_gather(x, "i", {.axis = 1, .tiled = true}); }},
          {"reduce_scatter", [](const Tensor& x) { return reduce_scatter(x, "i"); }},
          {"reduce_scatter tiled", [](const Tensor& x) { return reduce_scatter(x, "i", {.axis = 1, .tiled = true}); }},
          {"all_to_all", [](const Tensor& x) { return all_to_all(x, "i", {.concat_axis = 1}); }},
          {"all_to_all tiled",
           [](const Tensor& x) { return all_to_all(x, "i", {.split_axis = 1, .concat_axis = 0, .tiled = true}); }},
          {"ppermute ring", [ring](const Tensor& x) { return ppermute(x, "i", ring); }},
          {"ppermute shift", [shift](const Tensor& x) { return ppermute(x, "i", shift); }},
          {"axis_index", [](const Tensor& x) { return x * astype(axis_index("i", x.device()), x.dtype()); }}};
}

double tolerance_of(Dtype dtype) {
  if (is_complex(dtype)) return tolerance_of(real_of(dtype));
  return !is_float(dtype) ? 0 : dtype == float64 ? 1e-14 : dtype == float32 ? 1e-6 : dtype == float16 ? 2e-3 : 2e-2;
}

TEST(Ranks, EqualTheLanesOfVmap) {
  const Index n = all().size();
  for (const Dtype dtype :
       {bool_, uint8, int16, int32, int64, uint64, float16, bfloat16, float32, float64, complex64, complex128})
    for (const Named& collective : collectives()) {
      if (dtype == bool_ && std::string(collective.name) == "axis_index") continue;
      const auto what = std::string(collective.name) + " of " + name_of(dtype);
      if (is_complex(dtype) && std::string(collective.name).starts_with("pm") && collective.name[2] != 'e') {
        const Tensor z = data({n}, dtype)[all().place()];
        with(all(), [&] { EXPECT_THROW(collective.f(z), DtypeError) << what; });
        continue;
      }
      expect_as_lanes(collective.f, data({n, 2 * n, 3}, dtype), tolerance_of(dtype), what);
      expect_as_lanes(collective.f, permute_dims(data({3, 2 * n, n}, dtype), {0, 3, 2, 1}), tolerance_of(dtype), what);
      expect_as_lanes(collective.f, data({n, n, 0}, dtype), 0, what);
    }
}

TEST(Ranks, DerivativesEqualThoseOfVmap) {
  const Index n = all().size();
  for (const Named& collective : collectives()) {
    const auto loss = [&](const Tensor& x) {
      const Tensor y = collective.f(x);
      return sum(sin(y) * (1 + 0.1 * astype(axis_index("i", y.device()), y.dtype())));
    };
    const Tensor x = data({n, 2 * n}, float64);
    expect_as_lanes(grad(loss), x, 1e-13, std::string("grad of ") + collective.name);
    expect_as_lanes([&](const Tensor& z) { return jvp(collective.f, z, cos(z)).second; }, x, 1e-13,
                    std::string("jvp of ") + collective.name);
    expect_as_lanes([&](const Tensor& z) { return hvp(loss, z, cos(z)); }, x, 1e-12,
                    std::string("hvp of ") + collective.name);
    expect_as_lanes(vmap(collective.f), data({2, n, 2 * n}, float64), 1e-13, std::string("vmap of ") + collective.name);
    expect_as_lanes(vmap(grad(loss)), data({2, n, 2 * n}, float64), 1e-13,
                    std::string("vmap of grad of ") + collective.name);
    expect_as_lanes(grad([&](const Tensor& z) { return checkpoint(loss)(z); }), x, 1e-13,
                    std::string("checkpoint of ") + collective.name);
  }
}

// Transforms may also be outside Ranks: the operations that they perform are exchanged
// automatically, in the backward pass and for all lanes.
TEST(Ranks, OuterTransformsGiveTheSameResults) {
  const Index n = all().size();
  for (const Named& collective : collectives()) {
    const auto loss = [&](const Tensor& x) { return sum(sin(collective.f(x))); };
    const auto apart = [&](const Tensor& x) { return with(all(), [&] { return loss(x); }); };
    const Tensor x = data({n, 2 * n}, float64);
    const std::vector<double> inside = with(all(), [&] { return grad(loss)(x[all().place()]); }).to_vector<double>();
    EXPECT_EQ(grad(apart)(x[all().place()]).to_vector<double>(), inside) << collective.name;
    const auto compiled = compile(grad(apart));
    for (int call = 0; call < 3; ++call) {
      const std::vector<double> found = compiled(x[all().place()]).to_vector<double>();
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], inside[i], 1e-13) << collective.name;
    }
    const Tensor many = data({2, n, 2 * n}, float64)[all().place()];
    const Tensor of_lanes = vmap(grad(apart))(many);
    for (Index lane = 0; lane < 2; ++lane)
      EXPECT_EQ(of_lanes[lane].to_vector<double>(), grad(apart)(many[lane]).to_vector<double>()) << collective.name;
  }
}

TEST(Ranks, NaNPropagatesThroughMaxAndMin) {
  const double nan = std::nan("");
  const auto of = [&](Dtype dtype) {
    const Tensor mine = there(full({2}, all().place() == 0 ? nan : 1.0, dtype));
    return with(all(), [&] { return pmax(mine, "i") + pmin(mine, "i"); }).to_vector<double>();
  };
  EXPECT_TRUE(std::isnan(of(float64)[1]));
}

TEST(Ranks, GroupsHaveAxesOfTheirOwn) {
  const Index place = all().place(), n = all().size();
  Ranks rows("rows", {.group = place / 2}), columns("columns", {.group = place % 2});
  const Tensor x = there(full({}, static_cast<double>(place), float64));
  const auto f = [](const Tensor& y) { return psum(y, "rows") + 100 * psum(y, "columns"); };
  const double found = with(rows, [&] { return with(columns, [&] { return f(x); }); }).item<double>();
  double expected = 0;
  for (Index i = 0; i < n; ++i)
    expected +=
        (i / 2 == place / 2 ? static_cast<double>(i) : 0) + (i % 2 == place % 2 ? 100. * static_cast<double>(i) : 0);
  EXPECT_EQ(found, expected);
}

TEST(Ranks, CollectivesMayUseLanesAndProcesses) {
  const Tensor x = data({3}, float64);
  const auto f = [](const Tensor& y) { return psum(psum(y * y, "lanes"), "i") * y; };
  const Function in_lanes = vmap(f, {.axis_name = "lanes"});
  expect_as_lanes(in_lanes, x, 1e-13, "psum of psum");
  expect_as_lanes(vmap(grad(f), {.axis_name = "lanes"}), x, 1e-13, "its gradient");
}

TEST(Ranks, DescriptionNamesTheTransportOfDevices) {
  with(all(), [] { return psum(there(ones({2})), "i"); });
  std::printf("%s\n", all().describe().c_str());
  EXPECT_EQ(all().describe().find("cuda:0 by NCCL") != std::string::npos ||
                all().describe().find("through the host's memory") != std::string::npos,
            device_of_tests() != cpu);
}

TEST(Ranks, AreNamedInErrors) {
  try {
    with(static_cast<Handles<Call, AxisSize>&>(all()), [] { return psum(ones({2}), "other"); });
    FAIL();
  } catch (const TransformError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no axis named \"other\" exists here"));
    EXPECT_THAT(error.what(), HasSubstr("inside Ranks \"i\" (place "));
  }
  EXPECT_THROW(Ranks(""), TransformError);
}

// ---- sums during the backward pass -------------------------------------------------------------

Tensor two_layers(const Tensor& w1, const Tensor& w2, const Tensor& x) {
  Tensor h = x;
  {
    const Scope layer("first");
    h = tanh(matmul(h, sow_cotangent("w", w1)));
  }
  const Scope layer("second");
  return sum(square(matmul(h, sow_cotangent("w", w2))));
}

TEST(CotangentSums, AreSumsOverAllProcesses) {
  for (const Dtype dtype : {float64, float32, bfloat16}) {
    const Tensor w1 = there(astype(normal(Key(1), {5, 4}), dtype)), w2 = there(astype(normal(Key(2), {4, 3}), dtype));
    const Tensor x = data({6, 5}, dtype);
    CotangentSums sums(all());
    for (int step = 0; step < 3; ++step) {
      with(sums, [&] { return grad<0, 1>(two_layers)(w1, w2, x[all().place()]); });
      const NamedTensors found = sums.take();
      Tensor first = there(zeros(w1.shape(), float64)), second = there(zeros(w2.shape(), float64));
      for (Index i = 0; i < all().size(); ++i) {
        const auto [g1, g2] = grad<0, 1>(two_layers)(w1, w2, x[i]);
        first = first + g1;
        second = second + g2;
      }
      ASSERT_EQ(found.size(), 2u);
      for (const auto& [name, expected] : {std::pair("first/w", first), std::pair("second/w", second)}) {
        ASSERT_EQ(found.at(name).dtype(), dtype);
        EXPECT_LE(max(abs(astype(found.at(name), float64) - expected)).item<double>(),
                  4 * tolerance_of(dtype) * max(abs(expected)).item<double>())
            << name;
      }
    }
  }
}

TEST(CotangentSums, AcceptScalarsAndEmptyTensors) {
  CotangentSums sums(all());
  with(sums,
       [&] { return grad([](const Tensor& w) { return sum(sow_cotangent("w", w)); })(there(ones({3}, float64))); });
  with(sums,
       [&] { return grad([](const Tensor& w) { return sum(sow_cotangent("none", w)); })(there(ones({0}, float64))); });
  const NamedTensors found = sums.take();
  EXPECT_EQ(found.at("w").to_vector<double>(), std::vector<double>(3, static_cast<double>(all().size())));
  EXPECT_EQ(found.at("none").shape(), Shape({0}));
  EXPECT_TRUE(sums.take().empty());
}

TEST(CotangentSums, RefuseDuplicateNamesAndVmap) {
  CotangentSums sums(all());
  const auto f = [](const Tensor& w) { return sum(sow_cotangent("w", sow_cotangent("w", w))); };
  EXPECT_THROW(with(sums, [&] { return grad(f)(there(ones({3}))); }), Error);
  sums.take();
  const auto inside = [&](const Tensor& w) {
    return with(sums, [&] { return grad([](const Tensor& v) { return sum(square(sow_cotangent("w", v))); })(w); });
  };
  EXPECT_THROW(vmap(inside)(ones({2, 3})), TransformError);
}

// Tests one large tensor, but none with more elements than an MPI count can hold.
TEST(Ranks, LargeTensorsAreSummed) {
  const Tensor x = there(full({1 << 22}, static_cast<double>(all().place() + 1), float64));
  const double n = static_cast<double>(all().size());
  EXPECT_EQ(with(all(), [&] { return psum(x, "i"); })[12345].item<double>(), n * (n + 1) / 2);
}

}  // namespace
