// A simulated libnccl.so.2, which uses MPI on the memory of a simulated device (late_device.h).
// A call's work runs when the stream reaches it. Environment variables:
//
//   MADE_UP_FAILS=AllReduce   that call fails
//   MADE_UP_LATE_FAILURE=1    ncclCommGetAsyncError reports an error
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "stream.h"

struct ncclComm {
  MPI_Comm all = MPI_COMM_NULL;
};

namespace {

std::string calls;

// NCCL has global state too: when it is destroyed, no communicator may be left.
struct Globals {
  int communicators = 0;
  bool gone = false;
  ~Globals() {
    gone = true;
    if (communicators == 0) return;
    std::fprintf(stderr, "made up: %d communicators are left at the end\n", communicators);
    std::_Exit(1);
  }
} globals;

void note(const std::string& call) { calls += (calls.empty() ? "" : "; ") + call; }
bool is_set(const char* variable, const char* to) {
  const char* const text = std::getenv(variable);
  return text && std::strcmp(text, to) == 0;
}
ncclResult_t begin(const char* call) { return is_set("MADE_UP_FAILS", call) ? ncclSystemError : ncclSuccess; }

struct Type {
  const char* name;
  std::size_t bytes;
  MPI_Datatype mpi;
};
// The types that Stave may use; for any other type, null.
const Type* type_of(ncclDataType_t type) {
  static const Type int8{"int8", 1, MPI_INT8_T}, uint8{"uint8", 1, MPI_UINT8_T}, int32{"int32", 4, MPI_INT32_T},
      uint32{"uint32", 4, MPI_UINT32_T}, int64{"int64", 8, MPI_INT64_T}, uint64{"uint64", 8, MPI_UINT64_T},
      float32{"float32", 4, MPI_FLOAT}, float64{"float64", 8, MPI_DOUBLE};
  switch (type) {
    case ncclInt8: return &int8;
    case ncclUint8: return &uint8;
    case ncclInt32: return &int32;
    case ncclUint32: return &uint32;
    case ncclInt64: return &int64;
    case ncclUint64: return &uint64;
    case ncclFloat32: return &float32;
    case ncclFloat64: return &float64;
    default: return nullptr;
  }
}
const char* name_of(ncclRedOp_t op) { return op == ncclSum ? "sum" : op == ncclMax ? "max" : "min"; }
MPI_Op op_of(ncclRedOp_t op) { return op == ncclSum ? MPI_SUM : op == ncclMax ? MPI_MAX : MPI_MIN; }

void put(cudaStream_t stream, std::function<void()> work) {
  reinterpret_cast<MadeUpStream*>(stream)->work.push_back(std::move(work));
}
/// A collective call with one block of memory to read and one to write.
template <class F>
ncclResult_t ask(const char* call, const std::string& with, const void* from, void* to, cudaStream_t stream, F work) {
  note(std::string(call) + " " + with);
  if (const ncclResult_t result = begin(call); result != ncclSuccess) return result;
  const void* const x = on_host(from);
  void* const y = on_host(to);
  if (!x || !y) return ncclInvalidArgument;
  put(stream, [=] { work(x, y); });
  return ncclSuccess;
}

// ---- groups ------------------------------------------------------------------------------------

struct Message {
  bool sends;
  void* memory;
  int bytes, other;
  MPI_Comm all;
  cudaStream_t stream;
};
int groups = 0;
std::vector<Message> messages;

ncclResult_t message(const char* call, bool sends, const void* memory, std::size_t count, ncclDataType_t type,
                     int other, ncclComm_t comm, cudaStream_t stream) {
  note(std::string(call) + " " + std::to_string(count) + " " + std::to_string(other));
  if (const ncclResult_t result = begin(call); result != ncclSuccess) return result;
  if (groups == 0 || type != ncclInt8 || !on_host(memory)) return ncclInvalidUsage;
  messages.push_back({sends, on_host(memory), static_cast<int>(count), other, comm->all, stream});
  return ncclSuccess;
}

void exchange(const std::vector<Message>& all) {
  std::vector<MPI_Request> requests(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Message& it = all[i];
    if (it.sends) MPI_Isend(it.memory, it.bytes, MPI_BYTE, it.other, 0, it.all, &requests[i]);
    else MPI_Irecv(it.memory, it.bytes, MPI_BYTE, it.other, 0, it.all, &requests[i]);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// ---- communicators -----------------------------------------------------------------------------

// The tag of messages in MPI_COMM_WORLD, where Stave sends none.
constexpr int tag = 32001;

}  // namespace

extern "C" {
/// The calls since the last call of this function.
const char* made_up_calls() {
  static std::string told;
  told = std::exchange(calls, {});
  return told.c_str();
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  int first = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &first);
  *id = {};
  std::memcpy(id->internal, &first, sizeof first);
  return begin("GetUniqueId");
}
// The first place learns the ranks of the other places and sends them to all.
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int places, ncclUniqueId id, int place) {
  if (const ncclResult_t result = begin("CommInitRank"); result != ncclSuccess) return result;
  int first = 0, mine = 0;
  std::memcpy(&first, id.internal, sizeof first);
  MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  std::vector<int> members(static_cast<std::size_t>(places), mine);
  if (place != 0) {
    const int said[] = {place, mine};
    MPI_Send(said, 2, MPI_INT, first, tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), places, MPI_INT, first, tag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    for (int i = 1; i < places; ++i) {
      int said[2];
      MPI_Recv(said, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      members[static_cast<std::size_t>(said[0])] = said[1];
    }
    for (int i = 1; i < places; ++i)
      MPI_Send(members.data(), places, MPI_INT, members[static_cast<std::size_t>(i)], tag + 1, MPI_COMM_WORLD);
  }
  MPI_Group world, group;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, places, members.data(), &group);
  *comm = new ncclComm;
  MPI_Comm_create_group(MPI_COMM_WORLD, group, tag, &(*comm)->all);
  ++globals.communicators;
  note("CommInitRank " + std::to_string(place) + " of " + std::to_string(places));
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (globals.gone) std::abort();
  note("CommDestroy");
  --globals.communicators;
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  std::fprintf(stderr, "made up: ncclCommAbort\n");
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* result) {
  *result = is_set("MADE_UP_LATE_FAILURE", "1") ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "a system error" : result == ncclRemoteError ? "a remote error" : "an error";
}
const char* ncclGetLastError(ncclComm_t) { return "the cable is out"; }

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const Type* const type = type_of(dtype);
  if (!type) return ncclInvalidArgument;
  // NCCL does not specify max and min for NaN, so Stave must not request them for floats.
  if (op != ncclSum && (dtype == ncclFloat32 || dtype == ncclFloat64)) return ncclInvalidArgument;
  return ask("AllReduce", std::to_string(count) + " " + type->name + " " + name_of(op), from, to, stream,
             [=, all = comm->all](const void* x, void* y) {
               MPI_Allreduce(x, y, static_cast<int>(count), type->mpi, op_of(op), all);
             });
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const Type* const type = type_of(dtype);
  if (!type) return ncclInvalidArgument;
  return ask("ReduceScatter", std::to_string(count) + " " + type->name + " " + name_of(op), from, to, stream,
             [=, all = comm->all](const void* x, void* y) {
               MPI_Reduce_scatter_block(x, y, static_cast<int>(count), type->mpi, op_of(op), all);
             });
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream) {
  const Type* const type = type_of(dtype);
  if (!type) return ncclInvalidArgument;
  return ask("AllGather", std::to_string(count) + " " + type->name, from, to, stream,
             [bytes = static_cast<int>(count * type->bytes), all = comm->all](const void* x, void* y) {
               MPI_Allgather(x, bytes, MPI_BYTE, y, bytes, MPI_BYTE, all);
             });
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("Send", true, from, count, type, to, comm, stream);
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  return message("Recv", false, to, count, type, from, comm, stream);
}
ncclResult_t ncclGroupStart() {
  note("GroupStart");
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  note("GroupEnd");
  if (groups == 0) return ncclInvalidUsage;
  if (--groups > 0 || messages.empty()) return ncclSuccess;
  const cudaStream_t stream = messages[0].stream;
  put(stream, [all = std::exchange(messages, {})] { exchange(all); });
  return begin("GroupEnd");
}
}
