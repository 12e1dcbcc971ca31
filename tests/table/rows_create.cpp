// Rows of functions that create tensors. Most of them have no tensor inputs.
// Their cells check the value, and that vmap gives it to every lane.

#include <cmath>
#include <string_view>

#include <stave/core/ops/create.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Element = std::function<Real(const Shape&)>;

Variant made(const std::string& name, std::function<Tensor()> call, Dtype dtype, const Shape& shape, Element element) {
  return {.name = name + shape.str(),
          .inputs = {},
          .call = [call](auto) { return call(); },
          .reference = [=](auto) { return Arrays{make(dtype, shape, element)}; },
          .differentiable = false};
}

// ---- data at hand ------------------------------------------------------------------------------

std::vector<Variant> tensor_variants(Dtype dtype) {
  const auto entry = [](const Shape& p) -> Real { return p[0] * 2 + p[1]; };
  std::vector<Variant> variants = {
      made(
          "list ",
          [=] {
            return tensor({{0, 1}, {2, 3}, {4, 5}}, dtype);
          },
          dtype, {3, 2}, entry),
      made(
          "empty list ", [=] { return tensor({}, dtype); }, dtype, {0}, [](const Shape&) { return 0; }),
      made(
          "number ", [=] { return tensor(1, dtype); }, dtype, {}, [](const Shape&) { return 1; })};
  if (dtype == int32) {
    variants.push_back(made(
        "int literals ",
        [] {
          return tensor({{0, 1}, {2, 3}});
        },
        int32, {2, 2}, entry));
    variants.push_back(made(
        "int literal ", [] { return tensor(7); }, int32, {}, [](const Shape&) { return 7; }));
  }
  if (dtype == float32)
    variants.push_back(made(
        "float literals ",
        [] {
          return tensor({0., 0.5});
        },
        float32, {2}, [](const Shape& p) { return p[0] / 2.0L; }));
  if (dtype == bool_)
    variants.push_back(made(
        "bool literals ",
        [] {
          return tensor({false, true});
        },
        bool_, {2}, [](const Shape& p) { return p[0]; }));
  if (dtype == int64)
    variants.push_back(made(
        "wide literals ",
        [] {
          return tensor({0ll, 1ll});
        },
        int64, {2}, [](const Shape& p) { return p[0]; }));
  return variants;
}

std::vector<Variant> from_variants(Dtype dtype) {
  const auto of = [&](const Shape& shape) {
    const auto call = [=] {
      return visit_real_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        std::array<T, 6> values{};
        for (std::size_t i = 0; i < 6; ++i) values[i] = static_cast<T>(i % 4);
        return from(std::span<const T>(values.data(), static_cast<std::size_t>(shape.elements())), shape);
      });
    };
    return made("", call, dtype, shape, [=](const Shape& p) -> Real {
      Index at = 0;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + p[axis];
      return at % 4;
    });
  };
  std::vector<Variant> variants = {of({2, 3}), of({6}), of({0, 3}), of({})};
  if (dtype == bool_)
    variants.push_back(made(
        "vector<bool> ",
        [] {
          return from(std::vector<bool>{true, false});
        },
        bool_, {2}, [](const Shape& p) { return 1 - p[0]; }));
  else
    variants.push_back(made(
        "vector ",
        [=] {
          return visit_real_dtype(dtype, [](auto zero) {
            using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, int, decltype(zero)>;
            return from(std::vector<T>{T(1), T(2)});
          });
        },
        dtype, {2}, [](const Shape& p) { return p[0] + 1; }));
  return variants;
}

std::vector<Variant> from_bytes_variants(Dtype dtype) {
  const auto of = [dtype](const Shape& shape) {
    const auto call = [=] {
      return visit_real_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        T values[6];
        for (int i = 0; i < 6; ++i) values[i] = static_cast<T>(static_cast<float>(i));
        return from_bytes(values, static_cast<std::size_t>(shape.elements()), dtype, shape);
      });
    };
    return made("", call, dtype, shape,
                [=](const Shape& p) -> Real { return p.rank() == 2 ? p[0] * shape[1] + p[1] : 0; });
  };
  return {of({2, 3}), of({0, 3}), of({})};
}

// ---- equal elements ----------------------------------------------------------------------------

const std::vector<Shape> shapes = {{2, 3}, {4}, {0, 3}, {}};

std::vector<Variant> filled(Dtype dtype, const std::function<Tensor(const Shape&)>& call, Real value) {
  std::vector<Variant> variants;
  for (const Shape& shape : shapes)
    variants.push_back(made(
        "", [=] { return call(shape); }, dtype, shape, [=](const Shape&) { return value; }));
  return variants;
}

std::vector<Variant> filled_like(Dtype dtype, const std::function<Tensor(const Tensor&)>& call, Real value) {
  std::vector<Variant> variants;
  for (const Shape& shape : shapes)
    variants.push_back(
        {.name = shape.str(),
         .inputs = {{dtype, shape}},
         .call = [=](auto xs) { return call(xs[0]); },
         .reference = [=](auto) { return Arrays{make(dtype, shape, [=](const Shape&) { return value; })}; },
         .differentiable = false});
  return variants;
}

std::vector<Variant> full_variants(Dtype dtype) {
  std::vector<Variant> variants = filled(
      dtype, [=](const Shape& shape) { return full(shape, 3, dtype); }, 3);
  if (is_float(dtype))
    variants.push_back(made(
        "1.5 ", [=] { return full({2}, 1.5, dtype); }, dtype, {2}, [](const Shape&) { return 1.5; }));
  if (dtype == float32)
    variants.push_back(made(
        "without dtype ", [] { return full({2}, 1.5); }, float32, {2}, [](const Shape&) { return 1.5; }));
  if (dtype == int32)
    variants.push_back(made(
        "without dtype ", [] { return full({2}, 3); }, int32, {2}, [](const Shape&) { return 3; }));
  return variants;
}

