#include <stave/backends/cuda/linalg.h>

#include <stave/backends/attributes.h>
#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/linalg_drivers.h>
#include <stave/backends/cuda/matmul.h>
#include <stave/core/op/all_ops.h>

namespace stave_cuda {

using stave::OpId, stave_detail::as;

const char* linalg_failure(OpId op) {
  switch (op) {
    case OpId::cholesky: return "is not positive definite";
    case OpId::triangular_solve: return "is singular: its diagonal has a 0";
    case OpId::solve: return "is singular";
    case OpId::eigh:
    case OpId::eigvalsh:
    case OpId::svd:
    case OpId::svdvals: return "has a factorization that did not converge";
    default: return nullptr;
  }
}

namespace {

using Inputs = std::span<const View>;

bool is_small(const View& matrices) { return std::max(rows_of(matrices), columns_of(matrices)) <= most_small; }
int width_for(const View& matrices) { return team_width(std::max(rows_of(matrices), columns_of(matrices))); }

// ---- factors ----------------------------------------------------------------------------------

template <class T>
void run_cholesky(const Launch& launch, bool nan_if_indefinite, const View& in, const View& out) {
  const StackPlan plan(in);
  const FailurePlace failure(launch, !nan_if_indefinite);
  if (is_small(in))
    launch_teams(launch,
                 CholeskyWork<T>{plan.count(), width_for(in), plan.on_device<T>(launch), elements<T>(out), failure},
                 "cholesky");
  else large_cholesky<T>(launch, in, out, failure);
  failure.report();
}

template <class T>
void run_qr(const Launch& launch, const View& in, std::span<const View> out) {
  if (!is_small(in)) return large_qr<T>(launch, in, out);
  const StackPlan plan(in);
  launch_teams(launch,
               QrWork<T>{plan.count(), width_for(in), plan.on_device<T>(launch), elements<T>(out[0]),
                         elements<T>(out[1]), columns_of(out[0])},
               "qr");
}

template <class T>
void run_eigh(const Launch& launch, const View& in, std::span<const View> out) {
  const StackPlan plan(in);
  const FailurePlace failure(launch, true);
  if (is_small(in))
    launch_teams(launch,
                 EighWork<T>{plan.count(), width_for(in), plan.on_device<T>(launch), elements<RealOf<T>>(out[0]),
                             out.size() == 2 ? elements<T>(out[1]) : nullptr, failure},
                 "eigh");
  else large_eigh<T>(launch, in, out, failure);
  failure.report();
}

template <class T>
void run_svd(const Launch& launch, const View& in, std::span<const View> out) {
  const StackPlan plan(in);
  const FailurePlace failure(launch, true);
  const bool vectors = out.size() == 3;
  if (is_small(in))
    launch_teams(
        launch,
        SvdWork<T>{plan.count(), width_for(in), plan.on_device<T>(launch), vectors ? elements<T>(out[0]) : nullptr,
                   elements<RealOf<T>>(out[vectors ? 1 : 0]), vectors ? elements<T>(out[2]) : nullptr,
                   vectors ? columns_of(out[0]) : 0, vectors ? rows_of(out[2]) : 0, failure},
        "svd");
  else large_svd<T>(launch, in, out, failure);
  failure.report();
}

template <class T>
void run_determinant(const Launch& launch, const View& in, std::span<const View> out) {
  const StackPlan plan(in);
  const Index n = rows_of(in), count = plan.count();
  T* const packed = room<T>(launch, count * n * n);
  auto *const exchanges = room<std::int32_t>(launch, count * n), *const order = room<std::int32_t>(launch, count * n);
  if (n > 0) factor_lu(launch, in, packed, exchanges, order);
  const bool logarithm = out.size() == 2;
  launch_teams(launch,
               DeterminantWork<T>{count, team_width(n), plan.on_device<T>(launch), packed, exchanges,
                                  logarithm ? nullptr : elements<T>(out[0]), logarithm ? elements<T>(out[0]) : nullptr,
                                  logarithm ? elements<RealOf<T>>(out[1]) : nullptr},
               "det");
}

// ---- systems of equations ---------------------------------------------------------------------

template <class T>
void small_substitute(const Launch& launch, const View& matrices, const View& sides,
                      std::span<const Triangle> triangles, const View* order, const View& out,
                      const FirstFailure& failure) {
  const StackPlan a(matrices), b(sides);
  const Index k = columns_of(sides);
  const int width = team_width(std::max(rows_of(matrices), k));
  SubstituteWork<T> work{};
  work.groups = (k + width - 1) / width;
  work.items = a.count() * work.groups;
  work.width = width;
  work.a = a.on_device<T>(launch);
  work.b = b.on_device<T>(launch);
  work.out = elements<T>(out);
  std::copy(triangles.begin(), triangles.end(), work.triangles);
  work.triangle_count = static_cast<int>(triangles.size());
  if (order) work.order = StackPlan(*order, 1).on_device<std::int32_t>(launch);
  work.failure = failure;
  if (work.items > 0) launch_teams(launch, work, "solve");
}

template <class T>
void find_zeros(const Launch& launch, const View& matrices, const FirstFailure& failure) {
  const StackPlan plan(matrices);
  launch_teams(launch, DiagonalWork<T>{plan.count(), team_width(rows_of(matrices)), plan.on_device<T>(launch), failure},
               "solve");
}

template <class T>
void run_triangular_solve(const Launch& launch, const stave::TriangularAttributes& of, const View& a, const View& b,
                          const View& out) {
  const FailurePlace failure(launch, true);
  const Triangle triangle[] = {{of.lower, of.transpose, of.unit}};
  if (is_small(a)) {
    small_substitute<T>(launch, a, b, triangle, nullptr, out, failure);
  } else {
    run_copy(launch, b, out);
    if (!of.unit) find_zeros<T>(launch, a, failure);
    large_substitute<T>(launch, a, triangle, elements<T>(out), columns_of(b));
  }
  failure.report();
}

template <class T>
void permute_rows(const Launch& launch, const View& b, const View& order, bool scatters, T* to) {
  const StackPlan plan(b), orders(order, 1);
  launch_teams(launch,
               PermuteWork<T>{plan.count() * rows_of(b), team_width(columns_of(b)), plan.on_device<T>(launch),
                              orders.on_device<std::int32_t>(launch), scatters, to},
               "solve");
}

/// The conjugate transposes of matrices. Complex matrices are copied, real ones are not.
template <class T>
struct Adjoint {
  Dense conjugates;
  Transposed transposed;

