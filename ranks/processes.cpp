#include <stave/ranks/processes.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/fail.h>

namespace stave_detail {

namespace {

using C = CollectiveAttributes;

// ---- MPI itself ------------------------------------------------------------------------------------------------------

bool ended = false;  // nothing more can be said to the others
int threads = MPI_THREAD_SINGLE;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail<Error>("Ranks: {} failed: {}", what, text.data());
}

void finalise() {
  int done = 0;
  MPI_Finalized(&done);
  if (!done && !ended) MPI_Finalize();
}

void initialise() {
  int done = 0;
  MPI_Finalized(&done);
  if (done) fail<Error>("Ranks: MPI was finalised: make Ranks before, and once for all");
  MPI_Initialized(&done);
  if (done) return void(MPI_Query_thread(&threads));
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads), "MPI_Init_thread");
  std::atexit(finalise);
}

MPI_Datatype type_of(Dtype dtype) {
  switch (dtype) {
    case bool_:
    case uint8: return MPI_UINT8_T;
    case uint16: return MPI_UINT16_T;
    case uint32: return MPI_UINT32_T;
    case uint64: return MPI_UINT64_T;
    case int8: return MPI_INT8_T;
    case int16: return MPI_INT16_T;
    case int32: return MPI_INT32_T;
    case int64: return MPI_INT64_T;
    case float32: return MPI_FLOAT;
    case float64: return MPI_DOUBLE;
    default: fail<DtypeError>("Ranks: {} is not exchanged by itself", dtype);
  }
}

// MPI_MAX says nothing of NaN: here it wins.
template <class T, bool largest>
void choose(void* in, void* inout, int* length, MPI_Datatype*) {
  const T* const a = static_cast<const T*>(in);
  T* const b = static_cast<T*>(inout);
  for (int i = 0; i < *length; ++i)
    if (std::isnan(a[i]) || (!std::isnan(b[i]) && (largest ? a[i] > b[i] : a[i] < b[i]))) b[i] = a[i];
}
template <class T, bool largest>
MPI_Op choosing() {
  static const MPI_Op op = [] {
    MPI_Op made = MPI_OP_NULL;
    check(MPI_Op_create(choose<T, largest>, 1, &made), "MPI_Op_create");
    return made;
  }();
  return op;
}
template <bool largest>
MPI_Op choosing(Dtype dtype) {
  if (dtype == float32) return choosing<float, largest>();
  if (dtype == float64) return choosing<double, largest>();
  return largest ? MPI_MAX : MPI_MIN;
}

