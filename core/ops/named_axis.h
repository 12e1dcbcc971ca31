// What collectives (collective.h) are to handlers that answer them: their attributes, and who exchanges.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>

namespace stave {

struct CollectiveAttributes;

/// Who exchanges between places that are not in this process's hands. A collective that carries one is performed below all handlers,
/// in derivatives too, wherever the handler that bound it stood.
class Communicator : public RefCounted {
 public:
  virtual ~Communicator() = default;
  /// Performs the operation with all others: row-major views in the host's memory. Throws what Stave throws.
  virtual void exchange(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) = 0;
  /// The same of views in a CUDA device's memory: put on the stream, a cudaStream_t of that device, the current one, and not waited for.
  virtual void exchange_on_device(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x,
                                  const View& result) = 0;
};
using CommunicatorPtr = IntrusivePtr<Communicator>;

/// The attributes of all collectives.
struct CollectiveAttributes final : ValueAttributes<CollectiveAttributes, PlacedAttributes> {
  using Pairs = std::vector<std::pair<Index, Index>>;
  std::string axis_name;
  Index size;
  Pairs pairs = {};              // ppermute
  CommunicatorPtr by = nullptr;  // null: whoever stands around has the axis

  CollectiveAttributes(std::string axis_name, Index size, Device device = cpu)
      : ValueAttributes(device), axis_name(std::move(axis_name)), size(size) {}
  auto members() const { return std::tuple(device, axis_name, size, pairs, static_cast<const void*>(by.get())); }
  std::string str() const override;
  /// The same, with somebody who exchanges.
  AttributesPtr bound(CommunicatorPtr communicator) const;
};

// Their records. Of so many places:
//   psum, pmax, pmin, ppermute   x [...] -> [...]
//   all_gather                   x [...] -> [places, ...]: of each
//   reduce_scatter               x [places, ...] -> [...]: this place's, of the sum of all
//   all_to_all                   x [places, ...], for each -> [places, ...], from each
//   axis_index                   -> int32 []
extern const Op op_psum, op_pmax, op_pmin, op_all_gather, op_reduce_scatter, op_all_to_all, op_ppermute, op_axis_index;

/// The attributes of a collective over a named axis that nobody has been bound to; null: the call is none.
const CollectiveAttributes* unbound_collective(const Op& op, const Attributes* attributes) noexcept;

/// What a collective yields in all places, of x of all of them, which has them as axis 0. `same`: it is one for all, without them.
struct OfAllPlaces {
  Tensor result;
  bool same;
};
OfAllPlaces all_places(const Op& op, const CollectiveAttributes& attributes, const Tensor& x);

}  // namespace stave