// ---- ranges, matrices --------------------------------------------------------------------------

std::vector<Variant> arange_variants(Dtype dtype) {
  const auto range = [&](const std::string& name, std::function<Tensor()> call, Index count, Real start, Real step) {
    return made(name, call, dtype, {count}, [=](const Shape& p) { return start + static_cast<Real>(p[0]) * step; });
  };
  std::vector<Variant> variants = {range(
                                       "2, 11, 3", [=] { return arange(2, 11, 3, dtype); }, 3, 2, 3),
                                   range(
                                       "5, 0, -2", [=] { return arange(5, 0, -2, dtype); }, 3, 5, -2),
                                   range(
                                       "3, 3", [=] { return arange(3, 3, 1, dtype); }, 0, 0, 0)};
  if (dtype == int32) {
    variants.push_back(range(
        "4", [] { return arange(4); }, 4, 0, 1));
    variants.push_back(range(
        "1, 4", [] { return arange(1, 4); }, 3, 1, 1));
  }
  if (dtype == float32)
    variants.push_back(range(
        "0, 1, 0.25", [] { return arange(0, 1, 0.25); }, 4, 0, 0.25));
  return variants;
}

std::vector<Variant> linspace_variants(Dtype dtype) {
  const auto points = [&](double start, double stop, Index count, bool endpoint) {
    const Index steps = std::max<Index>(endpoint ? count - 1 : count, 1);
    return made(
        std::to_string(start) + " to " + std::to_string(stop) + (endpoint ? " " : " without end "),
        [=] { return linspace(start, stop, count, dtype, cpu, endpoint); }, dtype, {count},
        [=](const Shape& p) {
          return start + (Real(stop) - start) * static_cast<Real>(p[0]) / static_cast<Real>(steps);
        });
  };
  return {points(0, 1, 5, true), points(-1, 2.5, 8, true), points(3, 1, 4, false), points(2, 5, 1, true),
          points(0, 1, 0, true)};
}

std::vector<Variant> eye_variants(Dtype dtype) {
  const auto of = [&](Index rows, Index columns, Index k) {
    return made(
        "k = " + std::to_string(k) + " ", [=] { return eye(rows, columns, k, dtype); }, dtype, {rows, columns},
        [=](const Shape& p) { return p[1] - p[0] == k; });
  };
  return {of(3, 3, 0),
          of(2, 4, 1),
          of(3, 2, -1),
          of(0, 3, 0),
          of(2, 3, Index{1} << 40),
          of(3, 2, -(Index{1} << 40)),
          made(
              "square ", [=] { return eye(3, dtype); }, dtype, {3, 3}, [](const Shape& p) { return p[0] == p[1]; })};
}

std::vector<Variant> triangle_variants(Dtype dtype, Tensor (*triangle)(const Tensor&, Index), bool lower) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, Index k, const char* refusal = "") {
    variants.push_back({.name = shape.str() + " k = " + std::to_string(k),
                        .inputs = {{dtype, shape}},
                        .call = [=](auto xs) { return triangle(xs[0], k); },
                        .reference =
                            [=](auto xs) {
                              return Arrays{make(dtype, shape, [&](const Shape& p) {
                                const Index diagonal = p[p.size() - 1] - p[p.size() - 2];
                                return (lower ? diagonal <= k : diagonal >= k) ? xs[0](p) : 0;
                              })};
                            },
                        .refusal = refusal});
  };
  add({3, 3}, 0);
  add({2, 4}, 1);
  add({2, 3, 2}, -1);
  add({0, 3}, 0);
  for (Index k : {Index{1} << 31, Index{1} << 40, -(Index{1} << 40)}) add({2, 3}, k);
  add({}, 0, "at least 2 axes");
  return variants;
}

}  // namespace

void add_create_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* name, const std::vector<Dtype>& dtypes,
                       std::function<std::vector<Variant>(Dtype)> variants) {
    rows.push_back({.name = name, .dtypes = dtypes, .variants = std::move(variants), .accuracy = 1});
    if (std::string_view(name).ends_with("_like"))
      rows.back().no_derivative = {{0, "of the operand only shape and dtype are read"}};
  };
  add("tensor", all_dtypes, tensor_variants);
  add("from", all_dtypes, from_variants);
  add("from_bytes", all_dtypes, from_bytes_variants);
  add("zeros", all_dtypes, [](Dtype d) {
    return filled(
        d, [d](const Shape& shape) { return zeros(shape, d); }, 0);
  });
  add("ones", all_dtypes, [](Dtype d) {
    return filled(
        d, [d](const Shape& shape) { return ones(shape, d); }, 1);
  });
  add("full", all_dtypes, full_variants);
  add("zeros_like", all_dtypes, [](Dtype d) {
    return filled_like(
        d, [](const Tensor& x) { return zeros_like(x); }, 0);
  });
  add("ones_like", all_dtypes, [](Dtype d) {
    return filled_like(
        d, [](const Tensor& x) { return ones_like(x); }, 1);
  });
  add("full_like", all_dtypes, [](Dtype d) {
    return filled_like(
        d, [](const Tensor& x) { return full_like(x, 3); }, 3);
  });
  add("arange", number_dtypes, arange_variants);
  add("linspace", float_dtypes, linspace_variants);
  add("eye", all_dtypes, eye_variants);
  add("tril", all_dtypes, [](Dtype d) { return triangle_variants(d, tril, true); });
  add("triu", all_dtypes, [](Dtype d) { return triangle_variants(d, triu, false); });
}

}  // namespace table
