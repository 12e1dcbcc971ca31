#include <stave/handlers/compile/write_c.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/write_c_casadi.h>
#include <stave/core/program/write_c_plain.h>
#include <stave/core/program/write_c_text.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/compile/record.h>
#include <stave/handlers/transforms/jacobian.h>
#include <stave/handlers/transforms/jvp_flat.h>

namespace stave_detail {

namespace {

Lowered lowered(const Program& program) { return lower(program, {.function = "write_c"}); }

// ---- programs of CasADi's functions -------------------------------------------------------------

// A function as CasADi sees it. Its arrays are the matrices of CasADi in row-major order of their
// transposes: a matrix of 2 rows and 3 columns, column by column, is an array of shape [3,2].
struct CasadiProgram {
  std::string name;
  std::vector<CasadiArgument> inputs, outputs;
  std::vector<Tensor> examples;  // of the inputs with elements
  Program program;               // from the inputs with elements to the outputs with elements
};

CasadiArgument argument_of(std::string name, const Shape& shape) {
  const auto length = [&](int axis) { return shape[static_cast<std::size_t>(axis)]; };
  if (shape.rank() == 2) return {std::move(name), length(1), length(0)};
  return {std::move(name), shape.rank() == 0 ? 1 : length(0), 1};
}
// Returns x with its axes in reverse order.
Tensor transposed(const Tensor& x) { return x.rank() == 2 ? permute_dims(x, {1, 0}) : x; }

Program recorded(const char* name, FlatFunction f, std::span<const Tensor> given) {
  UnderFrame past_all_handlers(nullptr);
  Recording recording = record(name, f, given);
  if (recording.too_long) fail_too_long();
  return with_constants_folded(without_dead_code(std::move(recording.program)));
}

std::vector<CasadiArgument> joined(std::vector<CasadiArgument> a, const std::vector<CasadiArgument>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
std::vector<CasadiArgument> renamed(const char* prefix, std::vector<CasadiArgument> list) {
  for (CasadiArgument& each : list) each.name.insert(0, prefix);
  return list;
}
// The inputs of a derivative of f: those of f, then its outputs, which CasADi knows already. No
// derivative needs these.
std::vector<CasadiArgument> inputs_and_results(const CasadiProgram& f) {
  std::vector<CasadiArgument> results = renamed("out_", f.outputs);
  for (CasadiArgument& each : results) each.has_elements = false;
  return joined(f.inputs, results);
}

// Drops the outputs of a program that are zeros whatever its inputs are.
void drop_zeros(CasadiProgram& f) {
  std::vector<int> kept;
  std::size_t k = 0;
  for (CasadiArgument& each : f.outputs) {
    if (!each.has_elements) continue;
    const int variable = f.program.outputs[k++];
    for (const Program::Constant& constant : f.program.constants)
      if (constant.variable == variable) {
        const std::vector<double> elements = observed(constant.value).to_vector<double>();
        each.has_elements = !std::all_of(elements.begin(), elements.end(), [](double x) { return x == 0; });
      }
    if (each.has_elements) kept.push_back(variable);
  }
  f.program.outputs = std::move(kept);
}

// fwd1_f: inputs, outputs, a direction for each input -> the derivatives along it
CasadiProgram forward_of(const CasadiProgram& f) {
  CasadiProgram d{"fwd1_" + f.name,
                  joined(inputs_and_results(f), renamed("fwd_", f.inputs)),
                  renamed("fwd_", f.outputs),
                  f.examples,
                  {}};
  for (const Tensor& example : f.examples) d.examples.push_back(ones_like(example));
  const auto derivative = [&](std::span<const Tensor> given) {
    const std::size_t n = given.size() / 2;
    return jvp_flat([&](std::span<const Tensor> xs) { return f.program(xs); }, given.first(n), given.last(n)).tangents;
  };
  d.program = recorded("write_c", derivative, d.examples);
  return d;
}

// adj1_f: inputs, outputs, a cotangent for each output -> a cotangent for each input
CasadiProgram reverse_of(const CasadiProgram& f) {
  CasadiProgram d{"adj1_" + f.name,
                  joined(inputs_and_results(f), renamed("adj_", f.outputs)),
                  renamed("adj_", f.inputs),
                  f.examples,
                  {}};
  for (const int output : f.program.outputs) {
    const Program::Variable& variable = f.program.variable(output);
    d.examples.push_back(ones(variable.shape, variable.dtype));
  }
  const std::size_t n = f.examples.size();
  const auto derivative = [&](std::span<const Tensor> given) {
    FlatVjp vjp = vjp_flat([&](std::span<const Tensor> xs) { return f.program(xs); }, given.first(n), "write_c");
    const std::vector<Tensor> cotangents = vjp.pullback.consume(given.subspan(n));
    return Outputs(cotangents.begin(), cotangents.end());
  };
  d.program = recorded("write_c", derivative, d.examples);
  return d;
}

// jac_f: inputs, outputs -> for each output, for each input, a matrix with a row for each element
// of the output and a column for each element of the input
CasadiProgram jacobian_of(const CasadiProgram& f) {
  CasadiProgram d{"jac_" + f.name, inputs_and_results(f), {}, f.examples, {}};
  Index rows = 0, columns = 0;
  for (const CasadiArgument& out : f.outputs) {
    for (const CasadiArgument& in : f.inputs)
      d.outputs.push_back({"jac_" + out.name + "_" + in.name, out.rows * out.columns, in.rows * in.columns,
                           out.has_elements && in.has_elements});
    if (out.has_elements) rows += out.rows * out.columns;
  }
  for (const Tensor& example : f.examples) columns += example.size();
  const auto derivative = [&](std::span<const Tensor> given) {
    const auto values = [&](std::span<const Tensor> xs) { return f.program(xs); };
    Outputs matrices;
    for (const std::vector<Tensor>& row : columns <= rows ? jacfwd_flat(values, given) : jacrev_flat(values, given))
      for (std::size_t i = 0; i < row.size(); ++i) {
        // [output's axes..., input's axes...] -> the transpose of the matrix
        const Index in = given[i].size();
        matrices.push_back(permute_dims(reshape(row[i], {in == 0 ? 0 : row[i].size() / in, in}), {1, 0}));
      }
    return matrices;
  };
  d.program = recorded("write_c", derivative, d.examples);
  drop_zeros(d);
  return d;
}

// A value at which most operations are defined.
Tensor usual_example(const Program::Variable& variable) {
  const Shape& shape = variable.shape;
  const bool is_square = shape.rank() == 2 && shape[0] == shape[1];
  return is_square ? eye(shape[0], variable.dtype) : full(shape, 0.5, variable.dtype);
}

void check_float64(const Program& program, std::span<const int> variables, const char* what) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (variables[i] < 0) fail<TransformError>("write_c: {} {} is an empty Tensor", what, i);
    const Program::Variable& it = program.variable(variables[i]);
    if (is_complex(it.dtype))
      fail<DtypeError>(
          "write_c: {} {} is {}, but CasADi has no complex numbers: pass the real and the imaginary part as two arrays",
          what, i, type_text(it.dtype, it.shape));
    if (it.dtype != float64)
      fail<DtypeError>("write_c: {} {} is {}, but CasADi's numbers are float64: convert it with astype", what, i,
                       type_text(it.dtype, it.shape));
    if (it.shape.rank() > 2)
      fail<ShapeError>("write_c: {} {} is {}, but CasADi's matrices have two axes: reshape it", what, i,
                       type_text(it.dtype, it.shape));
  }
}

CasadiProgram casadi_program(const Program& program, const COptions& options) {
  check_float64(program, program.inputs, "input");
  check_float64(program, program.outputs, "output");
  if (!options.examples.empty() && options.examples.size() != program.inputs.size())
    fail<TransformError>("write_c: {} examples are given, but there are {} inputs", options.examples.size(),
                         program.inputs.size());
  CasadiProgram f{options.name, {}, {}, {}, {}};
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Program::Variable& variable = program.variable(program.inputs[i]);
    f.examples.push_back(
        contiguous(transposed(options.examples.empty() ? usual_example(variable) : options.examples[i])));
    f.inputs.push_back(argument_of("", f.examples.back().shape()));
  }
  const auto of_transposes = [&](std::span<const Tensor> xs) {
    std::vector<Tensor> rows;
    for (const Tensor& x : xs) rows.push_back(transposed(x));
    Outputs outputs = program(rows);
    for (Tensor& output : outputs) output = transposed(output);
    return outputs;
  };
  f.program = recorded("write_c", of_transposes, f.examples);
  for (const int output : program.outputs) {
    Shape shape = program.variable(output).shape;
    std::reverse(shape.begin(), shape.end());
    f.outputs.push_back(argument_of("", shape));
  }
  return f;
}

