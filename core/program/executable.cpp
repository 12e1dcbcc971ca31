#include <stave/core/program/executable.h>

#include <algorithm>

#include <fmt/format.h>

#include <stave/core/op/notation.h>
#include <stave/core/op/outputs.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/native.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

/// The memory that one run at a time uses: the arena, the views of the kernels, and the recordings,
/// which hold addresses in the arena. Later runs use it again.
struct Executable::RunState {
  StoragePtr arena;
  std::vector<View> views;
  std::atomic<std::size_t>& living;
  struct Recorded {
    std::vector<void*> addresses;        // the addresses in inputs and results
    std::unique_ptr<RecordedWork> work;  // null: not recorded, or not yet
  };
  std::vector<Recorded> recorded;  // the most recently used first

  explicit RunState(std::atomic<std::size_t>& counter) : living(counter) { ++living; }
  ~RunState() { --living; }
};

namespace {

constexpr std::size_t most_recorded = 8;
// The most recordings that an Executable ever makes. A recording belongs to an arena. If runs
// overlap, arenas are made and freed, so without a limit there would be recordings again and again.
constexpr int most_recordings = 64;

// Returns the name and the first inputs: "compile(w:f32[64,8], f32[8])".
std::string name_for(const Program& program, const char* name) {
  constexpr std::size_t most = 4;
  std::string inputs;
  for (std::size_t i = 0; i < program.inputs.size() && i < most; ++i) {
    const Program::Variable& it = program.variable(program.inputs[i]);
    inputs += (i ? ", " : "") + notation(it.label, it.dtype, it.shape, it.device);
  }
  if (program.inputs.size() > most) inputs += fmt::format(" and {} more", program.inputs.size() - most);
  return fmt::format("{}({})", name, inputs);
}

bool is_host_constant(const Tensor& x) { return x.defined() && x.node().storage->is_host_constant; }

// Returns x or, if x is a host constant, an array on the device with the same layout. A backend
// accepts a host constant only as an operand of elementwise operations and of copies.
Tensor as_array(const Tensor& x) {
  if (!is_host_constant(x)) return x;
  const UnderFrame past_all_handlers(nullptr);
  const Node& node = x.node();
  const Tensor one = one_number(x);
  return Tensor(
      NodePtr(new Node(node.dtype, node.device, node.shape, node.strides, apply(op_copy, {one}).node().storage)));
}

// Returns true if a result of its size may take the storage of x.
bool may_take(const Tensor& x) { return may_donate(x, x.shape(), x.dtype()); }

}  // namespace

bool Executable::admits(const Program& program) {
  for (const Program::Variable& it : program.variables)
    if (it.device != program.variables[0].device) return false;
  for (const Program::Constant& constant : program.constants)
    if (!constant.value.node().storage) return false;
  return std::none_of(program.instructions.begin(), program.instructions.end(), [](const auto& step) {
    return step.is_read() || step.op->is_higher_order || step.op->id == OpId::to ||
           (step.op->id == OpId::own && !step.op->cpu && !step.op->cuda);
  });
}

struct Executable::Source {
  Program program;
  std::vector<Strides> strides;
  std::vector<int> donated;
  std::string name;
  double runs;
  bool prepares_constants;
};

Executable::Executable(const Program& program, std::span<const Strides> strides, const ExecutableSettings& settings)
    : device_(program.variables.empty() ? cpu : program.variables[0].device) {
  if (device_ == cpu) {
    const NativeProgram native =
        with_native_code(program, strides, settings.native, settings.runs, settings.native_report);
    plan(native.program, strides, settings);
    if (constexpr double most_runs = 1e9; native.more_pays_after < most_runs && settings.over.empty()) {
      source_ = std::make_unique<const Source>(Source{program,
                                                      {strides.begin(), strides.end()},
                                                      {settings.donated.begin(), settings.donated.end()},
                                                      settings.name,
                                                      4 * native.more_pays_after,
                                                      settings.prepares_constants});
      runs_left_ = static_cast<Index>(native.more_pays_after);
    }
  } else {
    plan(program, strides, settings);
  }
  // A loop runs many kernels and allocates memory, so a program that holds one is not recorded.
  const bool has_loop = std::any_of(program.instructions.begin(), program.instructions.end(),
                                    [](const auto& step) { return loop_of(step); });
  recordings_left_ = device_ != cpu && kernels_.size() > 1 && !has_loop ? most_recordings : 0;
  if (settings.name) holding_.emplace([this, name = name_for(program, settings.name)] { return held(name); });
}

// Makes the executable that runs in place of this one from now on. One thread calls it, once.
void Executable::speed_up() const {
  std::unique_ptr<const Executable> faster;
  try {
    faster = std::make_unique<const Executable>(source_->program, source_->strides,
                                                ExecutableSettings{.name = source_->name.c_str(),
                                                                   .donated = source_->donated,
                                                                   .prepares_constants = source_->prepares_constants,
                                                                   .runs = source_->runs});
  } catch (const std::exception&) {  // such as a lack of memory: this executable stays in use
    return;
  }
  faster_.store(faster.release(), std::memory_order_release);
  holding_.reset();
  delete spare_.exchange(nullptr, std::memory_order_acq_rel);
}

