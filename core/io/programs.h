// Programs in files: trace records a program in one process; another process loads, runs,
// differentiates and compiles it.
//
//   save_program("loss.stave", trace(loss)(w, x));
//   Program p = load_program("loss.stave");   // in another process
//   Tensor l = p(std::vector{w, x})[0];       // the same bits, without the code of `loss`
//
// A file is a .safetensors file. Its tensors are the program's constants, and its metadata hold the
// program as JSON under the name "stave.program" (docs/guides/programs_as_files.md).
#pragma once

#include <string>

#include <stave/core/program/program.h>

namespace stave {

/// Writes a program to a file, which appears completely or not at all. Everything that the program
/// holds is written exactly: operations with their attributes, loops, fused regions, the functions
/// of checkpoints, reads, scopes, labels, constants. Throws TransformError, naming the operation,
/// for parts that a file cannot hold: operations that the user defined, collectives, the rules of
/// custom_vjp, custom_jvp and custom_vmap, which are C++ functions, and a checkpoint's policy that
/// is a C++ function. Throws DtypeError for constants of complex128, which the file's container
/// does not have. Throws FileError if the file cannot be written.
void save_program(const std::string& path, const Program& program);

/// Reads a program that save_program wrote, also one of an earlier version of the library. The file
/// is checked before the program is returned: each operation, its attributes, and the shape, dtype
/// and device of each result. Throws FileError, naming the file and the instruction, if it is
/// damaged or of a later version, or if the program computes on a device that this process lacks.
Program load_program(const std::string& path);

}  // namespace stave
