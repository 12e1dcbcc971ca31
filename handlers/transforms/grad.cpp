#include <stave/handlers/transforms/grad.h>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

void check_loss(const Tensor& loss, const char* transform, bool holomorphic) {
  if (loss.rank() != 0)
    fail<TransformError>(
        "{}: the function must return one number, a tensor of shape [], but it returned shape {}: reduce it "
        "(sum, mean), or use vjp or jacrev",
        transform, loss.shape());
  if (holomorphic && !is_complex(loss.dtype()))
    fail<DtypeError>("{}: .holomorphic is set, but the function returned {}: its result must be complex", transform,
                     loss.dtype());
  if (!holomorphic && is_complex(loss.dtype()))
    fail<DtypeError>(
        "{}: the function returned {}, which has no gradient as it is: return a real number, such as real(z) or "
        "abs(z), or set .holomorphic if the function is complex-differentiable",
        transform, loss.dtype());
  if (!is_inexact(loss.dtype()))
    fail<DtypeError>("{}: the function returned {}, which has no derivative: return a floating number", transform,
                     loss.dtype());
}

std::string name_of_argument(std::size_t argument, const std::string& path) {
  const std::string name = "argument " + std::to_string(argument);
  return path.empty() ? name : name + " (its member " + path + ")";
}

Tensor one_like(const Tensor& loss) { return ones_like(loss); }

void fail_no_tensors(const char* transform) {
  fail<TransformError>("{}: the differentiated arguments hold no tensors", transform);
}

}  // namespace stave_detail
