// whos: lists the live tensors of this process and the memory that they hold.
//
//   const TensorTracking tracking;              // before the tensors of interest are made
//   ...
//   std::cout << whos();
//
//   shape    dtype       bytes  storage  handles   label  notes
//   [64,64]  float32  16.0 KiB        1        2       w  grad
//   [64]     float32  16.0 KiB        1        1          grad, graph
//   [8]      float32      32 B        2        1       b
//   []       float32     lanes                 1          vmap
//
//   program                         arenas    bytes  constants
//   compile(w:f32[64,64], f32[64])       1  1.5 KiB       32 B
//   4 tensors, 16.0 KiB in 2 storages; 1 program, 1.5 KiB; 1.0 MiB more in tensors
//   made before tracking began
//
// Rows are sorted by size, largest first. A row is a value; copies of a handle are the same value.
//
// - Bytes: the size of the whole storage that the value keeps alive. Views of one storage have
//   the same storage number, and the sum in the last lines counts it once. A lane's value of vmap
//   has no storage; its batch is a value of its own.
// - Handles: the number of copies of the Tensor, including those of tapes and of running calls.
// - Programs: the memory that compiled functions keep, regardless of when they were compiled.
//   Arenas hold intermediate values. Each run in progress has an arena, and after a run one arena
//   is kept for the next run. Constants may also be held by tensors, and are counted once.
// - Label: see label.h. Notes: the handlers that have a note on the value, that is,
//   the transforms that trace it.
//
// Without a TensorTracking, creating a tensor costs practically nothing more; with one it takes two
// short locks. Any thread may call whos() at any time. Tensors that other threads create or drop
// meanwhile may or may not be included.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <stave/core/tensor/tensor.h>
#include <stave/core/tensor/tensor_register.h>

namespace stave {

struct LiveTensor {
  Shape shape;
  Dtype dtype;
  Device device;
  // The address that identifies the storage; null if there is none.
  const void* storage = nullptr;
  // The size of the storage.
  std::size_t bytes = 0;
  std::uint32_t handles = 0;
  std::string label;
  // The names of the handlers with notes on the value, each once.
  std::vector<std::string> notes;
  // Whether the memory belongs to another library or to a file.
  bool lent = false;
};

/// A part of a compiled function that runs as one program: the operations from one guard to the
/// next.
struct LiveProgram {
  std::string name;
  Device device;
  // The number of arenas: those in use by runs, and at most one that is kept for the next run.
  std::size_t arenas = 0;
  std::size_t arena_bytes = 0;  // The sum over all arenas.
  std::size_t constant_bytes = 0;
};

struct LiveTensors {
  std::vector<LiveTensor> tensors;  // Largest first.
  std::size_t storages = 0;
  std::size_t bytes = 0;              // The sum over all storages.
  std::vector<LiveProgram> programs;  // Largest first.
  // The bytes of arenas, and of constants whose storages are not counted in `bytes`.
  std::size_t program_bytes = 0;
  // The bytes of all other tensors on the CPU, without lent memory.
  std::size_t untracked_bytes = 0;

  std::string str() const;
};
std::ostream& operator<<(std::ostream& out, const LiveTensors& live);

/// Returns the live tensors that were created during a TensorTracking, and all compiled programs.
/// Throws TransformError if no TensorTracking exists.
LiveTensors whos();

}  // namespace stave
