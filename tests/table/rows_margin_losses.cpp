// Rows of losses of margins and likelihoods, and of CTC. References are the formulas, and for CTC
// the sum over all sequences of labels.

#include <algorithm>
#include <cmath>
#include <numbers>

#include <stave/core/ops/losses.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

/// The loss of one example. `rows` are the example's elements of each operand.
using ExampleLoss = std::function<Real(const std::vector<std::vector<Real>>& rows)>;
using LossCall = std::function<Tensor(std::span<const Tensor>, Reduction)>;

/// Variants of a loss of operands [examples..., n], or [examples...] where `vector` is false. Each
/// example has one loss.
std::vector<Variant> example_variants(Dtype dtype, const std::vector<Domain>& domains, const std::vector<Dtype>& dtypes,
                                      const std::vector<bool>& vector, Index n, const LossCall& loss,
                                      const ExampleLoss& formula, const std::string& refusal = "") {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& examples, Reduction reduction) {
    Variant variant{.name = examples.str() + " reduction " + std::to_string(static_cast<int>(reduction)), .inputs = {}};
    for (std::size_t i = 0; i < domains.size(); ++i)
      variant.inputs.push_back({dtypes[i], vector[i] ? concatenated(examples, Shape(n)) : examples, domains[i]});
    variant.call = [=](auto xs) { return loss(xs, reduction); };
    variant.reference = [=](auto xs) {
      const Array losses = make(as_float(dtype), examples, [&](const Shape& p) {
        std::vector<std::vector<Real>> rows;
        for (std::size_t i = 0; i < xs.size(); ++i) {
          rows.emplace_back();
          if (!vector[i]) rows.back().push_back(xs[i](p));
          else
            for (Index k = 0; k < n; ++k) rows.back().push_back(xs[i](with_axis(p, -1, k)));
        }
        return formula(rows);
      });
      if (reduction == Reduction::none) return Arrays{sized(losses, 16)};
      const Real total = sum_of(losses.values);
      const Real count = reduction == Reduction::sum ? 1 : static_cast<Real>(losses.values.size());
      return Arrays{sized({losses.dtype, {}, {total / count}}, 32)};
    };
    variants.push_back(std::move(variant));
  };
  add({4}, Reduction::mean);
  add({2, 2}, Reduction::none);
  add({3}, Reduction::sum);
  add({0, 2}, Reduction::none);
  add({}, Reduction::none);
  if (!vector[0]) return variants;
  Variant number{.name = "()", .inputs = {}};
  for (Dtype operand : dtypes) number.inputs.push_back({operand, {}});
  number.call = [=](auto xs) { return loss(xs, Reduction::mean); };
  number.refusal = refusal;
  variants.push_back(std::move(number));
  return variants;
}

Real positive_part(Real x) { return std::max<Real>(x, 0); }
const Domain signs{.choices = {-1, 1}};

Real log_of_ctc(const std::vector<std::vector<Real>>& log_p, const std::vector<Index>& target, Index blank) {
  // The sum over all sequences of labels of the given length.
  const Index classes = static_cast<Index>(log_p[0].size()), steps = static_cast<Index>(log_p.size());
  Real total = 0;
  for_each_position(Shape(std::vector<Index>(static_cast<std::size_t>(steps), classes)), [&](const Shape& path) {
    std::vector<Index> labels;
    Index before = -1;
    Real log_of_path = 0;
    for (Index step = 0; step < steps; ++step) {
      const Index label = path[static_cast<std::size_t>(step)];
      log_of_path += log_p[static_cast<std::size_t>(step)][static_cast<std::size_t>(label)];
      if (label != before && label != blank) labels.push_back(label);
      before = label;
    }
    if (labels == target) total += std::exp(log_of_path);
  });
  return std::log(total);
}

