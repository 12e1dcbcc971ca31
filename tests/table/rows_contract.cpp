// Rows of contractions: matmul, tensordot, outer, einsum.

#include <cmath>
#include <map>

#include <stave/core/ops/contract.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

const Domain entries{-3, 3};

/// A sum of products for each position of the result. Its magnitude is the sum of the products'
/// absolute values.
template <class Terms>
Arrays contracted(Dtype dtype, const Shape& shape, Index terms, Terms term) {
  const auto add_up = [&](const Shape& p, bool absolute) {
    Real sum = 0;
    for (Index i = 0; i < terms; ++i) sum += absolute ? std::abs(term(p, i)) : term(p, i);
    return sum;
  };
  Array y = make(dtype, shape, [&](const Shape& p) { return add_up(p, false); });
  y.magnitude = make(float64, shape, [&](const Shape& p) { return add_up(p, true); }).values;
  return {y};
}

// ---- matmul ------------------------------------------------------------------------------------

/// A vector becomes a row on the left, a column on the right. Then both operands are stacks
/// of matrices, whose leading axes broadcast.
Arrays matmul_reference(const Array& a, const Array& b) {
  const Shape left = a.shape.rank() == 1 ? with_axis(a.shape, 0, 1) : a.shape,
              right = b.shape.rank() == 1 ? with_axis(b.shape, 1, 1) : b.shape;
  const Array rows{a.dtype, left, a.values}, columns{b.dtype, right, b.values};
  const auto batch_of = [](const Shape& s) { return part(s, 0, s.rank() - 2); };
  const Shape batch = broadcast_shape(batch_of(left), batch_of(right));
  const Shape full = concatenated(batch, Shape(left[left.size() - 2], right.back()));
  Arrays y = contracted(as_number(promoted(a.dtype, b.dtype)), full, left.back(), [&](const Shape& p, Index k) {
    const Shape at = part(p, 0, p.rank() - 2);
    return rows(concatenated(broadcast_position(batch_of(left), at), Shape(p[p.size() - 2], k))) *
           columns(concatenated(broadcast_position(batch_of(right), at), Shape(k, p.back())));
  });
  if (b.shape.rank() == 1) y[0].shape = without_axis(y[0].shape, -1);
  if (a.shape.rank() == 1) y[0].shape = without_axis(y[0].shape, b.shape.rank() == 1 ? -1 : -2);
  return y;
}

Variant matmul_of(const Shape& a, Dtype left, const Shape& b, Dtype right) {
  return {.name = std::string(stave::name_of(left)) + a.str() + " " + stave::name_of(right) + b.str(),
          .inputs = {{left, a, entries}, {right, b, entries}},
          .call = [](auto xs) { return matmul(xs[0], xs[1]); },
          .reference = [](auto xs) { return matmul_reference(xs[0], xs[1]); }};
}

std::vector<Variant> matmul_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const std::vector<std::pair<Shape, Shape>> shapes = {{{2, 3}, {3, 4}},
                                                       {{3, 17}, {17, 5}},
                                                       {{3}, {3, 2}},
                                                       {{2, 3}, {3}},
                                                       {{3}, {3}},
                                                       {{2, 2, 3}, {3, 2}},
                                                       {{2, 3}, {2, 3, 2}},
                                                       {{2, 1, 2, 3}, {3, 3, 2}},
                                                       {{2, 2, 2}, {2, 2, 2}},
                                                       {{2, 2, 3}, {3}},
                                                       {{3}, {2, 3, 2}},
                                                       {{1, 3}, {3, 1}},
                                                       {{2, 0}, {0, 3}},
                                                       {{0, 3}, {3, 2}},
                                                       {{0, 2, 3}, {3, 2}},
                                                       {{0}, {0}}};
  for (const auto& [a, b] : shapes) variants.push_back(matmul_of(a, dtype, b, dtype));
  for (Dtype other : all_dtypes)
    if (other != dtype && common(dtype, other)) variants.push_back(matmul_of({2, 3}, dtype, {3, 2}, other));
  variants.push_back(matmul_of({}, dtype, {}, dtype));
  variants.back().refusal = "rank 0";
  return variants;
}

// ---- tensordot, outer --------------------------------------------------------------------------

