// Complex numbers in machine code, which has the bits of kernels, and in C source, whose functions
// are compared with std::complex<long double>.
#include <complex>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/handlers/compile/write_c.h>
#include <stave/stave.h>

#include "compiled_c.h"
#include "machine_code.h"
#include "matchers.h"

namespace stave_test {
namespace {

using namespace stave;
using namespace std::complex_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;
using C = std::complex<double>;
using Wide = std::complex<long double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The bits of the parts of x, in float64; all NaN have the same.
std::vector<std::uint64_t> bits_of(const Tensor& x) {
  const Tensor parts = astype(is_complex(x.dtype()) ? stack({real(x), imag(x)}, -1) : x, float64);
  std::vector<std::uint64_t> bits;
  for (const double part : parts.to_vector<double>())
    bits.push_back(std::bit_cast<std::uint64_t>(std::isnan(part) ? not_a_number : part));
  return bits;
}

template <class F, class... Xs>
void expect_bits_of_kernels(F f, const Xs&... xs) {
  const auto native = tensors_of(replayed(compile(f, {.native = Native::required}), xs...));
  const auto kernels = tensors_of(replayed(compile(f, {.native = Native::never}), xs...));
  const auto eager = tensors_of(f(xs...));
  ASSERT_EQ(native.size(), kernels.size());
  for (std::size_t k = 0; k < native.size(); ++k) {
    EXPECT_EQ(native[k].dtype(), eager[k].dtype());
    EXPECT_EQ(bits_of(native[k]), bits_of(kernels[k]))
        << native[k] << " by machine code, " << kernels[k] << " by kernels";
    EXPECT_EQ(bits_of(native[k]), bits_of(eager[k])) << native[k] << " by machine code, " << eager[k] << " eager";
  }
}

Tensor some(const Shape& shape, std::uint64_t seed, Dtype dtype = complex128) {
  return normal(Key(seed), shape, dtype);
}
const Dtype complex_dtypes[] = {complex64, complex128};

// ---- machine code -------------------------------------------------------------------------------

TEST(MachineCodeComplex, ArithmeticHasTheBitsOfKernels) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor c = a * b + conj(a) / (b - 0.5i) - square(b), x = real(c) * imag(a);
    return std::tuple(c, reciprocal(c), -c, c == a, c != c, where(x > 0, c, a), abs(c), angle(c), complex(x, abs(b)),
                      astype(x, a.dtype()) * c, astype(c, bool_), scale(a, b), scale_by_inverse(a, b));
  };
  for (const Dtype dtype : complex_dtypes)
    for (const Shape& shape : {Shape(), Shape{3}, Shape{4, 7}, Shape{10, 20}})
      expect_bits_of_kernels(f, some(shape, 1, dtype), some(shape, 2, dtype));
}

TEST(MachineCodeComplex, SpecialValuesHaveTheBitsOfKernels) {
  NEEDS_NATIVE_CODE();
  const std::vector<double> numbers{0., -0., 1., -2.5, 1e300, 1e-300, infinity, -infinity, not_a_number};
  std::vector<C> all;
  for (const double x : numbers)
    for (const double y : numbers) all.emplace_back(x, y);
  const auto f = [](const Tensor& a, const Tensor& b) {
    return std::tuple(a * b, a / b, scale(a, b), scale_by_inverse(a, b), reciprocal(b), conj(a), a == b, a != b);
  };
  const auto compiled = compile(f, {.native = Native::required});
  const Tensor column = from(all);
  for (const C& z : all)
    for (const Dtype dtype : complex_dtypes) {
      const Tensor a = astype(full({81}, z, complex128), dtype), b = astype(column, dtype);
      const auto found = tensors_of(replayed(compiled, a, b)), expected = tensors_of(f(a, b));
      for (std::size_t k = 0; k < found.size(); ++k)
        ASSERT_EQ(bits_of(found[k]), bits_of(expected[k])) << k << ": " << z << ", " << dtype;
    }
}