Executable::~Executable() {
  holding_.reset();
  delete spare_.load(std::memory_order_acquire);
  delete faster_.load(std::memory_order_acquire);
}

MemoryHolder::Held Executable::held(const std::string& name) const {
  const std::size_t arenas = arenas_;
  MemoryHolder::Held all{name, device_, arenas, arenas * arena_bytes_ + prepared_bytes_, {}};
  for (const Tensor& constant : constants_) all.constants.push_back(constant.node().storage.get());
  return all;
}

std::unique_ptr<Executable::RunState> Executable::take() const {
  if (RunState* spare = spare_.exchange(nullptr, std::memory_order_acq_rel)) return std::unique_ptr<RunState>(spare);
  auto fresh = std::make_unique<RunState>(arenas_);
  // Memory that the function's own runs left in the cache would stay there, beside the arena.
  constexpr std::size_t large = std::size_t{16} << 20;
  if (arena_bytes_ >= large && backend_of(device_).memory_stats().cached_bytes >= arena_bytes_)
    backend_of(device_).release_cached_memory();
  fresh->arena = allocate_storage(device_, uint8, Shape{static_cast<Index>(arena_bytes_)}, "a compiled program");
  for (const int variable : viewed_) {
    const Place& place = places_[static_cast<std::size_t>(variable)];
    const Node& layout = place.layout.node();
    const bool is_number = place.home == Home::constant && layout.storage->is_host_constant;
    View& view = fresh->views.emplace_back(View{nullptr, layout.dtype, layout.shape, layout.strides, is_number});
    if (place.home == Home::constant) view.data = layout.data();
    if (place.home == Home::arena)
      view.data = static_cast<char*>(fresh->arena->data) + place.offset +
                  layout.offset * static_cast<Index>(size_of(layout.dtype));
  }
  return fresh;
}

void Executable::give_back(std::unique_ptr<RunState> active) const {
  delete spare_.exchange(active.release(), std::memory_order_acq_rel);
}

// `takes`: the run writes to the memory of donated inputs.
void Executable::run_kernels(Backend& backend, const RunState& active, bool takes) const {
  const std::span<const View> views(active.views);
  SmallVector<Backend::Step, 1> steps;
  std::size_t k = 0;
  try {
    for (; k < kernels_.size(); k += kernels_[k].together) {
      steps.clear();
      for (const Kernel& kernel : std::span(kernels_).subspan(k, kernels_[k].together))
        steps.push_back({kernel.op, kernel.attributes.get(), views.subspan(kernel.first, kernel.inputs),
                         views.subspan(kernel.first + kernel.inputs, kernel.outputs)});
      if (kernels_[k].is_product) {
        steps[0].prepared = kernels_[k].prepared.get();
        backend.run_product(steps[0], steps.size() > 1 ? &steps[1] : nullptr);
      } else if (steps.size() > 1) {
        backend.run_row_blocks(steps, kernels_[k].rows);
      } else {
        backend.run(*steps[0].op, steps[0].attributes, steps[0].inputs, steps[0].outputs);
      }
    }
  } catch (...) {
    if (!takes || k < overwrites_from_) throw;
    throw DonatedInputLost{std::current_exception()};
  }
}

// Runs the kernels. The second run with the same arena and addresses records the kernels. This run
// and later ones with these addresses repeat the recording. If the backend cannot record, or after
// most_recordings recordings, runs without a recording run the kernels one by one.
void Executable::run(Backend& backend, RunState& active, bool takes) const {
  auto& recorded = active.recorded;
  const bool may_record = recordings_left_ > 0;
  if (!may_record && recorded.empty()) return run_kernels(backend, active, takes);
  std::vector<void*> addresses;
  for (const std::vector<Patch>* const patches : {&input_patches_, &result_patches_})
    for (const Patch& patch : *patches) addresses.push_back(active.views[patch.view].data);
  const auto found = std::find_if(recorded.begin(), recorded.end(),
                                  [&](const RunState::Recorded& it) { return it.addresses == addresses; });
  if (found == recorded.end()) {
    if (may_record) {
      if (recorded.size() == most_recorded) recorded.pop_back();
      recorded.insert(recorded.begin(), {std::move(addresses), nullptr});
    }
    return run_kernels(backend, active, takes);
  }
  std::rotate(recorded.begin(), found, found + 1);
  std::unique_ptr<RecordedWork>& work = recorded.front().work;
  if (!work && may_record) {
    --recordings_left_;
    work = backend.record([&] { run_kernels(backend, active, takes); });
    if (!work) recordings_left_ = 0;
  }
  return work ? work->repeat() : run_kernels(backend, active, takes);
}

