// The processes of an axis: who exchanges between them. Internal to ranks.
#pragma once

#include <mpi.h>

#include <string>

#include <stave/core/effects/function_ref.h>
#include <stave/core/ops/named_axis.h>
#include <stave/ranks/ranks.h>

namespace stave_detail {

/// Nothing more can be said to the others: MPI is left as it is.
void end_all() noexcept;

class Processes final : public Communicator {
 public:
  /// Of all processes, of a communicator, or of a group: as the options of Ranks say.
  Processes(const std::string& axis_name, const RanksOptions& options);
  ~Processes() override;

  void exchange(const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result) override;
  /// Under STAVE_CHECK_RANKS=1 throws on all processes where they are about to perform different things: what what() says.
  void check_alike(FunctionRef<std::string()> what) const;
  /// The same processes again, whose messages do not meet those of others: for another thread. To be made by all.
  IntrusivePtr<Processes> again() const;
  /// Whether several threads may exchange at a time.
  static bool takes_threads() noexcept;

  const std::string name;
  int size = 1, place = 0;

 private:
  void reduce(const View& x, const View& result, MPI_Op op) const;
  void scatter(const View& x, const View& result) const;
  void permute(const CollectiveAttributes::Pairs& pairs, const View& x, const View& result) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
};

}  // namespace stave_detail
