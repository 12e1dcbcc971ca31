// The matrix exponential by scaling and squaring. One kernel computes the exponentials of small
// matrices. Large matrices are multiplied by cuBLASLt. For these the host reads how often each
// matrix was halved, in order to know the number of squarings. This is the only operation that
// waits for the device.
#include <vector>

#include <stave/backends/cuda/linalg_drivers.h>
#include <stave/backends/cuda/matmul.h>
#include <stave/backends/cuda/kernels/expm.cuh>

namespace stave_cuda {

namespace {

template <class T>
class LargeExponential {
 public:
  LargeExponential(const Launch& launch, Index count, Index n)
      : launch_(launch), count_(count), n_(n), halvings_(room<int>(launch, count)) {
    for (T*& matrix : matrices_) matrix = room<T>(launch, count * n * n);
  }

  /// Replaces x [count, n, n] by its exponential.
  void operator()(T* x) {
    set_powers(x);
    double* const rows = room<double>(launch_, 2 * n_ * count_);
    launch_blocks(launch_, HalveWork<T>{count_, n_, x, power(2), power(3), rows, halvings_}, "expm");
    set_powers(x);
    approximate(x);
    int most = 0;
    for (const int halvings : read_halvings()) most = std::max(most, halvings);
    for (int done = 0; done < most; ++done) {
      multiply(x, x, room_for_product());
      take_squares(x, room_for_product(), done);
    }
    take_squares(x, nullptr, 0);
  }

 private:
  using R = RealOf<T>;
  static constexpr int order = sizeof(R) == 8 ? 13 : 7;
  static_assert(stave_detail::approximants<R>().all[stave_detail::approximants<R>().count - 1].order == order);

  T* power(int i) { return matrices_[i - 1]; }  // x^(2 i)
  T* room_for_product() { return matrices_[3]; }

  void multiply(const T* a, const T* b, T* to) {
    const auto dense = [&](const T* data) {
      return Dense(const_cast<T*>(data), stave::dtype_of<T>(), {count_, n_, n_});
    };
    const Dense x = dense(a), y = dense(b), out = dense(to);
    run_matmul(launch_, x.view, y.view, out.view);
  }
  void set_powers(const T* x) {
    multiply(x, x, power(1));
    multiply(power(1), power(1), power(2));
    multiply(power(2), power(1), power(3));
  }
  std::vector<int> read_halvings() {
    std::vector<int> halvings(static_cast<std::size_t>(count_));
    check(cudaMemcpyAsync(halvings.data(), halvings_, halvings.size() * sizeof(int), cudaMemcpyDeviceToHost,
                          launch_.stream),
          "expm");
    check(cudaStreamSynchronize(launch_.stream), "expm");
    return halvings;
  }

  struct Term {
    R factor;
    const T* matrix;
  };
  void combine(T* to, R identity, std::initializer_list<Term> terms) {
    CombineWork<T> work{count_ * n_, team_width(n_), n_, n_, to, {}, {}, identity, 0};
    for (const Term& term : terms) {
      work.terms[work.count] = term.matrix;
      work.factors[work.count++] = term.factor;
    }
    launch_teams(launch_, work, "expm");
  }
  static R b(int j) { return static_cast<R>(stave_detail::expm_coefficient(order, j)); }
  void take_squares(T* x, const T* squares, int done) {
    launch_teams(launch_, TakeSquaresWork<T>{count_ * n_, team_width(n_), n_, x, squares, halvings_, done}, "expm");
  }

  /// Replaces x by its Pade approximant (v - u)^-1 (v + u), where u is the sum of the odd powers of
  /// x and v that of the even powers.
  void approximate(T* x) {
    T *const inner = matrices_[3], *const product = matrices_[4], *const u = matrices_[5], *const v = matrices_[6];
    // x^6 is factored out of the terms with b13, b11, b9 and b12, b10, b8, which saves products.
    if constexpr (order == 13) {
      combine(inner, 0, {{b(9), power(1)}, {b(11), power(2)}, {b(13), power(3)}});
      multiply(power(3), inner, product);
      combine(inner, b(1), {{1, product}, {b(3), power(1)}, {b(5), power(2)}, {b(7), power(3)}});
      multiply(x, inner, u);
      combine(inner, 0, {{b(8), power(1)}, {b(10), power(2)}, {b(12), power(3)}});
      multiply(power(3), inner, product);
      combine(v, b(0), {{1, product}, {b(2), power(1)}, {b(4), power(2)}, {b(6), power(3)}});
    } else {
      combine(inner, b(1), {{b(3), power(1)}, {b(5), power(2)}, {b(7), power(3)}});
      multiply(x, inner, u);
      combine(v, b(0), {{b(2), power(1)}, {b(4), power(2)}, {b(6), power(3)}});
    }
    combine(inner, 0, {{1, v}, {-1, u}});
    combine(product, 0, {{1, v}, {1, u}});
    divide(inner, product, x);
  }
  /// Computes x = a^-1 b.
  void divide(T* a, T* b, T* x) {
    T* const packed = matrices_[5];
    auto *const exchanges = room<std::int32_t>(launch_, count_ * n_), *const order =
                                                                          room<std::int32_t>(launch_, count_ * n_);
    const stave::Shape shape{count_, n_, n_};
    const Dense matrices(a, stave::dtype_of<T>(), shape), sides(b, stave::dtype_of<T>(), shape),
        factors(packed, stave::dtype_of<T>(), shape), out(x, stave::dtype_of<T>(), shape),
        rows(order, stave::int32, {count_, n_});
    factor_lu(launch_, matrices.view, packed, exchanges, order);
    run_solve<T>(launch_, false, sides.view, factors.view, rows.view, out.view, FirstFailure{});
  }

  const Launch& launch_;
  Index count_, n_;
  int* halvings_;
  T* matrices_[7];
};

}  // namespace

template <class T>
void run_expm(const Launch& launch, const View& in, const View& out) {
  const StackPlan plan(in);
  const Index n = rows_of(in), count = plan.count();
  if (n > most_small) {
    run_copy(launch, in, out);
    return LargeExponential<T>(launch, count, n)(elements<T>(out));
  }
  const int width = team_width(n);
  T* const slots = room<T>(launch, team_slots(launch, count, width) * expm_room * n * n);
  launch_teams(launch, ExpmWork<T>{count, width, plan.on_device<T>(launch), elements<T>(out), slots}, "expm");
}

#define STAVE_FOR(T) template void run_expm<T>(const Launch&, const View&, const View&);
STAVE_MATRIX_NUMBERS(STAVE_FOR)
#undef STAVE_FOR

}  // namespace stave_cuda
