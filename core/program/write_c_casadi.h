// CasADi's interface of external functions (https://web.casadi.org/docs/, "Using external
// functions"), which casadi.external, acados and do-mpc load.
//
//   int f(const casadi_real** arg, casadi_real** res, casadi_int* iw, casadi_real* w, int mem);
//   f_n_in, f_n_out, f_name_in, f_name_out, f_sparsity_in, f_sparsity_out, f_work, ...
//
// Arguments are dense matrices of doubles, column by column. A null argument stands for zeros, and
// a null result is not wanted. Derivatives are functions whose names CasADi looks for: jac_f,
// fwd1_f, adj1_f.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <stave/core/program/lowered.h>

namespace stave_detail {

struct CasadiArgument {
  std::string name;
  Index rows = 1, columns = 1;
  // False for an input that the function does not read, and for a result of zeros. CasADi knows it
  // as a matrix without elements.
  bool has_elements = true;
};
struct CasadiFunction {
  std::string name;
  std::vector<CasadiArgument> inputs, outputs;
  // Its inputs and outputs are the arguments with elements, in their order. Their elements are in
  // CasADi's order: column by column.
  Lowered code;
};

/// Writes the functions as one C file that needs no other, and their declarations as a header if
/// one is given.
void write_c_casadi(std::ostream& out, std::ostream* header, const std::vector<CasadiFunction>& functions);

}  // namespace stave_detail
