// Executable: a Program prepared for repeated runs. A run goes through no handlers, makes no Call
// and no tensors except its outputs, and allocates only these, besides what single kernels need.
//
// The plan is made once. It lays out views, gives each intermediate value a place in one arena, and
// lists what each kernel reads and writes. Values that are not live at the same time may share a
// place. A run fills in the addresses of inputs and outputs and calls the kernels. If several
// threads run an Executable at the same time, each run has an arena of its own.
//
// A run may also take over the memory of inputs that the caller gives up (donated inputs, JAX's
// donate_argnums): an output that replaces a part of an input is computed in this memory, and so is
// an output of the same size that is computed when the input is not needed any more.
//
// A backend that can record work (Backend::record, such as a CUDA graph) records the kernels when
// inputs and outputs lie at the same addresses as in an earlier run. From then on one call launches
// all kernels. Addresses differ between runs, but they are few: an allocator hands out the memory
// that was freed last, so a loop cycles through two or three sets of addresses. Each set has a
// recording. The alternative, one recording that works on fixed addresses, would copy all inputs
// and outputs in every run.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include <stave/core/program/program.h>
#include <stave/core/tensor/memory_holder.h>

namespace stave_detail {

struct ExecutableSettings {
  const char* name = "compile";  // the name in memory reports (whos); null: it is not in them
  /// over[i] is the index of an input in whose memory output i may be computed, or -1. Output i is
  /// computed there if the program changes only a part of the input, as dynamic_update_slice does.
  /// `over` is only for runs by `Steps`, because the input loses its value; empty: all are -1.
  std::span<const int> over = {};
  /// The indices of donated inputs, only for runs by operator(): the caller does not use these
  /// tensors after a run, even if the run throws DonatedInputLost. A run writes to the memory of
  /// those that have no other owner.
  std::span<const int> donated = {};
  Native native = Native::automatic;
  // Prepares the second inputs of products that are constants (Backend::prepare). Results may then
  // differ in the last digits.
  bool prepares_constants = false;
  // About how many times the program will run (with_native_code). If it runs more often by
  // operator(), the executable compiles more of it to machine code later.
  double runs = 30;
  std::vector<std::string>* native_report = nullptr;  // see with_native_code; null: no report
};

/// Thrown by a run that fails after it has overwritten a donated input. `error` is what the
/// operation threw.
struct DonatedInputLost {
  std::exception_ptr error;
};

/// The addresses of element (0, ..., 0) of each view.
inline std::vector<void*> addresses_of(std::span<const View> views) {
  std::vector<void*> addresses;
  for (const View& view : views) addresses.push_back(view.data);
  return addresses;
}

class Executable {
  struct RunState;

 public:
  /// Plans a program that `admits` accepts, for inputs of these strides. The program should be
  /// `optimized` (passes/passes.h).
  Executable(const Program& program, std::span<const Strides> strides, const ExecutableSettings& settings = {});
  ~Executable();
  Executable(const Executable&) = delete;

  /// Returns true if the program can be planned: all values are on one device, all constants have
  /// storage, and there is no read, no call, no transfer between devices and no user-defined
  /// operation without kernels.
  static bool admits(const Program& program);

  /// Runs the program. The inputs must have the program's shapes, dtypes and device, and the
  /// strides of the plan. Throws what the program's operations throw. Thread-safe.
  Outputs operator()(std::span<const Tensor> inputs) const;

  /// Consecutive runs whose outputs go to addresses that the caller chooses.
  class Steps {
   public:
    /// The outputs of the program must be different arrays that instructions compute, not views.
    /// The executable must outlive this object.
    explicit Steps(const Executable& executable);
    ~Steps();
    Steps(const Steps&) = delete;
    /// Runs the program once, with the addresses of its inputs and outputs. The inputs have the
    /// strides of the plan, and the outputs are row-major. The address of an output that is
    /// computed in the memory of an input is not used. Throws what the program's operations throw.
    void run(std::span<void* const> inputs, std::span<void* const> outputs);

   private:
    const Executable& executable_;
    std::unique_ptr<RunState> active_;
    // output_of_[r]: the index of the program's output that lies in results_[r].
    std::vector<std::size_t> output_of_;
  };

