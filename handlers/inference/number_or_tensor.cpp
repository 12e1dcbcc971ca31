#include <stave/handlers/inference/number_or_tensor.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>

namespace stave {

Tensor NumberOrTensor::in(Dtype dtype, Device device) const {
  return is_number() ? full({}, *number_, dtype, device) : astype(tensor_, dtype);
}

}  // namespace stave
