// Rows of transfers between devices: to another device and back, from the device of the table's
// values (main.cpp's --device).

#include <stave/core/ops/transfer.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

void add_transfer_rows(std::vector<Row>& rows) {
  const auto variants = [](Dtype dtype) {
    std::vector<Variant> all;
    for (const Shape& shape : {Shape{2, 3}, Shape{3, 1, 2}, Shape{5}, Shape{2, 0}, Shape{}})
      for (const bool there : {false, true})
        all.push_back({.name = (there ? "there and back" : "at home") + shape.str(),
                       .inputs = {{dtype, shape}, {dtype, shape}},
                       .call =
                           [there](auto xs) {
                             const Tensor x = to(xs[0], there ? stave::cpu : xs[0].device());
                             return Outputs{to(x, xs[0].device()), to(xs[1], xs[1].device())};
                           },
                       .reference =
                           [](auto xs) {
                             return Arrays{xs[0], xs[1]};
                           }});
    return all;
  };
  rows.push_back({.name = "to", .dtypes = all_dtypes, .variants = variants});
}

}  // namespace table