Variant tensordot_of(const Shape& a, const Shape& b, Dtype dtype, int axes) {
  const Shape free = part(a, 0, a.rank() - axes), summed = part(b, 0, axes), rest = part(b, axes, b.rank());
  return {.name = a.str() + b.str() + " over " + std::to_string(axes),
          .inputs = {{dtype, a, entries}, {dtype, b, entries}},
          .call = [axes](auto xs) { return axes == 2 ? tensordot(xs[0], xs[1]) : tensordot(xs[0], xs[1], axes); },
          .reference =
              [=](auto xs) {
                std::vector<Shape> terms;
                for_each_position(summed, [&](const Shape& p) { terms.push_back(p); });
                return contracted(as_number(dtype), concatenated(free, rest), summed.elements(),
                                  [&](const Shape& p, Index i) {
                                    const Shape& at = terms[static_cast<std::size_t>(i)];
                                    return xs[0](concatenated(part(p, 0, free.rank()), at)) *
                                           xs[1](concatenated(at, part(p, free.rank(), p.rank())));
                                  });
              }};
}

// sum over i, j of a[i, r, j] b[j, c, i]
Variant tensordot_of_pairs(Dtype dtype) {
  return {.name = "axes {0, -1} with {2, 0}",
          .inputs = {{dtype, {2, 2, 3}, entries}, {dtype, {3, 2, 2}, entries}},
          .call =
              [](auto xs) {
                return tensordot(xs[0], xs[1], {0, -1}, {2, 0});
              },
          .reference =
              [=](auto xs) {
                return contracted(as_number(dtype), {2, 2}, 6, [&](const Shape& p, Index k) {
                  return xs[0](Shape(k / 3, p[0], k % 3)) * xs[1](Shape(k % 3, p[1], k / 3));
                });
              }};
}

std::vector<Variant> tensordot_variants(Dtype dtype) {
  return {tensordot_of({2, 2, 3}, {2, 3, 2}, dtype, 2),
          tensordot_of({2, 3}, {3, 2}, dtype, 1),
          tensordot_of({2}, {3}, dtype, 0),
          tensordot_of({2, 3}, {2, 3}, dtype, 2),
          tensordot_of({2, 0}, {0, 3}, dtype, 1),
          tensordot_of({0, 2}, {2, 3}, dtype, 1),
          tensordot_of({}, {}, dtype, 0),
          tensordot_of_pairs(dtype)};
}

Variant outer_of(const Shape& a, const Shape& b, Dtype dtype) {
  const auto element = [](const Array& x, Index i) { return x.values[static_cast<std::size_t>(i)]; };
  const Shape result(a.elements(), b.elements());
  return {.name = a.str() + b.str(),
          .inputs = {{dtype, a, entries}, {dtype, b, entries}},
          .call = [](auto xs) { return outer(xs[0], xs[1]); },
          .reference =
              [=](auto xs) {
                const auto product = [&](const Shape& p) { return element(xs[0], p[0]) * element(xs[1], p[1]); };
                return Arrays{make(as_number(dtype), result, product)};
              }};
}

std::vector<Variant> outer_variants(Dtype dtype) {
  return {outer_of({3}, {4}, dtype), outer_of({2, 2}, {3}, dtype), outer_of({0}, {3}, dtype),
          outer_of({2, 0}, {0}, dtype), outer_of({}, {}, dtype)};
}

// ---- einsum ------------------------------------------------------------------------------------

/// The sum of products over all values of all labels that are not in the output.
/// `labels` and `output` name every axis, also those that an ellipsis stands for.
Arrays einsum_reference(Dtype dtype, std::span<const Array> xs, const std::vector<std::string>& labels,
                        const std::string& output) {
  std::map<char, Index> lengths;
  for (std::size_t i = 0; i < xs.size(); ++i)
    for (std::size_t axis = 0; axis < labels[i].size(); ++axis)
      if (Index& length = lengths.try_emplace(labels[i][axis], 1).first->second; xs[i].shape[axis] != 1)
        length = xs[i].shape[axis];
  std::string summed;
  Shape shape, range;
  for (char label : output) shape.push_back(lengths[label]);
  for (const auto& [label, length] : lengths)
    if (output.find(label) == std::string::npos) {
      summed += label;
      range.push_back(length);
    }
  std::vector<Shape> terms;
  for_each_position(range, [&](const Shape& p) { terms.push_back(p); });
  const std::string all = output + summed;
  return contracted(dtype, shape, static_cast<Index>(terms.size()), [&](const Shape& p, Index k) {
    const Shape values = concatenated(p, terms[static_cast<std::size_t>(k)]);
    Real product = 1;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      Shape position = xs[i].shape;
      for (std::size_t axis = 0; axis < position.size(); ++axis)
        position[axis] = position[axis] == 1 ? 0 : values[all.find(labels[i][axis])];
      product *= xs[i](position);
    }
    return product;
  });
}

