// The effect by which the program reads a value that has no storage of its own, as under vmap.
#pragma once

#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/effects/yield.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The effect that item(), to_vector() and data() perform on a value without storage (a value of a
/// lane under vmap). The answer has storage, and the same shape and dtype. vmap answers: it splits
/// lanes whose values differ into groups. Without a handler, the read throws TransformError, which
/// names the transform. Answers are not recorded (`remembered` is false): a function that runs
/// a second time, as under checkpoint, performs the effect again.
struct ReadStorage {
  using Result = Tensor;
  static constexpr bool remembered = false;
  Tensor value;
  bool keep_alive = false;  // the answer must live as long as the program may read the value
  Tensor unhandled() const;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The host calls begin_read before it reads from a device, and end_read afterwards. begin_read
/// lets other computations run first, until they read as well (handlers/transforms/concurrently.h).
/// So the first read waits for the work of all computations, and the others find their work done.
inline void begin_read(Device device) {
  if (device != cpu) perform(YieldPoint{.waits = true});
}
inline void end_read(Device device) {
  if (device != cpu) yield();
}

/// Returns x as a value with storage, for a read by the program: x itself, or a handler's answer
/// for a value of a lane.
Tensor read_value(const Tensor& x, bool keep_alive = false);

/// Returns a value with storage, as read_value does, for a caller that keeps reading its memory
/// later. Does not wait for a device. Throws TransformError, naming `what`, if a transform
/// differentiates the value, since the read would lose the derivative.
Tensor read_in_place(const Tensor& x, const char* what, const char* remedy);

/// One step of the current path. When vmap runs a function, it splits the lanes into paths. There
/// is one step for each such run around this point, the outermost run first.
struct PathStep {
  InstallationId run;  // identifies the run
  int number;          // the number of the path within the run; the first lane's path has number 0
  bool carried;        // true if the run's function belongs to a higher-order operation
};
using Path = std::vector<PathStep>;

/// The effect that returns the current path, which is empty outside vmap.
struct WhichPath {
  using Result = Path;
  static constexpr bool remembered = false;
  Path unhandled() const { return {}; }
};

}  // namespace stave_detail
