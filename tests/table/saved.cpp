// Checks that a program that is written as text and read again is the same program: it prints the
// same text, and gives the same bits.
#include <stave/core/io/program_text.h>
#include <stave/core/ops/create.h>
#include <stave/core/program/passes/passes.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/vjp_flat.h>

#include "table/cell.h"

namespace table {

namespace {

using Function = std::function<Outputs(std::span<const Tensor>)>;

Program read_again(const Program& program) {
  const stave_detail::ProgramText written = stave_detail::text_of(program, "text_of");
  std::map<std::string, Tensor> tensors;
  for (std::size_t i = 0; i < written.tensors.size(); ++i)
    tensors.emplace(std::to_string(i), apply(op_copy, {written.tensors[i]}));
  return stave_detail::program_of(written.text, tensors, "program_of");
}

// Operations that a file cannot hold.
bool is_refused(const Error& error) {
  const std::string text = error.what();
  return text.find("which a file cannot hold") != text.npos || text.find("a file cannot hold its code") != text.npos;
}

void check_same(const Program& program, const Case& c) {
  Program again;
  try {
    again = read_again(program);
  } catch (const TransformError& error) {
    if (is_refused(error)) return;
    throw;
  }
  if (again.str() != program.str()) throw Mismatch("the program that is read is\n" + again.str());
  if (!stave_detail::same_program(program, again)) throw Mismatch("the program that is read is another one");
  const Outputs expected = program(c.tensors), found = again(c.tensors);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (expected[i].defined() && !stave_detail::same_bits(found[i], expected[i]))
      throw Mismatch("result " + std::to_string(i) + " of the program that is read is\n" + found[i].str() +
                     "\nexpected\n" + expected[i].str());
}

void check_saved(const Case& c, const Function& f) {
  const Program program = stave_detail::record("trace", f, c.tensors).program;
  check_same(program, c);
  check_same(optimized(program), c);
}

}  // namespace

void check_save(const Case& c) {
  check_saved(c, [&](std::span<const Tensor> xs) { return c.call(xs); });
}

void check_save_of_vjp(const Case& c) {
  check_saved(c, [&](std::span<const Tensor> xs) {
    const auto f = [&](std::span<const Tensor> active) {
      std::vector<Tensor> all(xs.begin(), xs.end());
      for (std::size_t k = 0; k < c.active.size(); ++k) all[c.active[k]] = active[k];
      return c.call(all);
    };
    const FlatVjp vjp = vjp_flat(f, c.active_of(std::vector<Tensor>(xs.begin(), xs.end())), "vjp");
    std::vector<Tensor> cotangents;
    for (const Tensor& output : vjp.outputs)
      cotangents.push_back(is_float(output.dtype()) ? ones_like(output) : Tensor());
    const std::vector<Tensor> found = vjp.pullback(cotangents);
    return Outputs(found.begin(), found.end());
  });
}

}  // namespace table