TEST(MachineCodeComplex, LoopsCarryThem) {
  NEEDS_NATIVE_CODE();
  const auto mandelbrot = [](const Tensor& c) {
    const auto step = [&](const Tensor& z) { return where(abs(z) < 2, z * z + c, z); };
    return loop(50, step)(zeros_like(c));
  };
  const auto recurrent = [](const Tensor& z, const Tensor& xs) {
    const auto step = [](const Tensor& state, const Tensor& x) {
      const Tensor next = state * (0.9 + 0.1i) + x / (1. + state * conj(state));
      return std::pair(next, abs(next));
    };
    const auto [last, sizes] = scan(step)(z, xs);
    return std::tuple(last, sizes);
  };
  const auto loss = [=](const Tensor& z, const Tensor& xs) {
    const auto [last, sizes] = recurrent(z, xs);
    return sum(sizes) + sum(real(last));
  };
  for (const Dtype dtype : complex_dtypes) {
    expect_bits_of_kernels(mandelbrot, some({5}, 1, dtype));
    expect_bits_of_kernels(recurrent, some({3}, 1, dtype), some({12, 3}, 2, dtype));
    expect_bits_of_kernels(grad<0, 1>(loss), some({3}, 1, dtype), some({12, 3}, 2, dtype));
  }
  // A state in memory, of which a step replaces a part.
  const auto filled = [](const Tensor& z, const Tensor& start) {
    const auto step = [](const Tensor& state, const Tensor& at) {
      const Tensor next = dynamic_update_slice(state, dynamic_slice(state, at, {1}) * (1.5i), at);
      return std::pair(next, next[at[0]]);
    };
    return scan(step)(z, start);
  };
  const auto as_tuple = [=](const Tensor& z, const Tensor& at) {
    const auto [last, found] = filled(z, at);
    return std::tuple(last, found);
  };
  expect_bits_of_kernels(as_tuple, some({150}, 1), tensor({{3}, {149}, {3}}));
}

TEST(MachineCodeComplex, SmallProductsHaveTheBitsOfKernels) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& a, const Tensor& b) { return matmul(a, b) * 2; };
  for (const Dtype dtype : complex_dtypes) {
    expect_bits_of_kernels(f, some({4, 4}, 1, dtype), some({4, 4}, 2, dtype));
    expect_bits_of_kernels(f, some({4, 4}, 1, dtype), some({4}, 2, dtype));
    expect_bits_of_kernels(f, some({20, 7}, 1, dtype), some({7, 3}, 2, dtype));
    expect_bits_of_kernels(f, some({3, 2, 5}, 1, dtype), some({3, 5, 2}, 2, dtype));
    expect_bits_of_kernels(f, some({5, 1}, 1, dtype), some({1, 4}, 2, dtype));
    expect_bits_of_kernels(f, matrix_transpose(some({4, 6}, 1, dtype)), matrix_transpose(some({5, 4}, 2, dtype)));
  }
  // The sum of products, in long double.
  const Tensor a = some({19, 16}, 1), b = some({16, 11}, 2), product = matmul(a, b);
  const auto left = a.to_vector<C>(), right = b.to_vector<C>(), found = product.to_vector<C>();
  for (std::size_t i = 0; i < 19; ++i)
    for (std::size_t j = 0; j < 11; ++j) {
      Wide sum = 0;
      for (std::size_t k = 0; k < 16; ++k) sum += Wide(left[i * 16 + k]) * Wide(right[k * 11 + j]);
      EXPECT_LE(std::abs(Wide(found[i * 11 + j]) - sum), 1e-13L);
    }
}

TEST(MachineCodeComplex, MovedElementsAndSumsHaveTheBitsOfKernels) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& z, const Tensor& at) {
    const Tensor turned = matrix_transpose(z) * 1i;
    return std::tuple(sum(turned), sum(z, 0), sum(turned, 1, keepdims), z[at], z.at(at).set(1i), z.at(at).add(2. - 1i),
                      pad(z, {{1, 0}, {0, 2}}), pad(z, {{1, 0}, {0, 2}}, 3. + 1i), concat({z, conj(z)}, 1),
                      reshape(turned, {12}) + 1, z(slice(none, none, -2)) * 2, broadcast_to(z(0), {2, 4}) * z(0),
                      dynamic_slice(z, tensor({1, -3}), {2, 2}) + 1, full({3}, 2. - 1i, z.dtype()) * z(0)[0]);
  };
  for (const Dtype dtype : complex_dtypes) expect_bits_of_kernels(f, some({3, 4}, 1, dtype), tensor({2, 0, 2}));
}

TEST(MachineCodeComplex, FunctionsStayKernels) {
  NEEDS_NATIVE_CODE();
  const auto f = [](const Tensor& z) { return exp(z) * z; };
  const Tensor z = some({3}, 1);
  EXPECT_THAT(replayed(compile(f), z), Equals(f(z)));
  EXPECT_THAT([&] { replayed(compile(f, {.native = Native::required}), z); }, testing::Throws<TransformError>());
}

// ---- C source -----------------------------------------------------------------------------------