void write_casadi(std::ostream& out, const Program& program, const COptions& options) {
  CasadiProgram f = casadi_program(program, options);
  // The arguments have the same names as those of Interface::plain; CasADi accepts these names.
  std::vector<std::string> labels;
  for (const int input : program.inputs) labels.push_back(label_text(program.variable(input)));
  const CSignature names = checked({options.name, options.inputs, options.outputs}, labels, program.outputs.size());
  for (std::size_t i = 0; i < f.inputs.size(); ++i) f.inputs[i].name = names.inputs[i];
  for (std::size_t i = 0; i < f.outputs.size(); ++i) f.outputs[i].name = names.outputs[i];
  std::vector<CasadiFunction> functions;
  const auto add = [&](CasadiProgram&& it) {
    functions.push_back({std::move(it.name), std::move(it.inputs), std::move(it.outputs), lowered(it.program)});
  };
  if (options.jacobian) add(jacobian_of(f));
  if (options.forward) add(forward_of(f));
  if (options.reverse || options.hessian) {
    CasadiProgram reverse = reverse_of(f);
    if (options.hessian) add(jacobian_of(reverse));
    add(std::move(reverse));
  }
  add(std::move(f));
  std::reverse(functions.begin(), functions.end());
  write_c_casadi(out, options.header, functions);
}

}  // namespace

int generate_c(int argc, char** argv, std::initializer_list<NamedCFunction> functions) {
  if (argc != 2) return std::fprintf(stderr, "%s DIRECTORY\n", argv[0]), 1;
  for (const auto& [name, make] : functions) try {
      CFunction function = make();
      const std::string path = std::string(argv[1]) + "/" + name;
      std::ofstream source(path + ".c", std::ios::binary), header(path + ".h", std::ios::binary);
      function.options.name = name;
      function.options.header = &header;
      write_c(source, function.program, function.options);
      source.close();
      header.close();
      if (!source || !header) throw std::runtime_error("cannot write " + path + ".c and .h");
    } catch (const std::exception& error) {
      return std::fprintf(stderr, "%s: %s\n", name, error.what()), 1;
    }
  return 0;
}

}  // namespace stave_detail

namespace stave {

void write_c(std::ostream& out, const Program& program, const COptions& options) {
  using namespace stave_detail;
  const bool has_derivatives = options.jacobian || options.forward || options.reverse || options.hessian;
  if (options.interface == Interface::casadi) return write_casadi(out, program, options);
  if (has_derivatives)
    fail<TransformError>(
        "write_c: derivatives by option are for Interface::casadi; else write trace(grad(f))(x), for example");
  write_c_plain(out, options.header, lowered(program), {options.name, options.inputs, options.outputs});
}

}  // namespace stave
