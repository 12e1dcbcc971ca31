#include <stave/handlers/ranks/processes.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/ranks/watchdog.h>

namespace stave_detail {

namespace {

using C = CollectiveAttributes;

// ---- MPI -------------------------------------------------------------------------------

bool ended = false;  // True after end_all: no more messages can be sent to other processes.
// Whether this library initialised MPI, and must finalise it.
bool owns_mpi = true;
int threads = MPI_THREAD_SINGLE;

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail<Error>("Ranks: {} failed: {}", what, text.data());
}

std::string this_process() {
  int rank = 0, processes = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  return fmt::format("process {} of {}", rank, processes);
}

// Exit handler that finalises MPI. MPI_Finalize waits for all processes. If this process exits
// inside with(ranks, ...), the others never get there, so `finalise` ends all of them.
void finalise() {
  int done = 0;
  MPI_Finalized(&done);
  if (!done && !ended && open_withs > 0)
    end_all(this_process() +
            " ends all processes: it exits inside with(ranks, ...), where the others would wait for it for ever");
  if (!done && !ended && owns_mpi) {
    const auto say = [who = this_process()](const std::string& duration) {
      return fmt::format("{} has waited {} in MPI_Finalize, at its end: other processes have not reached their end",
                         who, duration);
    };
    const Waiting waiting(say);
    MPI_Finalize();
  }
  stop_watchdog();
}

void initialise() {
  int done = 0;
  MPI_Finalized(&done);
  if (done) fail<Error>("Ranks: MPI was finalised already: make Ranks before that, and only once");
  start_watchdog();
  static bool initialised = false;
  if (initialised) return;
  MPI_Initialized(&done);
  owns_mpi = !done;
  if (done) MPI_Query_thread(&threads);
  else check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads), "MPI_Init_thread");
  std::atexit(finalise);
  initialised = true;
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
    case complex64: return MPI_C_FLOAT_COMPLEX;
    case complex128: return MPI_C_DOUBLE_COMPLEX;
    default: fail<DtypeError>("Ranks: values of {} cannot be exchanged directly", dtype);
  }
}

// A custom MPI reduction to the greater (or lesser) of two elements; NaN if either is NaN. MPI_MAX
// and MPI_MIN do not specify their result for NaN.
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

// An MPI type that treats a number of bytes as one element, because MPI counts elements with int.
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

// Splits the range of elements into consecutive parts whose counts fit into an int, and calls
// f(first element, count) for each part.
template <class F>
void in_parts(Index elements, F f) {
  constexpr Index most = Index{1} << 30;
  for (Index first = 0; first < elements; first += most) f(first, static_cast<int>(std::min(most, elements - first)));
}

char* bytes_of(const View& view, Index element = 0) {
  return static_cast<char*>(view.data) + static_cast<std::size_t>(element) * size_of(view.dtype);
}

Index count_of(const View& view) { return Shape(view.shape).elements(); }
std::size_t bytes_in(const View& view) { return static_cast<std::size_t>(count_of(view)) * size_of(view.dtype); }

MPI_Op reduction(const Op& op, Dtype dtype) {
  if (&op == &op_pmax) return choosing<true>(dtype);
  if (&op == &op_pmin) return choosing<false>(dtype);
  return MPI_SUM;
}
bool reduces(const Op& op) { return &op == &op_psum || &op == &op_pmax || &op == &op_pmin; }

// ---- comparison of collectives ---------------------------------------------------------

// A hash by FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv. Unlike std::hash, it is equal on all
// hosts.
class Digest {
 public:
  void add(std::string_view text) noexcept {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  void add(std::int64_t number) noexcept {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i)));
  }
  std::uint64_t value() const noexcept { return state_; }

 private:
  void add_byte(unsigned char byte) noexcept { state_ = (state_ ^ byte) * 0x100000001b3U; }
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

// Adds the names of the open scopes, innermost first.
void add_scopes(Digest& digest) {
  if (open_scopes > 0)
    visit_frames(current, nullptr, [&](const Frame& frame) {
      if (const NamePtr* name = scope_of(frame)) digest.add((*name)->text);
    });
}
std::string in_scopes(const std::string& what, const Frame* innermost) {
  std::string in;
  visit_frames(innermost, nullptr, [&](const Frame& frame) {
    if (const NamePtr* name = scope_of(frame)) in = (*name)->text + (in.empty() ? "" : "/") + in;
  });
  return in.empty() ? what : fmt::format("{} in {}", what, in);
}