Tensor parts_of(const Tensor& x) { return is_complex(x.dtype()) ? stack({real(x), imag(x)}, -1) : x; }

// Compares the C of a program, by each compiler and under sanitizers, with these values.
void expect_c(const Program& program, const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted,
              double tolerance) {
  const stave_detail::Lowered code = stave_detail::lower(program);
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(code, compiler);
    for (const bool sanitized : {false, true}) {
      if (sanitized && &compiler != &c_compilers().front()) continue;
      const std::vector<Tensor> found = sanitized ? compiled.sanitized(inputs) : compiled(inputs);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        if (tolerance == 0) EXPECT_EQ(bits_of(found[i]), bits_of(parts_of(wanted[i]))) << compiler << ", output " << i;
        else EXPECT_THAT(found[i], IsNear(parts_of(wanted[i]), tolerance)) << compiler << ", output " << i;
    }
  }
}
template <class F, class... Xs>
void expect_same_c(F f, double tolerance, const Xs&... xs) {
  expect_c(trace(f)(xs...), {xs...}, tensors_of(f(xs...)), tolerance);
}

TEST(WriteCComplex, ArithmeticHasTheBitsOfTheLibrary) {
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor c = a * b + conj(a) / (b - 0.5i);
    return std::tuple(c, reciprocal(c), where(real(c) > 0, c, b), c == a, complex(real(a), imag(b)), a[0],
                      astype(c, bool_), cumulative_prod(b, 0) - linear_recurrence(a, b, 0));
  };
  for (const Dtype dtype : complex_dtypes)
    for (const Shape& shape : {Shape{3}, Shape{200}}) expect_same_c(f, 0, some(shape, 1, dtype), some(shape, 2, dtype));
}
TEST(WriteCComplex, SumsProductsAndDerivativesEqualTheProgram) {
  const auto f = [](const Tensor& a, const Tensor& z) {
    const Tensor y = matmul(a, z);
    return std::tuple(sum(y), prod(z), abs(y), angle(y), cumulative_sum(y, 0), prod(a, 1));
  };
  expect_same_c(f, 1e-13, some({4, 4}, 1), some({4}, 2));
  expect_same_c(f, 1e-12, some({20, 30}, 1), some({30}, 2));
  const auto loss = [=](const Tensor& a, const Tensor& z) { return sum(square(abs(matmul(a, z) / (2. + z)))); };
  expect_same_c(grad<0, 1>(loss), 1e-12, some({4, 4}, 1), some({4}, 2));
  const auto turning = [](const Tensor& z) {
    return loop(1000, [](const Tensor& x) { return x * (0.8 + 0.6i) / abs(x); })(z);
  };
  expect_same_c(turning, 1e-12, some({3}, 1));
}

