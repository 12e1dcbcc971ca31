// Rows of functions that look up rows of a table.

#include <stave/core/ops/create.h>
#include <stave/core/ops/network.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

std::vector<Variant> embedding_variants(Dtype dtype) {
  const auto of = [&](const Shape& table, const Shape& ids, Dtype of_ids, const std::vector<Real>& choices,
                      const char* refusal) -> Variant {
    return {.name = ids.str() + " " + name_of(of_ids) + " of " + table.str(),
            .inputs = {{dtype, table}, {of_ids, ids, {.choices = choices}}},
            .call = [](auto xs) { return embedding(xs[0], xs[1]); },
            .reference =
                [=](auto xs) {
                  return Arrays{make(dtype, concatenated(ids, part(table, 1, table.rank())), [&](const Shape& p) {
                    const Index row = static_cast<Index>(xs[1](part(p, 0, ids.rank())));
                    return xs[0](concatenated(Shape(row), part(p, ids.rank(), p.rank())));
                  })};
                },
            .refusal = refusal};
  };
  return {of({4, 3}, {5}, int32, {0, 1, 3}, ""),
          of({4, 3}, {2, 2}, uint8, {0, 1, 3}, ""),
          of({4, 2, 2}, {3}, int64, {0, 3}, ""),
          of({4}, {2, 3}, uint64, {0, 3}, ""),
          of({4, 3}, {0}, int32, {0}, ""),
          of({4, 3}, {3}, int32, {-1}, "index -1 is out of range"),
          of({4, 3}, {3}, int32, {4}, "index 4 is out of range"),
          refused(
              "", dtype, {}, [](const Tensor& x) { return embedding(x, zeros({1}, int32)); }, "has no rows")};
}

}  // namespace

void add_network_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "embedding", .dtypes = network_dtypes, .variants = embedding_variants});
}

}  // namespace table