std::uint64_t digest_of(const Op& op, const C& attributes, const View& x, Device device) {
  Digest digest;
  digest.add(op.name);
  digest.add(static_cast<std::int64_t>(x.dtype));
  digest.add(std::int64_t{device != cpu});
  digest.add(static_cast<std::int64_t>(x.shape.size()));
  for (const Index n : x.shape) digest.add(n);
  for (const auto& [source, destination] : attributes.pairs) {
    digest.add(source);
    digest.add(destination);
  }
  add_scopes(digest);
  return digest.value();
}

// Before each collective, all processes exchange records in one message. A record holds a digest
// (hash) of the collective that its process is about to perform, and the operand if it is small.
// All records have the same size, so processes that disagree can still read them. If operands are
// small, this message replaces the collective's own message; otherwise a second message is
// necessary. With more than `few_places` processes, only the digests are exchanged, because all
// records together would be long.
//
//   record = digest (8 bytes), padding (8 bytes), operand (1024 bytes)
constexpr std::size_t header_bytes = 16, small_bytes = 1024, record_bytes = header_bytes + small_bytes;
constexpr int few_places = 8;

}  // namespace

std::atomic<int> open_withs = 0;

void end_all(const std::string& why) noexcept {
  std::fprintf(stderr, "stave: %s\n", why.c_str());
  std::fflush(nullptr);
  ended = true;
  abort_nccl();
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

std::string description_of(const Op& op, const C& attributes, Dtype dtype, const Shape& shape, Device device) {
  std::string what = fmt::format("{} of {} {}", op.name, dtype, shape);
  if (device != cpu) what += " on cuda";
  return attributes.pairs.empty() ? what : what + " " + attributes.str();
}

Processes::Processes(const std::string& axis_name, const RanksOptions& options) : name(axis_name) {
  initialise();
  const MPI_Comm all = options.communicator ? MPI_Comm_f2c(*options.communicator) : MPI_COMM_WORLD;
  if (options.group) {
    if (*options.group < 0 || *options.group > std::numeric_limits<int>::max())
      fail<IndexError>("Ranks: {} is not a group: a group is a number from 0 to 2147483647", *options.group);
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
  const auto what = [&] { return description_of(op, attributes, x.dtype, Shape(x.shape), cpu); };
  const bool gathered = agree(digest_of(op, attributes, x, cpu), &x, what);
  if (count_of(x) == 0 && count_of(result) == 0) return;
  if (gathered) return combine(op, attributes, x, result);
  if (reduces(op)) return reduce(x, result, reduction(op, x.dtype));
  if (&op == &op_ppermute) return permute(attributes.pairs, x, result);
  if (&op == &op_reduce_scatter) return scatter(x, result);
  const bool gathers = &op == &op_all_gather;
  const Block block(bytes_in(x) / (gathers ? 1 : static_cast<std::size_t>(size)));
  if (gathers) check(MPI_Allgather(x.data, 1, block, result.data, 1, block, communicator_), "MPI_Allgather");
  else check(MPI_Alltoall(x.data, 1, block, result.data, 1, block, communicator_), "MPI_Alltoall");
}

void Processes::exchange_on_device(void* stream, const Op& op, const C& attributes, const View& x, const View& result) {
  agree(digest_of(op, attributes, x, nccl_->device), nullptr,
        [&] { return description_of(op, attributes, x.dtype, Shape(x.shape), nccl_->device); });
  if (count_of(x) != 0 || count_of(result) != 0) nccl_->exchange(stream, op, attributes, x, result);
}

// Compares the digest with those of all other processes, and throws if they differ. x is this
// process's operand, or null. Returns true if it has stored the operands of all processes
// in records_; the result is equal on all processes.
bool Processes::agree(std::uint64_t digest, const View* x, FunctionRef<std::string()> what) {
  exchanged_ = true;
  if (size == 1) return false;
  const Frame* const performer = current;
  const auto say = [&](const std::string& duration) {
    return fmt::format("{} has waited {} in {}: not all processes have reached it", str(), duration,
                       in_scopes(what(), performer));
  };
  const Waiting waiting(say);
  if (size > few_places) {
    const std::array<std::uint64_t, 2> mine = {digest, ~digest};
    std::array<std::uint64_t, 2> most{};
    check(MPI_Allreduce(mine.data(), most.data(), 2, MPI_UINT64_T, MPI_MAX, communicator_), "MPI_Allreduce");
    // most[0] is the largest digest. most[1] is the largest complement, so ~most[1] is the smallest
    // digest.
    if (most[0] != ~most[1]) fail_mismatch(in_scopes(what(), performer));
    return false;
  }
  records_.resize(record_bytes * static_cast<std::size_t>(size));
  std::array<std::byte, record_bytes> mine{};
  std::memcpy(mine.data(), &digest, sizeof digest);
  const bool small = x && bytes_in(*x) <= small_bytes;
  if (small && bytes_in(*x) > 0) std::memcpy(mine.data() + header_bytes, x->data, bytes_in(*x));
  check(MPI_Allgather(mine.data(), record_bytes, MPI_BYTE, records_.data(), record_bytes, MPI_BYTE, communicator_),
        "MPI_Allgather");
  for (int i = 0; i < size; ++i)
    if (std::memcmp(operand(i) - header_bytes, &digest, sizeof digest) != 0)
      fail_mismatch(in_scopes(what(), performer));
  return small;
}

const std::byte* Processes::operand(int i) const noexcept {
  return records_.data() + record_bytes * static_cast<std::size_t>(i) + header_bytes;
}

// Computes the collective from the operands in records_, which `agree` received from all processes.
// Sums add the operands in the order of the places.
void Processes::combine(const Op& op, const C& attributes, const View& x, const View& result) const {
  const std::size_t bytes = bytes_in(result);
  if (&op == &op_ppermute) {
    std::memset(result.data, 0, bytes);
    for (const auto& [source, destination] : attributes.pairs)
      if (destination == place) std::memcpy(result.data, operand(static_cast<int>(source)), bytes);
  } else if (reduces(op) || &op == &op_reduce_scatter) {
    const std::size_t part = &op == &op_reduce_scatter ? bytes * static_cast<std::size_t>(place) : 0;
    std::memcpy(result.data, operand(0) + part, bytes);
    for (int i = 1; i < size; ++i)
      check(MPI_Reduce_local(operand(i) + part, result.data, static_cast<int>(count_of(result)), type_of(x.dtype),
                             reduction(op, x.dtype)),
            "MPI_Reduce_local");
  } else {
    const std::size_t each = bytes / static_cast<std::size_t>(size);
    const std::size_t part = &op == &op_all_to_all ? each * static_cast<std::size_t>(place) : 0;
    for (int i = 0; i < size; ++i)
      std::memcpy(static_cast<std::byte*>(result.data) + each * static_cast<std::size_t>(i), operand(i) + part, each);
  }
}

// All processes agree on the transport (NCCL or the host's memory) at the first collective, even if
// its tensors are on the CPU, so that a process without a device is detected. They agree once more
// at the first collective of a tensor on a device, if that comes later. After the first collective,
// the tensors of a collective must be on devices in all processes or on the CPU in all, just as
// their shapes must be equal.
Device Processes::exchanges_on(Device device, FunctionRef<std::string(Device)> what) {
  if (!decided_ && (!compared_first_collective_ || device != cpu)) {
    check_alike([&] { return what(compared_first_collective_ ? device : cpu); });
    compared_first_collective_ = true;
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
      why_not_ = fmt::format("places {} and {} share a GPU, which NCCL does not support: give each its own GPU",
                             same - all.begin(), number);
  }
  if (why_not_.empty()) nccl_ = std::make_unique<Nccl>(device, all[0].nccl, place, size);
}

std::string Processes::way() const {
  if (nccl_) return fmt::format(", {} by NCCL", nccl_->device.str());
  return decided_ ? fmt::format(", devices through the host's memory: {}", why_not_) : "";
}

void Processes::check_alike(FunctionRef<std::string()> what) {
  Digest digest;
  digest.add(what());
  add_scopes(digest);
  agree(digest.value(), nullptr, what);
}

void Processes::end() {
  if (exchanged_) check_alike([] { return std::string("no further collective: it has left Ranks"); });
  exchanged_ = false;
}

std::string Processes::str() const { return fmt::format("rank {} of {} of \"{}\"", place, size, name); }

// Throws an error that lists the collective that each process is about to perform. All processes
// call this function together, and exchange these texts.
void Processes::fail_mismatch(const std::string& mine) const {
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
  for (std::size_t i = 0; i < n; ++i)
    told += fmt::format("\n  rank {}: {}", i,
                        all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  fail<TransformError>("Ranks: the processes of \"{}\" do not perform the same collective:{}", name, told);
}

IntrusivePtr<Processes> Processes::again() const {
  return make_intrusive<Processes>(name, RanksOptions{.communicator = MPI_Comm_c2f(communicator_)});
}
bool Processes::is_thread_multiple() noexcept { return threads == MPI_THREAD_MULTIPLE; }

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
  const std::size_t bytes = bytes_in(x);
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