std::vector<Variant> ctc_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](Index steps, Index batch, Index longest, Index blank, Reduction reduction) {
    const Index classes = 3;
    std::vector<Real> labels;
    for (Index label = 0; label < classes; ++label)
      if (label != blank) labels.push_back(static_cast<Real>(label));
    // A step more than labels and repetitions need at most.
    variants.push_back(
        {.name = std::to_string(steps) + " steps " + std::to_string(batch) + " examples blank " +
                 std::to_string(blank) + " reduction " + std::to_string(static_cast<int>(reduction)),
         .inputs = {{dtype, {steps, batch, classes}, {-3, -0.1}, true, 1},
                    {int32, {batch, longest}, {.choices = labels}},
                    {int32, {batch}, {static_cast<double>(2 * longest), static_cast<double>(steps)}},
                    {int32, {batch}, {0, static_cast<double>(longest)}}},
         .call =
             [=](auto xs) { return ctc_loss(xs[0], xs[1], xs[2], xs[3], {.blank = blank, .reduction = reduction}); },
         .reference =
             [=](auto xs) {
               const Array losses = make(as_float(dtype), {batch}, [&](const Shape& p) {
                 const Index example = p[0];
                 std::vector<std::vector<Real>> log_p;
                 for (Index step = 0; step < static_cast<Index>(xs[2](p)); ++step) {
                   log_p.emplace_back();
                   for (Index c = 0; c < classes; ++c) log_p.back().push_back(xs[0]({step, example, c}));
                 }
                 std::vector<Index> target;
                 for (Index i = 0; i < static_cast<Index>(xs[3](p)); ++i)
                   target.push_back(static_cast<Index>(xs[1]({example, i})));
                 const Real loss = -log_of_ctc(log_p, target, blank);
                 return reduction == Reduction::mean ? loss / std::max<Real>(1, xs[3](p)) : loss;
               });
               if (reduction == Reduction::none) return Arrays{sized(losses, 64)};
               const Real total = sum_of(losses.values);
               return Arrays{sized(
                   {losses.dtype, {}, {reduction == Reduction::sum ? total : total / static_cast<Real>(batch)}}, 64)};
             }});
  };
  add(5, 3, 2, 0, Reduction::none);
  add(4, 2, 2, 1, Reduction::mean);
  add(4, 2, 1, 2, Reduction::sum);
  add(4, 0, 2, 0, Reduction::none);
  variants.push_back({.name = "()",
                      .inputs = {{dtype, {}}, {int32, {1, 1}}, {int32, {1}}, {int32, {1}}},
                      .call = [](auto xs) { return ctc_loss(xs[0], xs[1], xs[2], xs[3]); },
                      .refusal = "must be [steps, batch, classes]"});
  return variants;
}

}  // namespace

