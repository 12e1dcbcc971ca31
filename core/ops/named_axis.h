// Declarations for handlers that answer collectives (collective.h): the attributes of collectives,
// and communicators, which exchange data between processes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>

namespace stave {

struct CollectiveAttributes;

/// Exchanges data between the places of an axis that are separate processes. A collective with a
/// communicator in its attributes is performed outside all handlers. This holds for derivatives
/// too, regardless of where the handler that set the communicator was installed.
class Communicator : public RefCounted {
 public:
  virtual ~Communicator() = default;
  /// Performs the operation together with all other places, on row-major views in host memory.
  /// Throws the errors of Stave.
  virtual void exchange(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) = 0;
  /// Performs the operation as `exchange` does, on views in a CUDA device's memory. `stream`
  /// is a cudaStream_t of that device, which is the current device. The exchange is enqueued on
  /// the stream and not waited for.
  virtual void exchange_on_device(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x,
                                  const View& result) = 0;
};
using CommunicatorPtr = IntrusivePtr<Communicator>;

/// The attributes of all collectives.
struct CollectiveAttributes final : ValueAttributes<CollectiveAttributes, PlacedAttributes> {
  using Pairs = std::vector<std::pair<Index, Index>>;
  std::string axis_name;
  Index size;
  Pairs pairs = {};              // for ppermute
  CommunicatorPtr by = nullptr;  // null: the handler that has the axis answers the collective

  CollectiveAttributes(std::string axis_name, Index size, Device device = cpu)
      : ValueAttributes(device), axis_name(std::move(axis_name)), size(size) {}
  auto members() const { return std::tuple(device, axis_name, size, pairs, static_cast<const void*>(by.get())); }
  std::string str() const override;
  /// Returns a copy of these attributes with a communicator.
  AttributesPtr bound(CommunicatorPtr communicator) const;
};

// The records of the collectives, where `places` is the number of places:
//   psum, pmax, pmin, ppermute   x [...] -> [...]
//   all_gather                   x [...] -> [places, ...]: the x of each place
//   reduce_scatter               x [places, ...] -> [...]: this place's part of the sum of all x
//   all_to_all                   x [places, ...], a part for each place
//                                  -> [places, ...], a part from each place
//   axis_index                   -> int32 []
extern const Op op_psum, op_pmax, op_pmin, op_all_gather, op_reduce_scatter, op_all_to_all, op_ppermute, op_axis_index;

/// Returns the attributes of a collective over a named axis to which no communicator is bound;
/// null if the call is not such a collective.
const CollectiveAttributes* unbound_collective(const Op& op, const Attributes* attributes) noexcept;

/// The results of a collective for all places, as vmap computes them. Axis 0 has one entry per
/// place, except if `same` is true: then the result is the same in all places and lacks that axis.
struct OfAllPlaces {
  Tensor result;
  bool same;
};
OfAllPlaces result_at_all_places(const Op& op, const CollectiveAttributes& attributes, const Tensor& x);

}  // namespace stave
