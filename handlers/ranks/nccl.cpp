#include <stave/handlers/ranks/nccl.h>

#include <cuda.h>
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

using C = CollectiveAttributes;

static_assert(sizeof(ncclUniqueId) == sizeof(NcclOffer::unique_id) && sizeof(CUuuid) == sizeof(NcclOffer::gpu));

// ---- the libraries ---------------------------------------------------------------------

// The directories that contained NCCL on the build machine, separated by colons.
#ifndef STAVE_NCCL_FOLDERS
#define STAVE_NCCL_FOLDERS ""
#endif

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

void* load(const char* file, const char* folders, const char* remedy) {
  if (void* const found = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return found;
  std::istringstream all(folders);
  for (std::string folder; std::getline(all, folder, ':');)
    if (void* const found = dlopen((folder + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  refuse(fmt::format("{} cannot be loaded: {}", file, remedy));
}

template <class F>
void find(F& function, void* library, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) refuse(fmt::format("{} is missing: its library is too old", name));
}

// cuDeviceGetUuid gives the UUID of the whole GPU. cuDeviceGetUuid_v2 distinguishes MIG slices
// of a GPU, but NCCL does not.
struct Driver {
  decltype(&cuDeviceGet) device_of;
  decltype(&cuDeviceGetUuid) uuid_of;
  Driver() {
    void* const library = load("libcuda.so.1", "", "it comes with NVIDIA's driver");
    find(device_of, library, "cuDeviceGet");
    find(uuid_of, library, "cuDeviceGetUuid");
  }
};
const Driver& driver() {
  // A static whose constructor throws is constructed anew by the next call, so loading is retried.
  static const Driver functions;
  return functions;
}

struct Functions {
// clang-format off
#define STAVE_NCCL_FUNCTIONS(X)                                                                                         \
  X(GetUniqueId) X(CommInitRank) X(CommDestroy) X(CommAbort) X(CommGetAsyncError) X(GetErrorString) X(GetLastError)     \
  X(AllReduce) X(AllGather) X(ReduceScatter) X(Send) X(Recv) X(GroupStart) X(GroupEnd)
// clang-format on
#define X(name) decltype(&nccl##name) name = nullptr;
  STAVE_NCCL_FUNCTIONS(X)
#undef X
  Functions() {
    void* const library = load("libnccl.so.2", STAVE_NCCL_FOLDERS,
                               "install NCCL (apt-get install libnccl2, or pip's nvidia-nccl), or put its folder into "
                               "LD_LIBRARY_PATH");
#define X(name) find(name, library, "nccl" #name);
    STAVE_NCCL_FUNCTIONS(X)
#undef X
  }
};
const Functions& nccl() {
  static const Functions functions;
  return functions;
}

void check(const Op& op, ncclResult_t result, ncclComm_t communicator, const char* what) {
  if (result == ncclSuccess) [[likely]]
    return;
  const char* const more = nccl().GetLastError(communicator);
  fail<Error>("{}: NCCL: {}: {}{}{}", op.name, what, nccl().GetErrorString(result), more && *more ? ": " : "",
              more ? more : "");
}

// ---- live communicators ----------------------------------------------------------------

// The list of live communicators. An atexit handler destroys them before NCCL's own globals are
// destroyed; a global Ranks would do so too late. In a child of fork() nothing is destroyed,
// because the communicators belong to the parent.
class LiveCommunicators;
LiveCommunicators& live_communicators();

class LiveCommunicators {
 public:
  void add(ncclComm_t communicator) {
    // NCCL has been loaded at this point. Exit handlers run in reverse order, so this one runs
    // before NCCL's globals are destroyed.
    static const int at_exit = std::atexit([] { live_communicators().end(nccl().CommDestroy); });
    static_cast<void>(at_exit);
    const std::lock_guard lock(mutex_);
    communicators_.insert(communicator);
  }
  /// Destroys a communicator, unless `end` has done so already.
  void destroy(ncclComm_t communicator) {
    if (take(communicator) && process_ == getpid()) nccl().CommDestroy(communicator);
  }
  void end(ncclResult_t (*how)(ncclComm_t)) {
    for (ncclComm_t communicator : take_all())
      if (process_ == getpid()) how(communicator);
  }

 private:
  bool take(ncclComm_t communicator) {
    const std::lock_guard lock(mutex_);
    return communicators_.erase(communicator) == 1;
  }
  std::set<ncclComm_t> take_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(communicators_, {});
  }

  std::mutex mutex_;
  std::set<ncclComm_t> communicators_;
  const pid_t process_ = getpid();
};
LiveCommunicators& live_communicators() {
  // The object is leaked, so that it exists until the process ends.
  static auto& all = *new LiveCommunicators;
  return all;
}

// ---- the exchange ----------------------------------------------------------------------

// A complex number is two numbers of NCCL's: sums of complex numbers are those of their parts.
ncclDataType_t type_of(Dtype dtype) {
  switch (real_of(dtype)) {
    case bool_:
    case uint8: return ncclUint8;
    case uint32: return ncclUint32;
    case uint64: return ncclUint64;
    case int8: return ncclInt8;
    case int32: return ncclInt32;
    case int64: return ncclInt64;
    case float32: return ncclFloat32;
    case float64: return ncclFloat64;
    default: fail<DtypeError>("Ranks: NCCL does not compute with {} here", dtype);
  }
}

std::size_t count_of(const View& view) { return static_cast<std::size_t>(Shape(view.shape).elements()); }
std::size_t bytes_of(const View& view) { return count_of(view) * size_of(view.dtype); }
std::size_t count_of_parts(const View& view) { return count_of(view) * (is_complex(view.dtype) ? 2 : 1); }
char* part_of(const View& view, int part, std::size_t bytes) {
  return static_cast<char*>(view.data) + static_cast<std::size_t>(part) * bytes;
}

// An NCCL group: its sends and receives run at the same time.
class NcclGroup {
 public:
  NcclGroup(ncclComm_t communicator, cudaStream_t stream) : communicator_(communicator), stream_(stream) {
    result_ = nccl().GroupStart();
  }
  void send(const void* from, std::size_t bytes, int to) {
    if (result_ == ncclSuccess) result_ = nccl().Send(from, bytes, ncclInt8, to, communicator_, stream_);
  }
  void receive(void* to, std::size_t bytes, int from) {
    if (result_ == ncclSuccess) result_ = nccl().Recv(to, bytes, ncclInt8, from, communicator_, stream_);
  }
  /// Ends the group. This must also happen after an error, or the next NCCL call of this thread
  /// would still belong to the group.
  ncclResult_t go() {
    const ncclResult_t ended = nccl().GroupEnd();
    return result_ == ncclSuccess ? ended : result_;
  }

 private:
  const ncclComm_t communicator_;
  const cudaStream_t stream_;
  ncclResult_t result_;
};

/// Starts the sends and receives of a permutation. Returns whether this process receives something.
bool permute(NcclGroup& messages, const C::Pairs& pairs, int place, const View& x, const View& result) {
  bool gets = false;
  for (const auto& [from, to] : pairs) {
    if (from == place) messages.send(x.data, bytes_of(x), static_cast<int>(to));
    if (to != place) continue;
    messages.receive(result.data, bytes_of(x), static_cast<int>(from));
    gets = true;
  }
  return gets;
}

}  // namespace

NcclOffer nccl_offer(Device device, bool is_first) noexcept {
  NcclOffer offer;
  try {
    CUdevice number = 0;
    CUuuid uuid{};
    if (driver().device_of(&number, device.index) != CUDA_SUCCESS || driver().uuid_of(&uuid, number) != CUDA_SUCCESS)
      refuse(fmt::format("the driver does not say which GPU {} is", device.str()));
    std::memcpy(offer.gpu.data(), &uuid, sizeof uuid);
    ncclUniqueId id{};
    const Functions& functions = nccl();
    if (const ncclResult_t result = is_first ? functions.GetUniqueId(&id) : ncclSuccess; result != ncclSuccess)
      refuse(fmt::format("ncclGetUniqueId: {}", functions.GetErrorString(result)));
    std::memcpy(offer.unique_id.data(), &id, sizeof id);
  } catch (const std::exception& error) {
    std::strncpy(offer.why_not.data(), error.what(), offer.why_not.size() - 1);
  }
  return offer;
}

Nccl::Nccl(Device device, const NcclOffer& first, int place, int size)
    : device(device), unique_id_(first.unique_id), place_(place), size_(size) {}

Nccl::~Nccl() {
  if (communicator_) live_communicators().destroy(communicator_);
}

ncclComm* Nccl::communicator(const Op& op) {
  if (communicator_) {
    ncclResult_t meanwhile = ncclSuccess;
    check(op, nccl().CommGetAsyncError(communicator_, &meanwhile), communicator_, "ncclCommGetAsyncError");
    check(op, meanwhile, communicator_, "a collective before this one");
    return communicator_;
  }
  ncclUniqueId id{};
  std::memcpy(&id, unique_id_.data(), sizeof id);
  check(op, nccl().CommInitRank(&communicator_, size_, id, place_), nullptr, "ncclCommInitRank");
  live_communicators().add(communicator_);
  return communicator_;
}

void Nccl::exchange(void* on, const Op& op, const C& attributes, const View& x, const View& result) {
  ncclComm_t all = communicator(op);
  const auto stream = static_cast<cudaStream_t>(on);
  const auto done = [&](ncclResult_t status, const char* what) { check(op, status, all, what); };
  const auto reduce = [&](ncclRedOp_t by) {
    done(nccl().AllReduce(x.data, result.data, count_of_parts(x), type_of(x.dtype), by, all, stream), "ncclAllReduce");
  };
  if (&op == &op_psum) return reduce(ncclSum);
  if (&op == &op_pmax) return reduce(ncclMax);
  if (&op == &op_pmin) return reduce(ncclMin);
  if (&op == &op_all_gather)
    return done(nccl().AllGather(x.data, result.data, bytes_of(x), ncclInt8, all, stream), "ncclAllGather");
  if (&op == &op_reduce_scatter)
    return done(
        nccl().ReduceScatter(x.data, result.data, count_of_parts(result), type_of(x.dtype), ncclSum, all, stream),
        "ncclReduceScatter");
  NcclGroup messages(all, stream);
  bool gets = true;
  if (&op == &op_ppermute) {
    gets = permute(messages, attributes.pairs, place_, x, result);
  } else {
    const std::size_t bytes = bytes_of(x) / static_cast<std::size_t>(size_);
    for (int other = 0; other < size_; ++other) {
      messages.send(part_of(x, other, bytes), bytes, other);
      messages.receive(part_of(result, other, bytes), bytes, other);
    }
  }
  done(messages.go(), "ncclSend and ncclRecv");
  if (gets) return;
  const auto zeros = make_intrusive<FullAttributes>(Shape(result.shape), result.dtype, 0, device);
  backend_of(device).run(op_full, zeros.get(), {}, {&result, 1});
}

void abort_nccl() noexcept {
  live_communicators().end([](ncclComm_t communicator) { return nccl().CommAbort(communicator); });
}

}  // namespace stave_detail
