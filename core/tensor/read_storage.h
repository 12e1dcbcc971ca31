// Reading the storage of a value that has none of its own is an effect, which a handler may answer.
#pragma once

#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/yield.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The effect of item(), to_vector() and data() on a value without storage
/// (a value of a lane under vmap). The answer has storage, and the same shape and dtype.
/// vmap answers: it splits lanes whose values differ into groups. Without a handler it is an error
/// that names the transform. A function that runs again, such as a checkpoint's, reads again.
struct ReadStorage {
  using Result = Tensor;
  static constexpr bool remembered = false;
  Tensor value;
  bool stays = false;  // the answer must live as long as the program may read the value
  Tensor unhandled() const;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Calls around a read of a device by the host, which waits for the device. Between them nothing
/// is requested of the device. So if several computations reach a read, the first one waits
/// for the work of all.
inline void begin_read(Device device) {
  if (device != cpu) perform(YieldPoint{.waits = true});
}
inline void end_read(Device device) {
  if (device != cpu) yield();
}

/// Returns x as a value with storage, for a read by the program: x itself, or a handler's answer
/// for a value of a lane.
Tensor read_value(const Tensor& x, bool stays = false);

/// As read_value, for a caller that goes on reading the memory of the value, and does not wait for
/// a device. Throws TransformError, naming `what`, if a transform differentiates the value: its
/// derivative would be lost.
Tensor read_in_place(const Tensor& x, const char* what, const char* remedy);

/// One step of a path through functions whose lanes were split. A path has one step per surrounding
/// run of lanes, from outside in. `run` identifies the run; `number` is that of the path,
/// and the first lane's path has number 0.
struct PathStep {
  InstallationId run;
  int number;
  bool carried;  // the run is inside a function of a higher-order operation
};
using Path = std::vector<PathStep>;

/// The effect that returns the current path; it is empty if nothing splits.
struct WhichPath {
  using Result = Path;
  static constexpr bool remembered = false;
  Path unhandled() const { return {}; }
};

}  // namespace stave_detail