Executable::Steps::Steps(const Executable& executable)
    : executable_(executable), active_(executable.take()), output_of_(executable.results_.size()) {
  for (std::size_t i = 0; i < executable.outputs_.size(); ++i) {
    if (executable.is_in_input(i)) continue;
    const Place& place = executable.places_[static_cast<std::size_t>(executable.outputs_[i])];
    output_of_[static_cast<std::size_t>(place.number)] = i;
  }
}
Executable::Steps::~Steps() { executable_.give_back(std::move(active_)); }

void Executable::Steps::run(std::span<void* const> inputs, std::span<void* const> outputs) {
  std::vector<View>& views = active_->views;
  for (const Patch& patch : executable_.input_patches_)
    views[patch.view].data = static_cast<char*>(inputs[static_cast<std::size_t>(patch.number)]) + patch.bytes;
  for (const Patch& patch : executable_.result_patches_)
    views[patch.view].data =
        static_cast<char*>(outputs[output_of_[static_cast<std::size_t>(patch.number)]]) + patch.bytes;
  executable_.run_kernels(backend_of(executable_.device_), *active_, false);
}

// Returns the storage of a result: that of its donor if no other code can see it, else new storage.
StoragePtr Executable::storage_of(const Result& result, std::span<const Tensor> inputs) const {
  if (result.donor >= 0)
    if (const Tensor& donor = inputs[static_cast<std::size_t>(result.donor)]; may_take(donor))
      return donor.node().storage;
  return allocate_storage(device_, result.dtype, result.shape, "a compiled program");
}

// Returns copies of those inputs that the kernels write to and that have another owner, among the
// other inputs. Returns no inputs if there are none of these.
Inputs Executable::with_lent_copied(std::span<const Tensor> inputs) const {
  SmallVector<std::size_t, 4> lent;
  for (const int i : written_inputs_)
    if (!may_take(inputs[static_cast<std::size_t>(i)])) lent.push_back(static_cast<std::size_t>(i));
  Inputs result;
  if (lent.empty()) return result;
  const UnderFrame past_all_handlers(nullptr);
  for (const Tensor& input : inputs) result.push_back(input);
  for (const std::size_t i : lent) result[i] = apply(op_copy, {inputs[i]});
  return result;
}

// Returns true if a run with these inputs writes to the memory of one of them.
bool Executable::takes_memory(std::span<const Tensor> inputs) const {
  const auto is_taken = [&](int i) { return i >= 0 && may_take(inputs[static_cast<std::size_t>(i)]); };
  return std::any_of(written_inputs_.begin(), written_inputs_.end(), is_taken) ||
         std::any_of(results_.begin(), results_.end(), [&](const Result& result) { return is_taken(result.donor); });
}

Outputs Executable::operator()(std::span<const Tensor> inputs) const {
  if (const Executable* const faster = faster_.load(std::memory_order_acquire)) return (*faster)(inputs);
  if (runs_left_.load(std::memory_order_relaxed) > 0 && runs_left_.fetch_sub(1, std::memory_order_relaxed) == 1)
    speed_up();
  Inputs arrays;
  if (device_ != cpu && std::any_of(inputs.begin(), inputs.end(), is_host_constant)) {
    for (const Tensor& input : inputs) arrays.push_back(as_array(input));
    inputs = arrays;
  }
  const bool takes = takes_memory(inputs);
  SmallVector<StoragePtr, 4> made;
  for (const Result& result : results_) made.push_back(storage_of(result, inputs));
  const Inputs apart = with_lent_copied(inputs);
  if (!apart.empty()) inputs = apart;
  std::unique_ptr<RunState> active = take();
  std::vector<View>& views = active->views;
  for (const Patch& patch : input_patches_)
    views[patch.view].data =
        static_cast<char*>(inputs[static_cast<std::size_t>(patch.number)].node().data()) + patch.bytes;
  for (const Patch& patch : result_patches_)
    views[patch.view].data = static_cast<char*>(made[static_cast<std::size_t>(patch.number)]->data) + patch.bytes;
  run(backend_of(device_), *active, takes);
  give_back(std::move(active));

  Outputs outputs;
  for (const int output : outputs_) {
    if (output < 0) {
      outputs.emplace_back();
      continue;
    }
    const Place& place = places_[static_cast<std::size_t>(output)];
    const Node& layout = place.layout.node();
    const auto number = static_cast<std::size_t>(place.number);
    const Node* const input = place.home == Home::input ? &inputs[number].node() : nullptr;
    StoragePtr storage = input ? input->storage : place.home == Home::result ? made[number] : layout.storage;
    outputs.push_back(Tensor(NodePtr(new Node(layout.dtype, device_, layout.shape, layout.strides, std::move(storage),
                                              layout.offset + (input ? input->offset : 0)))));
  }
  return outputs;
}

}  // namespace stave_detail
