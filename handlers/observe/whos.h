// whos: which tensors live in this process, and what memory they hold.
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
//   4 tensors, 16.0 KiB in 2 storages; 1 program, 1.5 KiB; 1.0 MiB more in tensors made before tracking began
//
// Largest first. A line is a value; copies of a handle are one value.
//
// - Bytes: of the whole storage that the value keeps alive; views of one storage have one number, and it is counted once below.
//   A value of vmap's lanes has no storage: the batch that it stands for is a value of its own.
// - Handles: how many copies of the Tensor there are, those of tapes and calls in flight included.
// - Programs: what compile keeps to run them again, whenever they were made: memory for what they compute between, as often as they
//   have run at once, and constants, which tensors may hold as well and are counted once.
// - Label: label.h. Notes: whose notes the value carries, that is, which transforms follow it.
//
// While nothing tracks, making a tensor costs as good as nothing more; while something does, two short locks. Any thread may
// call whos() at any time; tensors that other threads make or drop meanwhile may be in it or not.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <stave/core/tensor/tensor.h>
#include <stave/core/tensor/track.h>

namespace stave {

struct LiveTensor {
  Shape shape;
  Dtype dtype;
  Device device;
  const void* storage = nullptr;  // which; null: none
  std::size_t bytes = 0;          // of the storage
  std::uint32_t handles = 0;
  std::string label;
  std::vector<std::string> notes;  // of which handlers; each once
  bool lent = false;               // the memory is another library's, or a file's
};

/// What a compiled function was recorded as, from one read to the next.
struct LiveProgram {
  std::string name;
  Device device;
  std::size_t arenas = 0;       // kept, or in use
  std::size_t arena_bytes = 0;  // of all
  std::size_t constant_bytes = 0;
};

struct LiveTensors {
  std::vector<LiveTensor> tensors;  // largest first
  std::size_t storages = 0;
  std::size_t bytes = 0;              // of all storages
  std::vector<LiveProgram> programs;  // largest first
  std::size_t program_bytes = 0;      // of arenas, and of constants that are in none of the storages
  std::size_t untracked_bytes = 0;    // on the CPU, in other tensors; without what is lent

  std::string str() const;
};
std::ostream& operator<<(std::ostream& out, const LiveTensors& live);

/// The tensors that live, of those made while a TensorTracking stood, and all compiled programs. Throws TransformError while no
/// TensorTracking stands.
LiveTensors whos();

}  // namespace stave