  Adjoint(const Launch& launch, const View& of)
      : conjugates(is_real<T> ? nullptr : room<T>(launch, element_count(of.shape)), of.dtype, stave::Shape(of.shape)),
        transposed(is_real<T> ? of : conjugates.view) {
    if (!is_real<T>) run_elementwise(launch, OpId::conj, {&of, 1}, conjugates.view);
  }
};

/// Computes x = vh^H diag(inverse) u^H b.
template <class T>
void run_lstsq(const Launch& launch, Inputs in, const View& out) {
  const Adjoint<T> u(launch, in[2]), v(launch, in[4]);
  const StackPlan inverse(in[3], 1);
  stave::Shape shape(out.shape);
  shape[shape.size() - 2] = in[3].shape.back();
  const Dense part(room<T>(launch, shape.elements()), out.dtype, shape);
  run_matmul(launch, u.transposed.view, in[1], part.view);
  if (shape.elements() > 0)
    launch_teams(launch,
                 ScaleRowsWork<T>{shape.elements() / shape.back(), team_width(shape.back()),
                                  inverse.on_device<RealOf<T>>(launch), elements<T>(part.view), shape.back()},
                 "lstsq");
  run_matmul(launch, v.transposed.view, part.view, out);
}

/// Writes identity matrices to `out`, the result for inputs without elements.
template <class T>
void set_identities(const Launch& launch, const View& out) {
  const Index n = rows_of(out), count = element_count(out.shape);
  if (count == 0) return;
  launch_teams(
      launch,
      CombineWork<T>{
          count / columns_of(out), team_width(columns_of(out)), columns_of(out), n, elements<T>(out), {}, {}, 1, 0},
      "identity");
}

template <class T>
void run(const Launch& launch, OpId op, const stave::Attributes* attributes, Inputs in, std::span<const View> out) {
  if (element_count(in[0].shape) == 0) {
    if (op == OpId::svd || op == OpId::qr)
      for (const View& matrices : out)
        if (matrices.shape.size() == in[0].shape.size()) set_identities<T>(launch, matrices);
    if (op != OpId::det && op != OpId::slogdet && op != OpId::lu && op != OpId::lstsq) return;
  }
  switch (op) {
    case OpId::cholesky:
      return run_cholesky<T>(launch, as<stave::CholeskyAttributes>(attributes).nan_if_indefinite, in[0], out[0]);
    case OpId::triangular_solve:
      return run_triangular_solve<T>(launch, as<stave::TriangularAttributes>(attributes), in[0], in[1], out[0]);
    case OpId::lu:
      return factor_lu<T>(launch, in[0], elements<T>(out[0]), elements<std::int32_t>(out[1]),
                          elements<std::int32_t>(out[2]));
    case OpId::solve: {
      const FailurePlace failure(launch, true);
      run_solve<T>(launch, as<stave::SolveAttributes>(attributes).transpose, in[1], in[2], in[3], out[0], failure);
      return failure.report();
    }
    case OpId::det:
    case OpId::slogdet: return run_determinant<T>(launch, in[0], out);
    case OpId::qr: return run_qr<T>(launch, in[0], out);
    case OpId::eigh:
    case OpId::eigvalsh: return run_eigh<T>(launch, in[0], out);
    case OpId::svd:
    case OpId::svdvals: return run_svd<T>(launch, in[0], out);
    case OpId::lstsq: return run_lstsq<T>(launch, in, out[0]);
    default: return run_expm<T>(launch, in[0], out[0]);
  }
}

}  // namespace

template <class T>
void factor_lu(const Launch& launch, const View& in, T* packed, std::int32_t* exchanges, std::int32_t* order) {
  const StackPlan plan(in);
  if (plan.count() == 0) return;
  if (!is_small(in)) return large_lu(launch, in, packed, exchanges, order);
  launch_teams(launch, LuWork<T>{plan.count(), width_for(in), plan.on_device<T>(launch), packed, exchanges, order},
               "lu");
}

/// Solves with factors a[order] = l u.
///
///   a x = b      x = u^-1 l^-1 b[order]
///   a^T x = b    x[order] = l^-T u^-T b
template <class T>
void run_solve(const Launch& launch, bool transpose, const View& b, const View& packed, const View& order,
               const View& out, const FirstFailure& failure) {
  const Triangle l{true, transpose, true}, u{false, transpose, false};
  const Triangle triangles[] = {transpose ? u : l, transpose ? l : u};
  if (is_small(packed)) return small_substitute<T>(launch, packed, b, triangles, &order, out, failure);
  find_zeros<T>(launch, packed, failure);
  const Index k = columns_of(b);
  if (!transpose) {
    permute_rows(launch, b, order, false, elements<T>(out));
    return large_substitute<T>(launch, packed, triangles, elements<T>(out), k);
  }
  const Dense turned(room<T>(launch, element_count(b.shape)), b.dtype, stave::Shape(b.shape));
  run_copy(launch, b, turned.view);
  large_substitute<T>(launch, packed, triangles, elements<T>(turned.view), k);
  permute_rows(launch, turned.view, order, true, elements<T>(out));
}

#define STAVE_FOR(T)                                                                                  \
  template void factor_lu(const Launch&, const View&, T*, std::int32_t*, std::int32_t*);              \
  template void run_solve<T>(const Launch&, bool, const View&, const View&, const View&, const View&, \
                             const FirstFailure&);
STAVE_MATRIX_NUMBERS(STAVE_FOR)
#undef STAVE_FOR

void run_linalg(const Launch& launch, OpId op, const stave::Attributes* attributes, Inputs in,
                std::span<const View> out) {
  switch (in[0].dtype) {
    case stave::float32: return run<float>(launch, op, attributes, in, out);
    case stave::float64: return run<double>(launch, op, attributes, in, out);
    case stave::complex64: return run<ComplexElement<float>>(launch, op, attributes, in, out);
    default: return run<ComplexElement<double>>(launch, op, attributes, in, out);
  }
}

}  // namespace stave_cuda
