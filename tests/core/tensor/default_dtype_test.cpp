// The default floating dtype, for functions that name none.

#include <fstream>

#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace default_dtype_test {

using namespace stave;
using namespace stave_test;
using testing::Each;

using T = const Tensor&;

/// Returns the dtypes of tensors created without a dtype.
std::vector<Dtype> made() {
  const Folder folder;
  const std::string path = with_bytes(folder / "x.csv", "1,2\n");
  const Tensor integers = arange(3), flags = integers > 0;
  const std::vector<Tensor> all{tensor({1., 2.}),
                                tensor({{1.f}}),
                                tensor({}),
                                tensor(0.5),
                                Tensor(0.5f),
                                zeros({2}),
                                ones({}),
                                full({2}, 0.5),
                                arange(0., 1., 0.5),
                                arange(2.),
                                linspace(0, 1, 3),
                                eye(2),
                                eye(2, 3, 1),
                                one_hot(integers, 3),
                                uniform(Key(0), {2}),
                                uniform(Key(0)),
                                normal(Key(0), {2}),
                                integers * 0.5,
                                flags + 0.5,
                                where(flags, 0.5, 1),
                                sin(integers),
                                integers / integers,
                                mean(integers),
                                var(integers),
                                norm(integers),
                                logsumexp(integers),
                                softmax(integers),
                                atan2(integers, integers),
                                read_csv(path),
                                global_norm(std::vector<Tensor>())};
  std::vector<Dtype> dtypes;
  for (T x : all) dtypes.push_back(x.dtype());
  return dtypes;
}

TEST(DefaultDtype, IsFloat32UnlessAHandlerSaysOtherwise) {
  EXPECT_THAT(made(), Each(float32));
  EXPECT_THAT(with(DefaultDtype(float64), made), Each(float64));
  EXPECT_THAT(with(DefaultDtype(float64), [] { return with(DefaultDtype(float32), made); }), Each(float32));
  EXPECT_EQ(default_dtype(), float32);
}

TEST(DefaultDtype, DoesNotAffectFloatsAndNamedDtypes) {
  const Tensor x = tensor({1., 2.}), i = arange(2);
  with(DefaultDtype(float64), [&] {
    EXPECT_EQ((x * 0.5).dtype(), float32);
    EXPECT_EQ(mean(x).dtype(), float32);
    EXPECT_EQ(zeros({2}, float32).dtype(), float32);
    EXPECT_EQ(tensor({1., 2.}, float32).dtype(), float32);
    EXPECT_EQ(zeros_like(x).dtype(), float32);
    EXPECT_EQ(uniform(Key(0), {2}, float32).dtype(), float32);
    EXPECT_EQ((i + 1).dtype(), int32);
    EXPECT_EQ(tensor({1, 2}).dtype(), int32);
    EXPECT_EQ(tensor({true}).dtype(), bool_);
  });
}

// The default applies inside transforms, in both passes, and when a checkpoint runs its function
// again.
TEST(DefaultDtype, AppliesInsideTransforms) {
  const auto f = [](T x) { return sum(x * tensor({1., 2.}) * zeros({2}) + linspace(0, 1, 2) * x); };
  const Tensor x = tensor({3., 4.}, float64), xs = stack({x, x});
  with(DefaultDtype(float64), [&] {
    EXPECT_THAT(grad(f)(x), Equals(tensor({0., 1.})));
    EXPECT_THAT(grad(checkpoint(f))(x), Equals(tensor({0., 1.})));
    EXPECT_EQ(vmap(f)(xs).dtype(), float64);
    EXPECT_EQ(jvp(f, x, x).second.dtype(), float64);
  });
}

TEST(DefaultDtype, MustBeAFloat) {
  EXPECT_EQ(message_of<DtypeError>([] { DefaultDtype dtype(int32); }), "DefaultDtype: int32 is not a floating dtype");
}

}  // namespace default_dtype_test
