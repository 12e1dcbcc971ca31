// Checks the records of user-defined operations.
#include <stave/core/op/define.h>

#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail;

Op define_op(const Op& op) {
  const char* const name = op.name && *op.name ? op.name : nullptr;
  const auto refuse = [&](const char* why) {
    fail<TransformError>("define_op: {}{}{}", name ? name : "", name ? ": " : "", why);
  };
  if (!name) refuse("the operation has no name");
  if (op.id != OpId::own) refuse("its id is one of the library's operations: leave it out");
  if (op.is_higher_order || op.elementwise)
    refuse(
        "`elementwise` and `is_higher_order` are only for the library's own operations: leave them out (use "
        "batch_elementwise as batching rule)");
  if (!op.infer) refuse("it lacks `infer`, which returns the shapes and dtypes of its outputs");
  if (!op.cpu && !op.cuda && !op.view) refuse("nothing computes it: give it a kernel (`cpu`, `cuda`), or a `view`");
  return op;
}

}  // namespace stave

namespace stave_detail {

using namespace stave;

std::size_t count_elements(const View& view, Dtype dtype) {
  const Shape shape(view.shape);
  if (view.dtype != dtype) fail<DtypeError>("elements: the view is {} {}, not {}", view.dtype, shape, dtype);
  if (!is_contiguous(shape, Strides(view.strides)))
    fail<ShapeError>("elements: the view of shape {} is not row-major: use its strides", shape);
  return static_cast<std::size_t>(shape.elements());
}

}  // namespace stave_detail
