// The additional error that a function may have on a GPU, where it is computed by CUDA's functions.
#include <algorithm>
#include <string_view>

#include <stave/core/tensor/backend.h>

#include "table/cell.h"

namespace table {

namespace {

struct Documented {
  std::string_view function;
  // The maximum error relative to the correctly rounded result, in ulp:
  // the greater of those for float and double.
  Real ulps;
};

// From the tables of maximum errors in the CUDA C++ Programming Guide, "Mathematical Functions",
// "Standard Functions" (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#standard-functions).
// None is below the errors that LLVM's conformance tests found for CUDA's functions,
// over every float and 2^32 doubles (https://libc.llvm.org/headers/math/, "GPU Conformance").
constexpr Documented documented[] = {
    {"exp", 2},
    {"exp2", 2},
    {"expm1", 1},
    {"log", 1},
    {"log2", 1},
    {"log10", 2},
    {"log1p", 1},
    {"sin", 2},
    {"cos", 2},
    {"tan", 4},
    {"asin", 2},
    {"acos", 2},
    {"atan", 2},
    {"atan2", 3},
    {"sinh", 3},
    {"cosh", 2},
    {"tanh", 2},
    {"asinh", 3},
    {"acosh", 4},
    {"atanh", 3},
    {"erf", 2},
    {"erfc", 5},
    {"lgamma", 6},
    {"hypot", 3},
    {"pow", 4},
    // Functions composed of those above, none of which increases their error.
    {"sigmoid", 2},           // exp
    {"softplus", 3},          // log1p of exp
    {"erfinv", 1},            // log1p
    {"logit", 1},             // log and log1p
    {"logaddexp", 3},         // log1p of exp
    {"xlogy", 1},             // log
    {"xlog1py", 1},           // log1p
    {"entr", 1},              // xlogy
    {"log_sigmoid", 3},       // softplus
    {"silu", 2},              // sigmoid
    {"gelu", 5},              // erfc
    {"gelu_tanh", 2},         // exp
    {"mish", 5},              // tanh of softplus
    {"elu", 1},               // expm1
    {"sech_squared", 2},      // exp
    {"logistic_density", 2},  // exp
    {"exp_of_product", 2},    // exp
    {"direction_cosine", 3},  // hypot
    {"power_rule", 4},        // pow
    {"celu", 1},
    {"selu", 1},
    {"digamma", 1},      // log
    {"zeta", 4},         // pow
    {"polygamma", 4},    // zeta
    {"normal", 1},       // erfinv
    {"gumbel", 2},       // log of log
    {"softmax", 4},      // exp by a sum of exp
    {"log_softmax", 3},  // log of a sum of exp
    {"logsumexp", 3},
};

}  // namespace

Real accuracy_here(const Row& row) {
  if (place() == stave::cpu || std::string_view(stave::backend_of(place()).name()) != "cuda") return row.accuracy;
  const auto* const found = std::ranges::find(documented, std::string_view(row.name), &Documented::function);
  return row.accuracy + (found == std::end(documented) ? 0 : found->ulps);
}

}  // namespace table