std::vector<Variant> einsum_variants(Dtype dtype) {
  const auto of = [&](const std::string& subscripts, const std::vector<Shape>& shapes,
                      const std::vector<std::string>& labels, const std::string& output) {
    std::vector<Input> inputs;
    std::string name = subscripts;
    for (const Shape& shape : shapes) {
      inputs.push_back({dtype, shape, entries});
      name += " " + shape.str();
    }
    return Variant{
        .name = name,
        .inputs = inputs,
        .call = [subscripts](auto xs) { return einsum(subscripts, std::vector<Tensor>(xs.begin(), xs.end())); },
        .reference = [=](auto xs) { return einsum_reference(as_number(dtype), xs, labels, output); }};
  };
  std::vector<Variant> variants = {of("bij,bjk->bik", {{2, 2, 3}, {2, 3, 2}}, {"bij", "bjk"}, "bik"),
                                   of("ij,jk", {{2, 3}, {3, 2}}, {"ij", "jk"}, "ik"),
                                   of("ba", {{2, 3}}, {"ba"}, "ab"),
                                   of("ij->", {{2, 3}}, {"ij"}, ""),
                                   of("ii", {{3, 3}}, {"ii"}, ""),
                                   of("iij->ji", {{2, 2, 3}}, {"iij"}, "ji"),
                                   of("i,i->i", {{3}, {3}}, {"i", "i"}, "i"),
                                   of("i,j->ji", {{2}, {3}}, {"i", "j"}, "ji"),
                                   of("ijk,kjl->il", {{2, 2, 3}, {3, 2, 2}}, {"ijk", "kjl"}, "il"),
                                   of("ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 3}}, {"ij", "jk", "kl"}, "il"),
                                   of("i,ij,j", {{2}, {2, 3}, {3}}, {"i", "ij", "j"}, ""),
                                   of("ij,k->j", {{2, 3}, {2}}, {"ij", "k"}, "j"),
                                   of("...ij,...jk->...ik", {{2, 2, 3}, {3, 2}}, {"eij", "jk"}, "eik"),
                                   of("i...,...i", {{2, 3}, {2, 3, 2}}, {"if", "efi"}, "ef"),
                                   of("...,...->...", {{2, 1}, {3}}, {"ef", "f"}, "ef"),
                                   of(" i j , j -> i ", {{2, 3}, {3}}, {"ij", "j"}, "i"),
                                   of("ij,ij->ij", {{2, 3}, {1, 3}}, {"ij", "ij"}, "ij"),
                                   of("ij,jk->ik", {{2, 1}, {3, 2}}, {"ij", "jk"}, "ik"),
                                   of("ij,jk->ik", {{2, 0}, {0, 3}}, {"ij", "jk"}, "ik"),
                                   of("ij,j->i", {{0, 3}, {3}}, {"ij", "j"}, "i"),
                                   of(",i->i", {{}, {3}}, {"", "i"}, "i"),
                                   of("", {{}}, {""}, "")};
  for (Dtype other : all_dtypes) {
    if (other == dtype || !common(dtype, other)) continue;
    variants.push_back({.name = std::string("with ") + stave::name_of(other),
                        .inputs = {{dtype, {2, 3}, entries}, {other, {3, 2}, entries}},
                        .call = [](auto xs) { return einsum("ij,jk->ik", xs[0], xs[1]); },
                        .reference =
                            [result = promoted(dtype, other)](auto xs) {
                              return einsum_reference(result, xs, {"ij", "jk"}, "ik");
                            }});
  }
  return variants;
}

}  // namespace

void add_contract_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "matmul", .dtypes = all_dtypes, .variants = matmul_variants, .bitwise = false});
  rows.push_back({.name = "tensordot", .dtypes = all_dtypes, .variants = tensordot_variants, .bitwise = false});
  rows.push_back({.name = "einsum", .dtypes = all_dtypes, .variants = einsum_variants, .bitwise = false});
  rows.push_back({.name = "outer", .dtypes = all_dtypes, .variants = outer_variants});
}

}  // namespace table