// So many bytes as one element: MPI counts with ints.
class Block {
 public:
  explicit Block(std::size_t bytes) {
    constexpr std::size_t part = std::size_t{1} << 20;
    if (bytes <= std::size_t{std::numeric_limits<int>::max()}) {
      check(MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &type_), "MPI_Type_contiguous");
    } else {
      MPI_Datatype parts = MPI_DATATYPE_NULL;
      check(MPI_Type_contiguous(static_cast<int>(part), MPI_BYTE, &parts), "MPI_Type_contiguous");
      int counts[] = {static_cast<int>(bytes / part), static_cast<int>(bytes % part)};
      MPI_Aint at[] = {0, static_cast<MPI_Aint>(bytes / part * part)};
      MPI_Datatype types[] = {parts, MPI_BYTE};
      check(MPI_Type_create_struct(2, counts, at, types, &type_), "MPI_Type_create_struct");
      MPI_Type_free(&parts);
    }
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~Block() { MPI_Type_free(&type_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  operator MPI_Datatype() const noexcept { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// f(first element, how many) for parts of a number of elements that an int holds.
template <class F>
void in_parts(Index elements, F f) {
  constexpr Index most = Index{1} << 30;
  for (Index first = 0; first < elements; first += most) f(first, static_cast<int>(std::min(most, elements - first)));
}

bool checks_ranks() {
  static const char* const asked = std::getenv("STAVE_CHECK_RANKS");
  return asked && *asked && std::strcmp(asked, "0") != 0;
}

char* bytes_of(const View& view, Index element = 0) {
  return static_cast<char*>(view.data) + static_cast<std::size_t>(element) * size_of(view.dtype);
}

Index count_of(const View& view) { return Shape(view.shape).elements(); }

}  // namespace

void end_all() noexcept {
  ended = true;
  abort_nccl();
}

std::string in_words(const Op& op, const C& attributes, Dtype dtype, const Shape& shape, Device device) {
  std::string what = fmt::format("{} of {} {}", op.name, dtype, shape);
  if (device != cpu) what += " on cuda";
  return attributes.pairs.empty() ? what : what + " " + attributes.str();
}

Processes::Processes(const std::string& axis_name, const RanksOptions& options) : name(axis_name) {
  initialise();
  const MPI_Comm all = options.communicator ? MPI_Comm_f2c(*options.communicator) : MPI_COMM_WORLD;
  if (options.group) {
    if (*options.group < 0 || *options.group > std::numeric_limits<int>::max())
      fail<IndexError>("Ranks: the group {} is none: it is a number from 0 to 2147483647", *options.group);
    check(MPI_Comm_split(all, static_cast<int>(*options.group), 0, &communicator_), "MPI_Comm_split");
  } else {
    check(MPI_Comm_dup(all, &communicator_), "MPI_Comm_dup");
  }
  MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  MPI_Comm_size(communicator_, &size);
  MPI_Comm_rank(communicator_, &place);
}

Processes::~Processes() {
  int done = 0;
  MPI_Finalized(&done);
  if (!done && !ended) MPI_Comm_free(&communicator_);
}

void Processes::exchange(const Op& op, const C& attributes, const View& x, const View& result) {
  check_alike([&] { return in_words(op, attributes, x.dtype, Shape(x.shape), cpu); });
  if (count_of(x) == 0 && count_of(result) == 0) return;
  if (&op == &op_psum) return reduce(x, result, MPI_SUM);
  if (&op == &op_pmax) return reduce(x, result, choosing<true>(x.dtype));
  if (&op == &op_pmin) return reduce(x, result, choosing<false>(x.dtype));
  if (&op == &op_ppermute) return permute(attributes.pairs, x, result);
  if (&op == &op_reduce_scatter) return scatter(x, result);
  const bool gathers = &op == &op_all_gather;
  const Block block(static_cast<std::size_t>(count_of(x) / (gathers ? 1 : size)) * size_of(x.dtype));
  if (gathers) check(MPI_Allgather(x.data, 1, block, result.data, 1, block, communicator_), "MPI_Allgather");
  else check(MPI_Alltoall(x.data, 1, block, result.data, 1, block, communicator_), "MPI_Alltoall");
}

void Processes::exchange_on_device(void* stream, const Op& op, const C& attributes, const View& x, const View& result) {
  check_alike([&] { return in_words(op, attributes, x.dtype, Shape(x.shape), nccl_->device); });
  if (count_of(x) != 0 || count_of(result) != 0) nccl_->exchange(stream, op, attributes, x, result);
}

// All meet here at the first collective, wherever their tensors are: so those of whom some have no device find that out. And once more
// at the first one of a tensor on a device, if that comes later: from then on it is up to them to be alike, as in shapes.
Device Processes::exchanges_on(Device device, FunctionRef<std::string(Device)> what) {
  if (!decided_ && (!met_ || device != cpu)) {
    check_alike([&] { return what(met_ ? device : cpu); });
    met_ = true;
    decide(device);
  }
  return nccl_ && device != cpu ? nccl_->device : cpu;
}

void Processes::decide(Device device) {
  struct Offer {
    bool on_device = false;
    NcclOffer nccl;
  };
  Offer mine{device != cpu, {}};
  if (mine.on_device) mine.nccl = nccl_offer(device, place == 0);
  std::vector<Offer> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, communicator_), "MPI_Allgather");
  if (std::none_of(all.begin(), all.end(), [](const Offer& offer) { return offer.on_device; })) return;
  decided_ = true;
  for (auto offer = all.begin(); offer != all.end() && why_not_.empty(); ++offer) {
    const auto same = std::find_if(all.begin(), offer, [&](const Offer& it) { return it.nccl.gpu == offer->nccl.gpu; });
    const auto number = offer - all.begin();
    if (!offer->on_device) why_not_ = fmt::format("the tensor of place {} is on the CPU", number);
    else if (offer->nccl.why_not[0]) why_not_ = fmt::format("place {}: {}", number, offer->nccl.why_not.data());
    else if (same != offer)
      why_not_ = fmt::format("places {} and {} share a GPU, which NCCL refuses: give each its own", same - all.begin(),
                             number);
  }
  if (why_not_.empty()) nccl_ = std::make_unique<Nccl>(device, all[0].nccl, place, size);
}

std::string Processes::way() const {
  if (nccl_) return fmt::format(", {} by NCCL", nccl_->device.str());
  return decided_ ? fmt::format(", devices by way of the host's memory: {}", why_not_) : "";
}

void Processes::check_alike(FunctionRef<std::string()> say) const {
  if (!checks_ranks() || size == 1) return;
  const std::string what = say();
  std::string in;
  for (const std::string& scope : scopes()) in = scope + (in.empty() ? "" : "/") + in;  // they come from inside out
  const std::string mine = in.empty() ? what : fmt::format("{} in {}", what, in);
  int length = static_cast<int>(mine.size());
  const auto n = static_cast<std::size_t>(size);
  std::vector<int> lengths(n), starts(n);
  check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, communicator_), "MPI_Allgather");
  for (std::size_t i = 1; i < n; ++i) starts[i] = starts[i - 1] + lengths[i - 1];
  std::string all(static_cast<std::size_t>(starts.back() + lengths.back()), ' ');
  check(
      MPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, communicator_),
      "MPI_Allgatherv");
  std::string told;
  bool alike = true;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string theirs = all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i]));
    alike = alike && theirs.substr(0, theirs.find(" in ")) == what;
    told += fmt::format("\n  rank {}: {}", i, theirs);
  }
  if (!alike) fail<TransformError>("Ranks: the processes of \"{}\" do not perform the same collective:{}", name, told);
}