void add_margin_loss_rows(std::vector<Row>& rows) {
  using Xs = std::span<const Tensor>;
  using Rows = std::vector<std::vector<Real>>;
  const auto add = [&](const char* name, std::function<std::vector<Variant>(Dtype)> variants,
                       std::vector<Dtype> dtypes = network_dtypes) {
    rows.push_back({.name = name, .dtypes = std::move(dtypes), .variants = std::move(variants), .bitwise = false});
  };
  const Domain wide{-2, 2}, other{-1.7, 2.3};
  add("soft_margin_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {wide, other}, {dtype, dtype}, {false, false}, 1,
        [](Xs xs, Reduction r) { return soft_margin_loss(xs[0], xs[1], {.reduction = r}); },
        [](const Rows& x) { return std::log1p(std::exp(-x[0][0] * x[1][0])); });
  });
  add("margin_ranking_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {wide, other, {-1.5, 1.5}}, {dtype, dtype, dtype}, {false, false, false}, 1,
        [](Xs xs, Reduction r) { return margin_ranking_loss(xs[0], xs[1], xs[2], {.margin = 0.3, .reduction = r}); },
        [](const Rows& x) { return positive_part(-x[2][0] * (x[0][0] - x[1][0]) + 0.3L); });
  });
  add("cosine_embedding_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {{0.5, 2}, {0.4, 2.5}, signs}, {dtype, dtype, int32}, {true, true, false}, 3,
        [](Xs xs, Reduction r) { return cosine_embedding_loss(xs[0], xs[1], xs[2], {.margin = 0.1, .reduction = r}); },
        [](const Rows& x) {
          Real ab = 0, aa = 0, bb = 0;
          for (std::size_t i = 0; i < x[0].size(); ++i) {
            ab += x[0][i] * x[1][i];
            aa += x[0][i] * x[0][i];
            bb += x[1][i] * x[1][i];
          }
          const Real c = aa * bb == 0 ? 0 : ab / std::sqrt(aa * bb);
          return x[2][0] > 0 ? 1 - c : positive_part(c - 0.1L);
        },
        "targets [] must have");
  });
  add("hinge_embedding_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {wide, signs}, {dtype, int32}, {false, false}, 1,
        [](Xs xs, Reduction r) { return hinge_embedding_loss(xs[0], xs[1], {.margin = 0.7, .reduction = r}); },
        [](const Rows& x) { return x[1][0] > 0 ? x[0][0] : positive_part(0.7L - x[0][0]); });
  });
  add("multi_margin_loss", [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const int p : {1, 2})
      for (Variant& variant : example_variants(
               dtype, {wide, {.choices = {0, 1, 2}}}, {dtype, int32}, {true, false}, 3,
               [=](Xs xs, Reduction r) {
                 return multi_margin_loss(xs[0], xs[1], {.p = p, .margin = 0.8, .reduction = r});
               },
               [=](const Rows& x) {
                 const auto label = static_cast<std::size_t>(x[1][0]);
                 Real total = 0;
                 for (std::size_t i = 0; i < 3; ++i)
                   if (i != label) total += std::pow(positive_part(0.8L - x[0][label] + x[0][i]), static_cast<Real>(p));
                 return total / 3;
               },
               "labels [] must have")) {
        variant.name += " p " + std::to_string(p);
        variants.push_back(std::move(variant));
      }
    return variants;
  });
  add("multilabel_margin_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {wide, {.choices = {-1, 0, 1, 2}}}, {dtype, int32}, {true, true}, 3,
        [](Xs xs, Reduction r) { return multilabel_margin_loss(xs[0], xs[1], {.reduction = r}); },
        [](const Rows& x) {
          std::vector<std::size_t> labels;
          for (Real label : x[1]) {
            if (label < 0) break;
            labels.push_back(static_cast<std::size_t>(label));
          }
          Real total = 0;
          for (const std::size_t j : labels)
            for (std::size_t i = 0; i < 3; ++i)
              if (std::find(labels.begin(), labels.end(), i) == labels.end())
                total += positive_part(1 - x[0][j] + x[0][i]);
          return total / 3;
        },
        "rank 0 has no classes");
  });
  add("multilabel_soft_margin_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {wide, is_float(dtype) ? Domain{0.1, 0.9} : Domain{0, 1}}, {dtype, dtype}, {true, true}, 3,
        [](Xs xs, Reduction r) { return multilabel_soft_margin_loss(xs[0], xs[1], {.reduction = r}); },
        [](const Rows& x) {
          Real total = 0;
          for (std::size_t i = 0; i < 3; ++i)
            total += x[1][i] * std::log1p(std::exp(-x[0][i])) + (1 - x[1][i]) * std::log1p(std::exp(x[0][i]));
          return total / 3;
        },
        "axis -1 is out of range for rank 0");
  });
  add("triplet_margin_loss", [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const bool swap : {false, true})
      for (Variant& variant : example_variants(
               dtype, {wide, {2.5, 5}, {5.5, 8}}, {dtype, dtype, dtype}, {true, true, true}, 3,
               [=](Xs xs, Reduction r) {
                 return triplet_margin_loss(xs[0], xs[1], xs[2],
                                            {.margin = 9, .epsilon = 1e-3, .swap = swap, .reduction = r});
               },
               [=](const Rows& x) {
                 const auto distance = [&](std::size_t a, std::size_t b) {
                   Real total = 0;
                   for (std::size_t i = 0; i < 3; ++i) {
                     const Real d = x[a][i] - x[b][i] + static_cast<Real>(1e-3);
                     total += d * d;
                   }
                   return std::sqrt(total);
                 };
                 const Real far = swap ? std::min(distance(0, 2), distance(1, 2)) : distance(0, 2);
                 return positive_part(distance(0, 1) - far + 9);
               },
               "axis -1 is out of range for rank 0")) {
        variant.name += swap ? " swap" : "";
        variants.push_back(std::move(variant));
      }
    return variants;
  });
  add("poisson_nll_loss", [=](Dtype dtype) {
    std::vector<Variant> variants;
    for (const bool log_input : {true, false})
      for (Variant& variant : example_variants(
               dtype, {{0.3, 2}, {0, 4}}, {dtype, dtype}, {false, false}, 1,
               [=](Xs xs, Reduction r) {
                 return poisson_nll_loss(xs[0], xs[1], {.log_input = log_input, .full = true, .reduction = r});
               },
               [=](const Rows& rows_) {
                 const Real x = rows_[0][0], y = rows_[1][0];
                 const Real stirling = y > 1 ? y * std::log(y) - y + std::log(2 * std::numbers::pi_v<Real> * y) / 2 : 0;
                 return (log_input ? std::exp(x) - y * x : x - y * std::log(x + static_cast<Real>(1e-8))) + stirling;
               })) {
        variant.name += log_input ? " of logarithms" : " of rates";
        variants.push_back(std::move(variant));
      }
    return variants;
  });
  add("gaussian_nll_loss", [=](Dtype dtype) {
    return example_variants(
        dtype, {wide, other, {0.4, 3}}, {dtype, dtype, dtype}, {false, false, false}, 1,
        [](Xs xs, Reduction r) { return gaussian_nll_loss(xs[0], xs[1], xs[2], {.full = true, .reduction = r}); },
        [](const Rows& x) {
          const Real e = x[0][0] - x[1][0], v = std::max(x[2][0], static_cast<Real>(1e-6));
          return (std::log(v) + e * e / v + std::log(2 * std::numbers::pi_v<Real>)) / 2;
        });
  });
  add("ctc_loss", ctc_variants, {float16, bfloat16, float32, float64});
}

}  // namespace table
