// Reading the storage of a value that has none is an effect: a handler may answer it.
#pragma once

#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/yield.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// item(), to_vector() and data() of a value without storage (a lane's, under vmap) perform this. The answer has the same shape and
/// dtype, and storage. vmap answers: lanes whose values differ part there. Unhandled, it is an error that names the transform.
/// A function that runs again, a checkpoint's, reads again.
struct ReadStorage {
  using Result = Tensor;
  static constexpr bool remembered = false;
  Tensor value;
  bool stays = false;  // the answer is to live as long as the program may read the value
  Tensor unhandled() const;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Around what the host reads of a device, which waits for it. Between the two nothing is asked of the device: so where several
/// computations come to a read, the first one waits for the work of all.
inline void begin_read(Device device) {
  if (device != cpu) perform(YieldPoint{.waits = true});
}
inline void end_read(Device device) {
  if (device != cpu) yield();
}

/// x as a value with storage, which the program reads: x itself, or what a handler gives for a lane's value.
Tensor read_value(const Tensor& x, bool stays = false);

/// The same for who goes on looking at the value where it lies, and does not wait for a device. Throws, naming `what`, if somebody follows
/// its derivative, which would be lost.
Tensor read_in_place(const Tensor& x, const char* what, const char* remedy);

/// A way through functions whose lanes part: of each run of lanes around, from outside in, who it is, and the number of the path, of
/// which the first lane's is 0.
struct PathStep {
  InstallationId run;
  int number;
  bool carried;  // it is of a function that an operation carries
};
using Path = std::vector<PathStep>;

/// Asks for it; empty where nothing parts.
struct WhichPath {
  using Result = Path;
  static constexpr bool remembered = false;
  Path unhandled() const { return {}; }
};

}  // namespace stave_detail