// The functions in long double, at points around the plane, large and small ones, and near the unit
// circle, where |log z| is small.
TEST(WriteCComplex, FunctionsAreWithinUnitsInTheLastPlace) {
  std::vector<C> points;
  for (const double radius : {1e-8, 0.3, 0.75, 1. - 1e-9, 1.3, 4., 20.})
    for (int k = 0; k < 12; ++k) points.push_back(std::polar(radius, 0.3 + 0.52 * k));
  const Tensor z = from(points);
  const auto f = [](const Tensor& x) {
    return std::tuple(exp(x), log(x), sqrt(x), sin(x), cos(x), tan(x), asin(x), acos(x), atan(x), sinh(x), cosh(x),
                      tanh(x), asinh(x), acosh(x), atanh(x), log1p(x), expm1(x), exp2(x), log2(x), log10(x), rsqrt(x),
                      pow(x, 3), pow(x, -0.5 + 0.25i), sigmoid(x));
  };
  using Function = Wide (*)(Wide);
  const Function functions[] = {
      [](Wide x) { return std::exp(x); }, [](Wide x) { return std::log(x); }, [](Wide x) { return std::sqrt(x); },
      [](Wide x) { return std::sin(x); }, [](Wide x) { return std::cos(x); }, [](Wide x) { return std::tan(x); },
      [](Wide x) { return std::asin(x); }, [](Wide x) { return std::acos(x); }, [](Wide x) { return std::atan(x); },
      [](Wide x) { return std::sinh(x); }, [](Wide x) { return std::cosh(x); }, [](Wide x) { return std::tanh(x); },
      [](Wide x) { return std::asinh(x); }, [](Wide x) { return std::acosh(x); }, [](Wide x) { return std::atanh(x); },
      // log(1 + x) by atanh, which keeps the digits of a small x
      [](Wide x) { return 2.L * std::atanh(x / (2.L + x)); },
      [](Wide x) { return 2.L * std::exp(x / 2.L) * std::sinh(x / 2.L); },
      [](Wide x) { return std::exp(x * 0.693147180559945309417232121458176568L); },
      [](Wide x) { return std::log(x) / 0.693147180559945309417232121458176568L; },
      [](Wide x) { return std::log(x) / 2.30258509299404568401799145468436421L; },
      [](Wide x) { return 1.L / std::sqrt(x); }, [](Wide x) { return x * x * x; },
      [](Wide x) { return std::pow(x, Wide(-0.5L, 0.25L)); }, [](Wide x) { return 1.L / (1.L + std::exp(-x)); }};
  const Program program = trace(f)(z);
  const auto worst = [&](const std::vector<Tensor>& found, std::size_t k) {
    const std::vector<double> parts = found[k].to_vector<double>();
    long double largest = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Wide wanted = functions[k](Wide(points[i]));
      largest = std::max(largest, std::abs(Wide(parts[2 * i], parts[2 * i + 1]) - wanted) / std::abs(wanted));
    }
    return static_cast<double>(largest / std::numeric_limits<double>::epsilon());
  };
  for (const std::string& compiler : c_compilers()) {
    CompiledC compiled(stave_detail::lower(program), compiler);
    const std::vector<Tensor> found = compiled({z});
    ASSERT_EQ(found.size(), std::size(functions));
    // The errors of powers grow with the size of b log(a), as those of the C library do.
    constexpr std::size_t power = 22;
    for (std::size_t k = 0; k < found.size(); ++k) EXPECT_LE(worst(found, k), k == power ? 12 : 8) << "function " << k;
  }
}

TEST(WriteCComplex, PointersAreThoseOfComplexNumbersInC) {
  const auto f = [](const Tensor& z, const Tensor& x) { return z * complex(x, 1); };
  const Tensor z = label(some({2}, 1), "z"), x = label(tensor({0.5, 2.}, float64), "x");
  std::ostringstream source, header;
  write_c(source, trace(f)(z, x), {.name = "f", .header = &header, .outputs = {"y"}});
  EXPECT_THAT(header.str(), HasSubstr("int f(const double* z, const double* x, double* y, f_workspace* work);"));
  EXPECT_THAT(header.str(), HasSubstr("#define f_z_size 4 /* complex128[2] as pairs of double */"));
  EXPECT_THAT(header.str(), HasSubstr("#define f_z_shape {2, 2}"));
  EXPECT_THAT(header.str(), HasSubstr("double _Complex"));
  const Folder folder;
  with_bytes(folder / "f.c", source.str());
  with_bytes(folder / "f.h", header.str());
  with_bytes(folder / "main.c", R"(#include <complex.h>
#include <math.h>
#include "f.h"
int main(void)
{
  const double _Complex z[2] = {1 + 2 * I, 3};
  const double x[2] = {0.5, 2};
  double _Complex y[2];
  f_workspace work;
  if (f((const double*)z, x, (double*)y, &work)) return 1;
  return creal(y[0]) != -1.5 || cimag(y[0]) != 2 || creal(y[1]) != 6 || cimag(y[1]) != 3;
}
)");
  for (const std::string& compiler : c_compilers())
    run("cd " + folder.path + " && " + compiler + strict_c + "f.c main.c -o main -lm && ./main", folder / "log");
}

TEST(WriteCComplex, RefusesByName) {
  const Tensor a = some({3, 3}, 1);
  const auto text_of = [](const Program& program, COptions options) {
    std::ostringstream out;
    write_c(out, program, options);
  };
  EXPECT_THAT([&] { text_of(trace([](const Tensor& x) { return cholesky(x); })(eye(3, complex128)), {.name = "f"}); },
              ThrowsMessage<DtypeError>(HasSubstr("cholesky on complex numbers")));
  EXPECT_THAT([&] { text_of(trace([](const Tensor& x) { return fft(x); })(a), {.name = "f"}); },
              ThrowsMessage<DtypeError>(HasSubstr("fft on complex numbers")));
  EXPECT_THAT(
      [&] { text_of(trace([](const Tensor& x) { return x * x; })(a), {.name = "f", .interface = Interface::casadi}); },
      ThrowsMessage<DtypeError>(HasSubstr("input 0 is complex128[3,3], but CasADi has no complex numbers")));
}

}  // namespace
}  // namespace stave_test
