// Tests the patterns of Jacobians: whether they have all entries that jacfwd finds at several
// points, and how many entries they have where that is known.
#include "sparsity.h"
#include "operation_names.h"

namespace sparsity_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::string name;
  Function f;
  Tensor x;
  // The number of entries of the path's pattern; -1: any number.
  Index entries = -1;
  // f reads no values, so the pattern holds at every point.
  bool holds_everywhere = true;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

class Sparsity : public testing::TestWithParam<Case> {};

// The pattern of the path has all entries of the dense Jacobian, at this point and at others. The
// pattern of the point has all entries at the point, and not more than that of the path.
TEST_P(Sparsity, MissesNoEntry) {
  const Case& c = GetParam();
  const SparsityPattern path = jacobian_sparsity(c.f)(c.x), here = jacobian_sparsity(c.f, {.here = true})(c.x);
  const Tensor jacobian = dense_jacobian(c.f, c.x);
  EXPECT_EQ(path.rows, jacobian.shape(0));
  EXPECT_EQ(path.columns, jacobian.shape(1));
  EXPECT_EQ(missed(path, jacobian), 0) << path.dense() << jacobian;
  EXPECT_EQ(missed(here, jacobian), 0) << here.dense() << jacobian;
  EXPECT_LE(here.entries(), path.entries());
  if (c.entries >= 0) {
    EXPECT_EQ(path.entries(), c.entries) << path.dense();
  }
  EXPECT_EQ(path.depends_on_path, !c.holds_everywhere);
  if (!c.holds_everywhere) return;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(missed(path, dense_jacobian(c.f, drawn(100 + i, c.x.shape()))), 0);
}