  /// Returns true if this output of the program lies in the memory of an input. In a plan with
  /// ExecutableSettings::over, it is computed there; else it is a view of the input.
  bool is_in_input(std::size_t output) const {
    return places_[static_cast<std::size_t>(outputs_[output])].home == Home::input;
  }

  /// The size of the arena in bytes. The storages of outputs are not part of it.
  std::size_t arena_bytes() const noexcept { return arena_bytes_; }

 private:
  class Planner;  // executable_plan.cpp

  enum class Home : std::uint8_t { input, constant, arena, result };
  // The place of a variable's elements.
  struct Place {
    Home home = Home::arena;
    int number = 0;          // the index of the input, or in constants_ or results_
    std::size_t offset = 0;  // the offset in the arena, in bytes
    // The shape, strides and offset in elements. Unless `home` is `constant`, the tensor has no
    // memory.
    Tensor layout;
  };
  struct Kernel {
    const Op* op;
    AttributesPtr attributes;
    // The kernel's views: the index in `viewed_` of the first one, then how many inputs and outputs
    // there are.
    std::size_t first, inputs, outputs;
    // If `together` is more than 1, this kernel and the `together` - 1 kernels after it form a row
    // block (row_blocks.h), and their arrays have `rows` rows.
    std::size_t together = 1;
    Index rows = 0;
    // For a matmul or convolution: if `together` is 2, the next kernel is its epilogue
    // (Backend::run_product), not a row block.
    bool is_product = false;
    std::shared_ptr<const PreparedInput> prepared{};
  };
  struct Result {
    Shape shape;
    Dtype dtype;
    int donor = -1;  // the index of the donated input whose memory it takes if possible; or -1
  };
  // A view in memory that changes from run to run: each run sets its address to `bytes` bytes after
  // the beginning of input `number`, or of results_[number].
  struct Patch {
    std::size_t view;
    int number;
    Index bytes;
  };

  // What speed_up() needs to construct a faster Executable of the same program: one that expects
  // more runs, so that more machine code pays.
  struct Source;
  void speed_up() const;

  void plan(const Program& program, std::span<const Strides> strides, const ExecutableSettings& settings);

  std::unique_ptr<RunState> take() const;
  void give_back(std::unique_ptr<RunState> active) const;
  bool takes_memory(std::span<const Tensor> inputs) const;
  Inputs with_lent_copied(std::span<const Tensor> inputs) const;
  StoragePtr storage_of(const Result& result, std::span<const Tensor> inputs) const;
  void run(Backend& backend, RunState& active, bool takes) const;
  void run_kernels(Backend& backend, const RunState& active, bool takes) const;
  MemoryHolder::Held held(const std::string& name) const;

  Device device_ = cpu;
  std::vector<Place> places_;  // the place of each variable
  std::vector<Kernel> kernels_;
  std::vector<int> viewed_;  // for each view of a kernel, its variable
  std::vector<Tensor> constants_;
  std::vector<Result> results_;  // the storages of outputs that each run allocates
  std::vector<int> outputs_;     // variables; -1: an empty Tensor
  // The donated inputs in whose memory kernels compute. A run replaces by a copy those that have
  // another owner.
  std::vector<int> written_inputs_;
  // From this kernel on, a donated input may be overwritten when the kernel throws.
  std::size_t overwrites_from_ = static_cast<std::size_t>(-1);
  std::vector<Patch> input_patches_, result_patches_;
  std::size_t arena_bytes_ = 0, prepared_bytes_ = 0;
  mutable std::atomic<RunState*> spare_{nullptr};
  mutable std::atomic<std::size_t> arenas_{0};              // the number of arenas that exist
  mutable std::optional<MemoryHolder> holding_;             // reports the memory to whos
  mutable std::atomic<int> recordings_left_{0};             // how many recordings may still be made
  std::unique_ptr<const Source> source_;                    // null: no faster one will be made
  mutable std::atomic<Index> runs_left_{0};                 // the runs until speed_up(); 0: never
  mutable std::atomic<const Executable*> faster_{nullptr};  // the faster one in its place, or null
};

}  // namespace stave_detail