IntrusivePtr<Processes> Processes::again() const {
  return make_intrusive<Processes>(name, RanksOptions{.communicator = MPI_Comm_c2f(communicator_)});
}
bool Processes::takes_threads() noexcept { return threads == MPI_THREAD_MULTIPLE; }

void Processes::reduce(const View& x, const View& result, MPI_Op op) const {
  in_parts(count_of(x), [&](Index first, int count) {
    check(MPI_Allreduce(bytes_of(x, first), bytes_of(result, first), count, type_of(x.dtype), op, communicator_),
          "MPI_Allreduce");
  });
}

void Processes::scatter(const View& x, const View& result) const {
  const Index each = count_of(result);
  if (each <= std::numeric_limits<int>::max() / size)
    return check(
        MPI_Reduce_scatter_block(x.data, result.data, static_cast<int>(each), type_of(x.dtype), MPI_SUM, communicator_),
        "MPI_Reduce_scatter_block");
  for (int to = 0; to < size; ++to)
    in_parts(each, [&](Index first, int count) {
      check(MPI_Reduce(bytes_of(x, to * each + first), bytes_of(result, first), count, type_of(x.dtype), MPI_SUM, to,
                       communicator_),
            "MPI_Reduce");
    });
}

void Processes::permute(const C::Pairs& pairs, const View& x, const View& result) const {
  const std::size_t bytes = static_cast<std::size_t>(count_of(x)) * size_of(x.dtype);
  int to = MPI_PROC_NULL, from = MPI_PROC_NULL;
  for (const auto& [source, destination] : pairs) {
    if (source == place) to = static_cast<int>(destination);
    if (destination == place) from = static_cast<int>(source);
  }
  if (from == MPI_PROC_NULL) std::memset(result.data, 0, bytes);
  const Block block(bytes);
  check(MPI_Sendrecv(x.data, 1, block, to, 0, result.data, 1, block, from, 0, communicator_, MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
}

}  // namespace stave_detail