// The values that are found from few products equal those of the dense Jacobian.
TEST_P(Sparsity, GivesTheValuesOfJacfwd) {
  const Case& c = GetParam();
  const Tensor jacobian = dense_jacobian(c.f, c.x);
  for (const SparseBy by : {SparseBy::automatic, SparseBy::columns, SparseBy::rows}) {
    const auto sparse = sparse_jacobian(c.f, c.x, {.by = by, .check = true});
    EXPECT_THAT(sparse.dense(c.x), IsNear(jacobian, 1e-6)) << static_cast<int>(by);
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }

const Tensor x = drawn(1, {12}), X = drawn(2, {4, 5}), Q = drawn(3, {6, 6}), W = drawn(4, {5, 3});
const Tensor at = tensor({3, 3, 0, 11, 7});

INSTANTIATE_TEST_SUITE_P(
    Elementwise, Sparsity,
    testing::Values(Case{"product", [](const Tensor& v) { return sin(v) * v; }, x, 12},
                    Case{"abs_sign_relu", [](const Tensor& v) { return abs(v) + sign(v) + relu(v) + floor(v); }, x, 12},
                    Case{"maximum", [](const Tensor& v) { return maximum(v, roll(v, 2)); }, x, 24},
                    Case{"mask", [](const Tensor& v) { return v * astype(arange(12) % 2, float64); }, x, 6},
                    Case{"where_constant", [](const Tensor& v) { return where(arange(12) < 5, v, roll(v, 1)); }, x, 12},
                    Case{"where_value", [](const Tensor& v) { return where(v > 0, v, roll(v, 1)); }, x, 24},
                    Case{"branch_not_taken", [](const Tensor& v) { return where(v > 100, sqrt(v - 100.), v); }, x, 12},
                    Case{"stop_gradient", [](const Tensor& v) { return v * stop_gradient(roll(v, 1)); }, x, 12},
                    Case{"cast", [](const Tensor& v) { return astype(astype(v, float32), float64) * v; }, x, 12},
                    Case{"integers_of_values", [](const Tensor& v) { return astype(astype(v, int32), float64) * v; }, x,
                         12},
                    Case{"dropout", [](const Tensor& v) { return dropout(Key(3), v, 0.5); }, x},
                    Case{"nothing", [](const Tensor&) { return ones({3}, float64); }, x, 0},
                    Case{"empty", [](const Tensor& v) { return v(slice(0, 0)); }, x, 0}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Layout, Sparsity,
    testing::Values(Case{"roll_flip_tile",
                         [](const Tensor& v) { return roll(v, 3) * flip(v) + tile(v(slice(4)), {3}); }, x, 34},
                    Case{"laplacian",
                         [](const Tensor& v) {
                           const Tensor u = pad(v, {{1, 1}});
                           return u(slice(2, none)) - 2. * u(slice(1, -1)) + u(slice(none, -2)) + exp(v);
                         },
                         x, 34},
                    Case{"concat_stack",
                         [](const Tensor& v) {
                           return concat({reshape(stack({v, v * v}, 1), {-1}), v(slice(none, none, 3))});
                         },
                         x, 28},
                    Case{"outer", [](const Tensor& v) { return expand_dims(v(slice(4)), 1) * v(slice(4, 8)); }, x, 32},
                    Case{"diag", [](const Tensor& v) { return diag(v); }, x, 12},
                    Case{"kron", [](const Tensor& v) { return kron(v, eye(2, float64)); }, X, 40}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Index, Sparsity,
    testing::Values(
        Case{"take", [](const Tensor& v) { return take(v, at) * 2.; }, x, 5},
        Case{"scatter_add", [](const Tensor& v) { return v.at(at).add(v(slice(5)) * v(slice(5))); }, x, 17},
        Case{"scatter_set", [](const Tensor& v) { return v.at(at).set(v(slice(7, none)) * 3.); }, x, 12},
        Case{"segment_sum",
             [](const Tensor& v) {
               return segment_sum(v * v, tensor({0, 1, 1, 3, 3, 3, 0, 2, 2, 1, 0, 0}), 5);
             },
             x, 12},
        Case{"scatter_multiply", [](const Tensor& v) { return v.at(at).multiply(v(slice(5))); }, x},
        Case{"scatter_max", [](const Tensor& v) { return v.at(at).max(v(slice(5))); }, x},
        Case{"segment_max",
             [](const Tensor& v) {
               return segment_max(v, tensor({0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4}), 5);
             },
             x},
        Case{"dynamic_slice", [](const Tensor& v) { return dynamic_slice(v, {tensor(3)}, {4}) * 2.; }, x, 4},
        Case{"dynamic_update_slice",
             [](const Tensor& v) { return dynamic_update_slice(v, sin(v(slice(3))), {tensor(6)}); }, x, 12},
        Case{"index_of_value", [](const Tensor& v) { return take(v, reshape(argmax(v), {1})); }, x, 12},
        Case{"slice_at_value", [](const Tensor& v) { return dynamic_slice(v, {argmax(v(slice(5)))}, {4}); }, x, 48},
        Case{"update_at_value",
             [](const Tensor& v) { return dynamic_update_slice(v, v(slice(2)), {argmax(v(slice(5)))}); }, x},
        Case{"scatter_at_value", [](const Tensor& v) { return v.at(astype(abs(v(slice(2))), int32)).add(v(slice(2))); },
             x},
        Case{"put_at_value", [](const Tensor& v) { return v.at(astype(abs(v(slice(2))), int32)).set(v(slice(2))); }, x},
        Case{"interp",
             [](const Tensor& v) {
               return interp(tensor({0.1, 0.5, 2.2}, float64), astype(arange(12), float64), v);
             },
             x},
        Case{"sort", [](const Tensor& v) { return sort(v, 1); }, X, 100}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Sums, Sparsity,
    testing::Values(Case{"sum", [](const Tensor& v) { return sum(v * v, 1); }, X, 20},
                    Case{"mean_of_all", [](const Tensor& v) { return mean(v); }, X, 20},
                    Case{"var", [](const Tensor& v) { return var(v, 0); }, X, 20},
                    Case{"prod", [](const Tensor& v) { return prod(v, 1); }, X, 20},
                    Case{"max", [](const Tensor& v) { return max(v, 1); }, X, 20},
                    Case{"logsumexp", [](const Tensor& v) { return logsumexp(v, 0); }, X, 20},
                    Case{"softmax", [](const Tensor& v) { return softmax(v, 1); }, X, 100},
                    Case{"log_softmax", [](const Tensor& v) { return log_softmax(v, 0); }, X, 80},
                    Case{"layer_norm", [](const Tensor& v) { return layer_norm(v); }, X, 100},
                    Case{"rms_norm", [](const Tensor& v) { return rms_norm(v); }, X, 100},
                    Case{"cumulative_sum", [](const Tensor& v) { return cumulative_sum(v * v); }, x, 78},
                    Case{"cumulative_prod", [](const Tensor& v) { return cumulative_prod(v); }, x, 78},
                    Case{"reverse_sum", [](const Tensor& v) { return cumulative_sum(v, 1, {.reverse = true}); }, X, 60},
                    Case{"cummax", [](const Tensor& v) { return cummax(v); }, x},
                    Case{"logcumsumexp", [](const Tensor& v) { return logcumsumexp(v); }, x},
                    Case{"linear_recurrence",
                         [](const Tensor& v) { return linear_recurrence(v(slice(6)), v(slice(6, none)), 0); }, x},
                    Case{"norm", [](const Tensor& v) { return v / norm(v); }, x, 144},
                    Case{"fft", [](const Tensor& v) { return real(ifft(fft(v * v))); }, X, 100}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Products, Sparsity,
    testing::Values(Case{"matmul_constant", [](const Tensor& v) { return matmul(v, W); }, X, 60},
                    Case{"matmul_of_zeros",
                         [](const Tensor& v) {
                           return matmul(tril(ones({12, 12}, float64)) * eye(12, 12, -2, float64), v);
                         },
                         x, 10},
                    Case{"matmul_from_the_left", [](const Tensor& v) { return matmul(v, eye(5, 5, 1, float64)); }, X,
                         16},
                    Case{"matmul_with_itself", [](const Tensor& v) { return matmul(v, transpose(v)); }, X},
                    Case{"einsum", [](const Tensor& v) { return einsum("ij,ij->i", v, v); }, X, 20},
                    Case{"conv",
                         [](const Tensor& v) {
                           return conv(reshape(v, {1, 1, 6, 6}), ones({2, 1, 3, 3}, float64), {.padding = 1});
                         },
                         Q, 512},
                    Case{"conv_strides",
                         [](const Tensor& v) {
                           return conv(reshape(v, {1, 1, 6, 6}), ones({2, 1, 2, 2}, float64),
                                       {.stride = 2, .padding = 1, .dilation = 2});
                         },
                         Q},
                    Case{"conv_weights",
                         [](const Tensor& v) {
                           return conv(ones({1, 1, 5, 5}, float64), reshape(v, {3, 1, 2, 2}), {});
                         },
                         x, 192},
                    Case{"conv_transpose",
                         [](const Tensor& v) {
                           return conv_transpose(reshape(v, {1, 1, 6, 6}), ones({1, 1, 2, 2}, float64), {.stride = 2});
                         },
                         Q, 144},
                    Case{"max_pool",
                         [](const Tensor& v) {
                           return max_pool(reshape(v, {1, 1, 6, 6}), 2);
                         },
                         Q, 324},
                    Case{"avg_pool",
                         [](const Tensor& v) {
                           return avg_pool(reshape(v, {1, 1, 6, 6}), 2);
                         },
                         Q, 36},
                    Case{"attention", [](const Tensor& v) { return scaled_dot_product_attention(v, v, v); }, X},
                    Case{"attention_causal",
                         [](const Tensor& v) { return scaled_dot_product_attention(v, v, v, {.causal = true}); }, X}),
    name_of);

Tensor positive_definite(const Tensor& v) {
  const Tensor a = reshape(v, {3, 2, 2});
  return matmul(a, matrix_transpose(a)) + 3. * eye(2, float64);
}

INSTANTIATE_TEST_SUITE_P(
    LinearAlgebra, Sparsity,
    testing::Values(
        Case{"solve",
             [](const Tensor& v) {
               return solve(tensor({{4., 1.}, {1., 3.}}, float64) + zeros({3, 2, 2}, float64), reshape(v, {3, 2, 2}));
             },
             x, 24},
        Case{"solve_matrix",
             [](const Tensor& v) {
               return solve(positive_definite(v), ones({3, 2, 1}, float64));
             },
             x, 24},
        Case{"solve_banded",
             [](const Tensor& v) {
               return tridiagonal_solve(full({6}, .5, float64), 3. + v(slice(6)) * v(slice(6)), full({6}, -.5, float64),
                                        v(slice(6, none)));
             },
             x},
        Case{"triangular_solve",
             [](const Tensor& v) {
               return triangular_solve(tril(ones({6, 6}, float64)), v, {.lower = true});
             },
             Q, 216},
        Case{"cholesky", [](const Tensor& v) { return cholesky(positive_definite(v)); }, x},
        Case{"inv", [](const Tensor& v) { return inv(positive_definite(v)); }, x, 48},
        Case{"det",
             [](const Tensor& v) {
               return det(reshape(v, {3, 2, 2}));
             },
             x, 12},
        Case{"eigvalsh", [](const Tensor& v) { return eigvalsh(positive_definite(v)); }, x},
        Case{"expm",
             [](const Tensor& v) {
               return expm(reshape(v, {3, 2, 2}));
             },
             x, 48}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Derivatives, Sparsity,
    testing::Values(
        Case{"grad_of_rosenbrock",
             [](const Tensor& v) {
               return grad([](const Tensor& u) {
                 return sum(square(u(slice(1, none)) - square(u(slice(none, -1)))) + square(1. - u(slice(none, -1))));
               })(v);
             },
             x, 34},
        Case{"grad_of_logsumexp",
             [](const Tensor& v) { return grad([](const Tensor& u) { return sum(logsumexp(u, 1)); })(v); }, X, 100},
        Case{"grad_of_max",
             [](const Tensor& v) { return grad([](const Tensor& u) { return sum(square(max(u, 1))); })(v); }, X},
        Case{"grad_of_layer_norm",
             [](const Tensor& v) { return grad([](const Tensor& u) { return sum(sin(layer_norm(u))); })(v); }, X},
        Case{"grad_of_cross_entropy",
             [](const Tensor& v) {
               return grad([](const Tensor& u) { return cross_entropy(u, tensor({0, 1, 2, 3})); })(v);
             },
             X},
        Case{"jvp_inside",
             [](const Tensor& v) { return jvp([](const Tensor& u) { return u * u * u; }, v, roll(v, 1)).second; }, x,
             24},
        Case{"vmap_inside",
             [](const Tensor& v) { return vmap([](const Tensor& r) { return tanh(sum(r * r) * r); })(v); }, X, 100},
        Case{"vmap_of_columns",
             [](const Tensor& v) {
               return vmap([](const Tensor& r) { return softmax(r); }, {.in_axes = 1, .out_axes = 1})(v);
             },
             X, 80},
        Case{"psum",
             [](const Tensor& v) {
               return vmap([](const Tensor& r) { return r - psum(r, "i"); }, {.axis_name = "i"})(v);
             },
             X, 80},
        Case{"checkpoint",
             [](const Tensor& v) { return checkpoint([](const Tensor& u) { return sin(u) * roll(u, 1); })(v); }, x, 24},
        Case{"grad_of_checkpoint",
             [](const Tensor& v) {
               return grad([](const Tensor& u) {
                 return sum(checkpoint([](const Tensor& w) { return sin(w) * roll(w, 1); })(u));
               })(v);
             },
             x, 36},
        Case{"custom_vjp",
             [](const Tensor& v) {
               return custom_vjp([](const Tensor& u) { return round(u); },
                                 [](const Tensor& u) { return std::pair(round(u), u); },
                                 [](const Tensor&, const Tensor& g) { return g; })(v);
             },
             x, 12},
        Case{"custom_jvp",
             [](const Tensor& v) {
               return custom_jvp([](const Tensor& u) { return round(u); },
                                 [](const Tensor& u, const Tensor& du) { return std::pair(round(u), roll(du, 2)); })(v);
             },
             x, 12},
        Case{"loop", [](const Tensor& v) { return loop(3, [](const Tensor& u) { return sin(u) + roll(u, 1); })(v); }, x,
             48},
        Case{"compiled",
             [](const Tensor& v) { return compile([](const Tensor& u) { return sin(u) + roll(u, 1); })(v); }, x, 24},
        Case{"compiled_loop",
             [](const Tensor& v) {
               return compile(
                   [](const Tensor& u) { return loop(3, [](const Tensor& w) { return sin(w) + roll(w, 1); })(u); })(v);
             },
             x, 48},
        Case{"traced",
             [](const Tensor& v) {
               return trace([](const Tensor& w) {
                 return loop(5, [](const Tensor& u) { return sin(u) + roll(u, 1); })(w);
               })(stop_gradient(v))(v);
             },
             x, 72}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    ControlFlow, Sparsity,
    testing::Values(Case{"while_above",
                         [](const Tensor& v) {
                           Tensor y = v;
                           while (sum(y * y).item<double>() > 1) y = y * 0.5 + 0.01 * roll(y, 1);
                           return y;
                         },
                         x, -1, false},
                    Case{"index_read", [](const Tensor& v) { return v * v(argmax(v).item<int>()); }, x, 23, false},
                    Case{"lanes_part",
                         [](const Tensor& v) {
                           return vmap([](const Tensor& r) { return sum(r) > 0 ? r * r : Tensor(cumulative_sum(r)); })(
                               v);
                         },
                         X, -1, false}),
    name_of);

// In float32 the pattern is the same: sets do not depend on the dtype.
TEST(JacobianSparsity, IsTheSameInFloat32) {
  const auto f = [](const Tensor& v) { return softmax(v, 1) * cumulative_sum(v, 0); };
  const Tensor in_float32 = astype(X, float32);
  EXPECT_THAT(jacobian_sparsity(f)(in_float32).dense(), Equals(jacobian_sparsity(f)(X).dense()));
  EXPECT_THAT(sparse_jacobian(f, in_float32).values(in_float32),
              IsNear(astype(sparse_jacobian(f, X).values(X), float32), 1e-5));
}

TEST(JacobianSparsity, IsGivenAsCompressedRows) {
  const auto f = [](const Tensor& v) { return v(slice(1, none)) * v(slice(none, -1)); };
  const SparsityPattern p = jacobian_sparsity(f)(ones({4}));
  EXPECT_THAT(p.row_offsets, Equals(tensor({0, 2, 4, 6}, int64)));
  EXPECT_THAT(p.column_indices, Equals(tensor({0, 1, 1, 2, 2, 3})));
  EXPECT_THAT(p.row_indices(), Equals(tensor({0, 0, 1, 1, 2, 2})));
  EXPECT_THAT(p.dense(arange(1, 7, 1, float32)),
              Equals(tensor({{1., 2., 0., 0.}, {0., 3., 4., 0.}, {0., 0., 5., 6.}})));
}

// With `here` the values of the argument say which operand of `where` counts, and what is indexed.
TEST(JacobianSparsity, OfOnePointHasFewerEntries) {
  const auto f = [](const Tensor& v) { return where(v > 0, v, roll(v, 1)) + take(v, reshape(argmax(v), {1})); };
  EXPECT_EQ(jacobian_sparsity(f)(x).entries(), 144);
  const SparsityPattern here = jacobian_sparsity(f, {.here = true})(x);
  EXPECT_EQ(here.entries(), entries_of(dense_jacobian(f, x)));
  EXPECT_EQ(missed(here, dense_jacobian(f, x)), 0);
}

struct Layer {
  Tensor w, b;
};
struct Output {
  Tensor value;
  std::vector<Tensor> parts;
};

TEST(JacobianSparsity, TakesTreesOfSeveralArguments) {
  const auto f = [](const Layer& layer, const Tensor& v, double factor) {
    return Output{factor * layer.w * v, {layer.b, sum(v)}};
  };
  const Layer layer{tensor({1., 2.}), tensor({3., 4., 5.})};
  const SparsityPattern by_layer = jacobian_sparsity(f)(layer, tensor({1., 1.}), 2.);
  EXPECT_THAT(by_layer.dense(), Equals(tensor({{true, false, false, false, false},
                                               {false, true, false, false, false},
                                               {false, false, true, false, false},
                                               {false, false, false, true, false},
                                               {false, false, false, false, true},
                                               {false, false, false, false, false}})));
  const SparsityPattern by_both = jacobian_sparsity<0, 1>(f)(layer, tensor({1., 1.}), 2.);
  EXPECT_EQ(by_both.columns, 7);
  EXPECT_EQ(by_both.entries(), 9);
  EXPECT_EQ(jacobian_sparsity<1>(f)(layer, tensor({1., 1.}), 2.).entries(), 4);
}

TEST(JacobianSparsity, TakesNamesOfFunctions) { EXPECT_EQ(jacobian_sparsity(sin)(x).entries(), 12); }

// ---- constants ----------------------------------------------------------------------------------

struct Mask {
  using Result = Tensor;
};
struct Masked : Handles<Mask> {
  Tensor mask;
  Tensor handle(Mask&) override { return mask; }
};
struct Opaque {
  Tensor tensor;
  const void* why;  // a pointer cannot be recorded
};
struct Hidden {
  using Result = Opaque;
};
struct HiddenMask : Handles<Hidden> {
  Tensor mask;
  Opaque handle(Hidden&) override { return {mask, this}; }
};

// The zeros of a captured mask remove entries. Those of a mask that a handler gives do not, because
// they may differ next time.
TEST(JacobianSparsity, TakesAnswersOfEffectsForNoConstants) {
  const Tensor mask = astype(arange(12) % 2, float64);
  EXPECT_EQ(jacobian_sparsity([&](const Tensor& v) { return v * mask; })(x).entries(), 6);
  Masked masked;
  masked.mask = mask;
  const auto by_effect = [](const Tensor& v) { return v * perform(Mask{}); };
  EXPECT_EQ(with(masked, [&] { return jacobian_sparsity(by_effect)(x).entries(); }), 12);
  HiddenMask hidden;
  hidden.mask = mask;
  const auto by_hidden_effect = [](const Tensor& v) { return v * perform(Hidden{}).tensor; };
  EXPECT_EQ(with(hidden, [&] { return jacobian_sparsity(by_hidden_effect)(x).entries(); }), 12);
  const auto inside = [&](const Tensor& v) { return with(masked, [&] { return by_effect(v); }); };
  EXPECT_EQ(jacobian_sparsity(inside)(x).entries(), 6);
}

TEST(JacobianSparsity, SaysThatTheFunctionReadsAnAnswer) {
  Masked masked;
  masked.mask = tensor(1.);
  const auto f = [](const Tensor& v) { return perform(Mask{}) > 0 ? v : roll(v, 1); };
  EXPECT_TRUE(with(masked, [&] { return jacobian_sparsity(f)(x).depends_on_path; }));
}

// If the function catches an error that depends on values, that counts as a branch.
TEST(JacobianSparsity, SaysThatTheFunctionCatchesAnError) {
  const auto f = [](const Tensor& v) {
    try {
      return take(v, astype(v, int32));
    } catch (const IndexError&) {
      return v;
    }
  };
  EXPECT_TRUE(jacobian_sparsity(f)(x + 100.).depends_on_path);
}

// ---- surrounding handlers, and dense operations -------------------------------------------------

// Surrounding handlers see the operations of the function and of its jvp, but none on sets.
TEST(JacobianSparsity, PerformsNoOperationsOfItsOwn) {
  const auto f = [] { return jacobian_sparsity([](const Tensor& v) { return sum(sin(v)); })(x); };
  EXPECT_THAT(operations_in(f), ElementsAre("sin", "cos", "scale", "sum", "sum"));
}

TEST(JacobianSparsity, CountsNoOperationAsDense) {
  const auto f = [](const Tensor& v) { return take(v, argsort(v)) + v; };
  EXPECT_THAT(jacobian_sparsity(f)(x).dense_operations, IsEmpty());
}

// ---- errors -------------------------------------------------------------------------------------

TEST(JacobianSparsity, RefusesWhatHasNoJacobian) {
  const auto complex_argument = [] {
    return jacobian_sparsity([](const Tensor& v) { return v; })(ones({2}, complex64));
  };
  EXPECT_THAT(message_of<DtypeError>(complex_argument),
              HasSubstr("jacobian_sparsity: argument 0 is complex64: differentiate by real(z) and imag(z)"));
  const auto bool_result = [] { return jacobian_sparsity([](const Tensor& v) { return v > 0; })(x); };
  EXPECT_THAT(message_of<DtypeError>(bool_result), HasSubstr("jacobian_sparsity: the function returned bool"));
  const auto integers = [] { return jacobian_sparsity([](const Tensor& v) { return v; })(arange(3)); };
  EXPECT_THAT(message_of<DtypeError>(integers), HasSubstr("argument 0 is int32 [3], which has no derivative"));
  const auto nothing = [] {
    return jacobian_sparsity([](const std::vector<Tensor>& v) { return v; })(std::vector<Tensor>());
  };
  EXPECT_THAT(message_of<TransformError>(nothing), HasSubstr("the differentiated arguments hold no tensors"));
}

}  // namespace sparsity_test
