// The plan of an Executable: kernels, places in the arena, row blocks, and arrays that kernels
// compute in the memory of an operand. `Planner` makes it in one pass over the program and a few
// over the kernels.

#include <algorithm>
#include <map>

#include <stave/core/ops/layout_rules.h>
#include <stave/core/program/executable.h>
#include <stave/core/program/free_ranges.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/native.h>
#include <stave/core/program/row_blocks.h>

namespace stave_detail {

namespace {

constexpr std::size_t alignment = 64;  // the alignment of arrays in the arena, in bytes

Tensor layout_of(const Program::Variable& it, Strides strides) {
  return layout_tensor(it.dtype, it.device, it.shape, std::move(strides));
}

}  // namespace

// Makes the plan of an Executable. The steps are, in this order: views and kernels, the storages of
// outputs, row blocks, intermediate values in the memory of outputs, and offsets in the arena.
class Executable::Planner {
 public:
  Planner(Executable& plan, const Program& program, std::span<const Strides> strides)
      : plan_(plan), program_(program), base_(program.variables.size()), last_(program.variables.size(), -1),
        is_part_(program.variables.size()) {
    for (std::size_t v = 0; v < base_.size(); ++v) base_[v] = v;
    plan_.places_.resize(program.variables.size());
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      Place& place = place_of(program.inputs[i]);
      place = {Home::input, static_cast<int>(i), 0, layout_of(program.variable(program.inputs[i]), strides[i])};
    }
    for (const auto& [variable, value] : program.constants) {
      place_of(variable) = {Home::constant, static_cast<int>(plan_.constants_.size()), 0, value};
      plan_.constants_.push_back(value);
    }
  }

  void run(const ExecutableSettings& settings) {
    const std::span<const int> over = settings.over;
    for (const auto& step : program_.instructions) add(step);
    for (std::size_t i = 0; i < over.size(); ++i)
      if (over[i] >= 0) compute_in_input(at(program_.outputs[i]), over[i]);
    const bool replaces_parts = std::any_of(plan_.kernels_.begin(), plan_.kernels_.end(),
                                            [](const Kernel& kernel) { return replaces_part(*kernel.op); });
    for (const int input : settings.donated)
      if (replaces_parts && may_be_donated(input)) compute_outputs_in_donated(input);
    for (const int output : program_.outputs)
      if (output >= 0) make_result(base_[at(output)]);
    plan_.outputs_ = program_.outputs;
    ends_ = last_;
    find_blocks();
    if (settings.prepares_constants) prepare();
    start_in_results();
    const std::vector<std::size_t> writers = first_writers();
    for (const int input : settings.donated)
      if (may_be_donated(input)) give_to_result(input, writers);
    lay_out();
    for (std::size_t v = 0; v < plan_.viewed_.size(); ++v) patch(v);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static std::size_t at(int variable) { return static_cast<std::size_t>(variable); }
  Place& place_of(int variable) { return plan_.places_[at(variable)]; }

  void add(const Program::Instruction& step) {
    if (step.op->view) {
      Inputs layouts;
      for (const int input : step.inputs) layouts.push_back(place_of(input).layout);
      if (Tensor view = step.op->view(Call(*step.op, std::move(layouts), step.attributes)); view.defined()) {
        const std::size_t base = base_[at(step.inputs[0])];
        base_[at(step.outputs[0])] = base;
        others_in_[base].push_back(at(step.outputs[0]));
        place_of(step.outputs[0]) = plan_.places_[base];
        place_of(step.outputs[0]).layout = std::move(view);
        return;
      }
    }
    if (step.op->id == OpId::concat && joins_in_place(step)) return;
    std::vector<int> inputs(step.inputs.begin(), step.inputs.end());
    if (!step.op->elementwise && step.op->id != OpId::copy)
      for (int& input : inputs) input = on_device(input);
    if (step.op->id == OpId::own && !step.op->takes_strides)
      for (int& input : inputs) input = row_major(input);
    if (kernel_throws(step)) last_throwing_ = plan_.kernels_.size();
    add_kernel(*step.op, step.attributes, inputs, step.outputs);
  }

  // Places the operands of a concat in the storage of its output, so that no copy is needed.
  // Returns false if that is not possible. The operands must follow each other in the output. Each
  // must be a whole array of its own that a kernel computes and that is not an output of the
  // program. Since kernels write aligned arrays or single elements, each operand must begin at a
  // multiple of the alignment or have one element.
  bool joins_in_place(const Program::Instruction& concat) {
    const auto result = at(concat.outputs[0]);
    const Shape& shape = program_.variable(concat.outputs[0]).shape;
    const auto axis = static_cast<std::size_t>(static_cast<const AxisAttributes&>(*concat.attributes).axis);
    if (std::any_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis), [](Index n) { return n != 1; }))
      return false;
    std::vector<std::size_t> bases;
    std::uint64_t bytes = 0;
    for (const int input : concat.inputs) {
      const std::size_t base = base_[at(input)];
      if (variable(base).shape.elements() != 1 && bytes % alignment != 0) return false;
      bytes += variable(base).bytes();
      const Place& place = place_of(input);
      const bool is_whole = place.home == Home::arena && is_contiguous(place.layout.shape(), place.layout.strides()) &&
                            place.layout.size() == variable(base).shape.elements() && !is_part_[base] &&
                            plan_.places_[base].layout.node().offset == 0;
      const bool is_output = std::any_of(program_.outputs.begin(), program_.outputs.end(),
                                         [&](int output) { return output >= 0 && base_[at(output)] == base; });
      if (!is_whole || is_output || std::find(bases.begin(), bases.end(), base) != bases.end()) return false;
      bases.push_back(base);
    }
    place_of(concat.outputs[0]) = {Home::arena, 0, 0,
                                   layout_of(program_.variable(concat.outputs[0]), contiguous_strides(shape))};
    last_[result] = -1;
    std::vector<std::size_t>& others = others_in_[result];
    Index offset = 0;
    std::size_t next = 0;  // the index in `others` of the next value to move
    for (const std::size_t base : bases) {
      const Index elements = variable(base).shape.elements();
      last_[result] = std::max(last_[result], last_[base]);
      is_part_[base] = true;
      others.push_back(base);
      if (auto moved = others_in_.extract(base))
        others.insert(others.end(), moved.mapped().begin(), moved.mapped().end());
      while (next < others.size()) move_into(others[next++], result, offset);
      offset += elements;
    }
    return true;
  }
  void move_into(std::size_t v, std::size_t result, Index offset) {
    const Node& node = plan_.places_[v].layout.node();
    plan_.places_[v].layout = Tensor(
        NodePtr(new Node(node.dtype, node.device, node.shape, node.strides, node.storage, node.offset + offset)));
    base_[v] = result;
  }

  // Returns a variable with the same value, which an operation that is not elementwise can read:
  // `variable`, or a new constant, an array on the device, if `variable` is a host constant.
  int on_device(int variable) {
    const Tensor layout = place_of(variable).layout;
    if (!layout.node().storage->is_host_constant) return variable;
    const UnderFrame past_all_handlers(nullptr);
    const int array = add_variable(program_.variable(variable));
    place_of(array) = {Home::constant, static_cast<int>(plan_.constants_.size()), 0, apply(op_copy, {layout})};
    plan_.constants_.push_back(place_of(array).layout);
    return array;
  }
  int add_variable(const Program::Variable& like) {
    const auto added = static_cast<int>(plan_.places_.size());
    plan_.places_.push_back({});
    base_.push_back(at(added));
    last_.push_back(-1);
    is_part_.push_back(false);
    extra_.push_back(like);
    return added;
  }

  // Returns a row-major variable with the same value: `variable`, or a copy of it.
  int row_major(int variable) {
    if (place_of(variable).layout.is_contiguous()) return variable;
    const int copy = add_variable(program_.variable(variable));
    const int inputs[] = {variable}, outputs[] = {copy};
    add_kernel(op_copy, nullptr, inputs, outputs);
    return copy;
  }
  const Program::Variable& variable(std::size_t v) const {
    return v < program_.variables.size() ? program_.variables[v] : extra_[v - program_.variables.size()];
  }

  template <class In, class Out>
  void add_kernel(const Op& op, const AttributesPtr& attributes, const In& inputs, const Out& outputs) {
    Kernel kernel{&op, attributes, plan_.viewed_.size(), std::size(inputs), std::size(outputs)};
    const auto kernel_number = static_cast<int>(plan_.kernels_.size());
    for (const int input : inputs) {
      plan_.viewed_.push_back(input);
      last_[base_[at(input)]] = kernel_number;
    }
    for (const int output : outputs) {
      plan_.viewed_.push_back(output);
      const Program::Variable& it = variable(at(output));
      place_of(output) = {Home::arena, 0, 0, layout_of(it, contiguous_strides(it.shape))};
      last_[at(output)] = std::max(last_[at(output)], kernel_number);
    }
    plan_.kernels_.push_back(std::move(kernel));
  }
  std::span<const int> read_by(const Kernel& kernel) const {
    return std::span<const int>(plan_.viewed_).subspan(kernel.first, kernel.inputs);
  }
  std::span<const int> made_by(const Kernel& kernel) const {
    return std::span<const int>(plan_.viewed_).subspan(kernel.first + kernel.inputs, kernel.outputs);
  }

  // Places an output of the program in the memory of an input, if a chain of kernels leads from the
  // input to the output and each kernel may write over its operand in the chain. At least one
  // kernel must replace only a part of its operand: for kernels that compute whole arrays, other
  // memory is as good.
  void compute_in_input(std::size_t output, int input) {
    std::vector<std::size_t> chain;
    bool changes_part = false;
    for (std::size_t v = at(program_.inputs[static_cast<std::size_t>(input)]); v != output; v = chain.back()) {
      if (last_[v] < 0) return;
      const Kernel& kernel = plan_.kernels_[static_cast<std::size_t>(last_[v])];
      const std::span<const int> read = read_by(kernel), made = made_by(kernel);
      const auto operand =
          static_cast<std::size_t>(std::find(read.begin(), read.end(), static_cast<int>(v)) - read.begin());
      const auto reads = std::count_if(read.begin(), read.end(), [&](int other) { return base_[at(other)] == v; });
      if (operand == read.size() || reads != 1 || !may_write_over(kernel, operand)) return;
      const auto is_like_input = [&](int m) {
        return base_[at(m)] == at(m) && !is_part_[at(m)] && place_of(m).home == Home::arena &&
               variable(at(m)).shape == variable(v).shape && variable(at(m)).dtype == variable(v).dtype;
      };
      const auto next = std::find_if(made.begin(), made.end(), is_like_input);
      if (next == made.end()) return;
      changes_part = changes_part || replaces_part(*kernel.op);
      chain.push_back(at(*next));
    }
    // No other output may lie in a value that the chain overwrites, or in `output`.
    const auto is_in_chain = [&](int other) {
      return other >= 0 && (base_[at(other)] == at(program_.inputs[static_cast<std::size_t>(input)]) ||
                            std::find(chain.begin(), chain.end(), base_[at(other)]) != chain.end());
    };
    if (!changes_part || std::count_if(program_.outputs.begin(), program_.outputs.end(), is_in_chain) != 1) return;
    for (const std::size_t v : chain) {
      plan_.places_[v].home = Home::input;
      plan_.places_[v].number = input;
    }
  }

  // ---- donated inputs (ExecutableSettings::donated) ----
  // A kernel may write to the memory of a donated input only if no later kernel throws, because
  // after an error the compiled function itself runs with the inputs. Where memory is short, any
  // kernel throws; then a run throws DonatedInputLost.

  // Returns true if the kernel of this instruction may throw. An update at indices that an earlier
  // update of an array of this shape has checked does not throw.
  bool kernel_throws(const Program::Instruction& step) {
    if (const Program* const native = native_program_of(step))
      return std::any_of(native->instructions.begin(), native->instructions.end(),
                         [](const auto& part) { return may_throw(part); });
    if (dynamic_cast<const FusedAttributes*>(step.attributes.get())) return false;
    if (step.op->id != OpId::dynamic_update_slice) return may_throw(step);
    const bool is_checked = std::any_of(updates_.begin(), updates_.end(), [&](const Program::Instruction* other) {
      return other->inputs[2] == step.inputs[2] &&
             program_.variable(other->inputs[0]).shape == program_.variable(step.inputs[0]).shape &&
             same_attributes(other->attributes.get(), step.attributes.get());
    });
    updates_.push_back(&step);
    return !is_checked;
  }

  // Returns true if the input is row-major, no output is a view of it, and no output is computed in
  // its memory yet.
  bool may_be_donated(int input) const {
    const std::size_t base = at(program_.inputs[static_cast<std::size_t>(input)]);
    return plan_.places_[base].layout.is_contiguous() &&
           std::find(plan_.written_inputs_.begin(), plan_.written_inputs_.end(), input) ==
               plan_.written_inputs_.end() &&
           std::none_of(program_.outputs.begin(), program_.outputs.end(),
                        [&](int output) { return output >= 0 && base_[at(output)] == base; });
  }

  void compute_outputs_in_donated(int input) {
    // The kernel that replaces a part of the input checks its indices before it writes.
    const std::size_t base = at(program_.inputs[static_cast<std::size_t>(input)]);
    if (last_[base] < 0 || (last_throwing_ != none && static_cast<std::size_t>(last_[base]) < last_throwing_)) return;
    for (const int output : program_.outputs) {
      if (output < 0 || plan_.places_[base_[at(output)]].home != Home::arena) continue;
      compute_in_input(base_[at(output)], input);
      if (plan_.places_[base_[at(output)]].home != Home::input) continue;
      plan_.written_inputs_.push_back(input);
      return overwrites_from(static_cast<std::size_t>(last_[base]) + 1);
    }
  }
  void overwrites_from(std::size_t kernel) { plan_.overwrites_from_ = std::min(plan_.overwrites_from_, kernel); }

  // Gives the memory of an input to a result of the same size that is written when no later kernel
  // reads the input.
  void give_to_result(int input, std::span<const std::size_t> writers) {
    const std::size_t base = at(program_.inputs[static_cast<std::size_t>(input)]);
    for (std::size_t r = 0; r < plan_.results_.size(); ++r) {
      Result& result = plan_.results_[r];
      const auto bytes = static_cast<std::uint64_t>(result.shape.elements()) * size_of(result.dtype);
      if (result.donor >= 0 || bytes != variable(base).bytes()) continue;
      const std::size_t first = writers[r];
      if (last_throwing_ != none && first <= last_throwing_) continue;
      const auto last = static_cast<std::size_t>(std::max(last_[base], 0));
      const std::span<const int> made = made_by(plan_.kernels_[first]);
      const bool is_in_place =
          last == first && made.size() == 1 && block_of_[first] == none && may_compute_in(first, at(made[0]), base);
      if (last_[base] >= 0 && last >= first && !is_in_place) continue;
      result.donor = input;
      return overwrites_from(first);
    }
  }
  // Returns for each result the first kernel that writes to its storage, or the first kernel of the
  // row block of that kernel.
  std::vector<std::size_t> first_writers() const {
    std::vector<std::size_t> writers(plan_.results_.size());
    for (std::size_t k = plan_.kernels_.size(); k-- > 0;)
      for (const int made : made_by(plan_.kernels_[k])) {
        const Place& place = plan_.places_[base_[at(made)]];
        if (place.home == Home::result)
          writers[static_cast<std::size_t>(place.number)] = block_of_[k] == none ? k : block_of_[k];
      }
    return writers;
  }

  bool may_write_over(const Kernel& kernel, std::size_t input) const {
    return kernel.op->elementwise ||
           (kernel.op->reuses && plan_.device_ == cpu && kernel.op->reuses(kernel.attributes.get(), input));
  }

  // Places the storage of an output in results_, which each run allocates, unless the storage is
  // that of an input or a constant.
  void make_result(std::size_t base) {
    Place& place = plan_.places_[base];
    if (place.home != Home::arena) return;
    place.home = Home::result;
    place.number = static_cast<int>(plan_.results_.size());
    plan_.results_.push_back({variable(base).shape, variable(base).dtype});
  }

  // ---- row blocks: kernels that run some rows at a time (row_blocks.h) ----

  static constexpr std::size_t most_in_block = 16;
  // The least number of rows for row blocks. A reduction with fewer outputs may divide the elements
  // of a row among threads (few_outputs in backends/cpu/reduce_plan.h), and then rounds differently
  // from a reduction of a block of rows.
  static constexpr Index least_rows = 64;
  // An array of this many bytes or more counts as larger than a cache.
  static constexpr std::uint64_t out_of_cache = std::uint64_t{1} << 19;

  // Returns the number of rows (the length of axis 0) that all arrays of the kernel have; 0 if the
  // kernel does not compute row by row.
  Index rows_of(const Kernel& kernel) {
    const std::span<const int> views =
        std::span<const int>(plan_.viewed_).subspan(kernel.first, kernel.inputs + kernel.outputs);
    if (views.empty()) return 0;
    const Shape& shape = place_of(views[0]).layout.shape();
    if (!computes_rows_separately(*kernel.op, kernel.attributes.get(), shape.rank())) return 0;
    // Row i of an output that is stored as a part of another array may lie in another row of that
    // array.
    const auto is_part = [&](int v) { return bool(is_part_[at(v)]); };
    const std::span<const int> made = made_by(kernel);
    if (std::any_of(made.begin(), made.end(), is_part)) return 0;
    // Other kernels may still need the next rows of an input that this kernel overwrites.
    if (std::any_of(made.begin(), made.end(), [&](int v) { return place_of(v).home == Home::input; })) return 0;
    const auto has_these_rows = [&](int v) {
      const Shape& other = place_of(v).layout.shape();
      return other.rank() > 0 && other[0] == shape[0];
    };
    return std::all_of(views.begin(), views.end(), has_these_rows) ? shape[0] : 0;
  }

  void find_blocks() {
    block_of_.resize(plan_.kernels_.size(), none);
    for (std::size_t first = 0, end; first < plan_.kernels_.size(); first = end) {
      end = first + 1;
      if (is_product(plan_.kernels_[first])) {
        plan_.kernels_[first].is_product = true;
        if (!has_epilogue(first)) continue;
        end = first + 2;
        make_block(first, end, 0);
        continue;
      }
      const Index rows = rows_of(plan_.kernels_[first]);
      if (rows < least_rows || plan_.device_ != cpu) continue;
      const auto joins = [&](const Kernel& kernel) {
        const std::span<const int> read = read_by(kernel);
        return rows_of(kernel) == rows && std::all_of(read.begin(), read.end(), [&](int v) {
                 const std::size_t base = base_[at(v)];
                 return !is_made(base, first, end) ||
                        rows_agree(place_of(v).layout.node(), plan_.places_[base].layout.node());
               });
      };
      while (end < plan_.kernels_.size() && end - first < most_in_block && joins(plan_.kernels_[end])) ++end;
      if (end - first > 1 && reads_again(first, end)) make_block(first, end, rows);
    }
  }

  // Returns true for the operations of Backend::run_product, on the CPU.
  bool is_product(const Kernel& kernel) {
    return plan_.device_ == cpu && (kernel.op->id == OpId::matmul || kernel.op->id == OpId::convolution);
  }
  // Returns true if the kernel after product k is an epilogue, as Backend::run_product describes
  // it. Small products stay in a cache, so they need none.
  bool has_epilogue(std::size_t k) {
    constexpr Index least_elements = 4096;
    if (k + 1 >= plan_.kernels_.size()) return false;
    const int product = made_by(plan_.kernels_[k])[0];
    const Kernel& next = plan_.kernels_[k + 1];
    const Index elements = variable(at(product)).shape.elements();
    if (elements < least_elements || is_part_[at(product)] || next.outputs != 1) return false;
    const auto* fused = dynamic_cast<const FusedAttributes*>(next.attributes.get());
    if (fused ? !fused->region->reductions().empty() : !next.op->elementwise) return false;
    const int made = made_by(next)[0];
    if (variable(at(made)).shape.elements() != elements || is_part_[at(made)] || place_of(made).home == Home::input)
      return false;
    bool reads = false;
    for (const int read : read_by(next)) {
      if (base_[at(read)] != at(product)) continue;
      if (!is_whole_view(read)) return false;
      reads = true;
    }
    return reads;
  }
  bool is_array_constant(int v) {
    return place_of(v).home == Home::constant && !place_of(v).layout.node().storage->is_host_constant;
  }
  // Returns true if the variable has all elements of its base, in the same order.
  bool is_whole_view(int v) {
    const Tensor& layout = place_of(v).layout;
    return layout.node().offset == 0 && layout.size() == variable(base_[at(v)]).shape.elements() &&
           is_contiguous(layout.shape(), layout.strides());
  }
  // Prepares the second inputs of products that are constants.
  void prepare() {
    for (Kernel& kernel : plan_.kernels_) {
      if (!kernel.is_product || !is_array_constant(read_by(kernel)[1])) continue;
      SmallVector<View, 4> views;
      for (const int v : std::span<const int>(plan_.viewed_).subspan(kernel.first, kernel.inputs + kernel.outputs)) {
        const Node& layout = place_of(v).layout.node();
        views.push_back({is_array_constant(v) ? layout.data() : nullptr, layout.dtype, layout.shape, layout.strides});
      }
      const std::span<const View> all(views);
      kernel.prepared =
          backend_of(plan_.device_)
              .prepare({kernel.op, kernel.attributes.get(), all.first(kernel.inputs), all.subspan(kernel.inputs)});
      if (kernel.prepared) plan_.prepared_bytes_ += kernel.prepared->bytes();
    }
  }

  // Returns true if one of the kernels [first, end) writes the storage of variable `base`.
  bool is_made(std::size_t base, std::size_t first, std::size_t end) const {
    for (std::size_t k = first; k < end; ++k)
      for (const int made : made_by(plan_.kernels_[k]))
        if (base_[at(made)] == base) return true;
    return false;
  }

  // Returns true if one of the kernels [first, end) reads an array larger than a cache that an
  // earlier one of them wrote or read.
  bool reads_again(std::size_t first, std::size_t end) const {
    std::map<std::size_t, std::size_t> seen;
    for (std::size_t k = first; k < end; ++k)
      for (const int read : read_by(plan_.kernels_[k])) {
        const std::size_t base = base_[at(read)];
        if (variable(base).bytes() < out_of_cache) continue;
        if (seen.try_emplace(base, k).first->second != k || is_made(base, first, k)) return true;
      }
    return false;
  }

  // Makes the kernels [first, end) a row block: they all run on some rows, then on the next rows.
  // Every array that one of them reads or writes keeps its memory until the last kernel has ended,
  // because the remaining rows still need it.
  void make_block(std::size_t first, std::size_t end, Index rows) {
    plan_.kernels_[first].together = end - first;
    plan_.kernels_[first].rows = rows;
    std::fill(block_of_.begin() + static_cast<std::ptrdiff_t>(first),
              block_of_.begin() + static_cast<std::ptrdiff_t>(end), first);
    for (int& last : last_)
      if (last >= static_cast<int>(first) && last < static_cast<int>(end)) last = static_cast<int>(end) - 1;
  }

  void lay_out() {
    FreeRanges ranges;
    // For each base, the bytes that it holds in the arena: 0 before it has a place, and after the
    // place was freed or taken over by another base.
    std::vector<std::size_t> room(plan_.places_.size());
    std::vector<std::vector<std::size_t>> ending(plan_.kernels_.size());
    for (std::size_t v = 0; v < plan_.places_.size(); ++v)
      if (base_[v] == v && plan_.places_[v].home == Home::arena && last_[v] >= 0)
        ending[static_cast<std::size_t>(last_[v])].push_back(v);
    for (std::size_t k = 0; k < plan_.kernels_.size(); ++k) {
      for (const int made : made_by(plan_.kernels_[k])) {
        const std::size_t base = base_[at(made)];
        Place& place = plan_.places_[base];
        // Another variable in this storage may have reserved the place already.
        if (place.home != Home::arena || room[base] > 0) continue;
        const std::size_t bytes = (variable(base).bytes() + alignment - 1) / alignment * alignment;
        const auto has_room = [&](std::size_t donor) { return room[donor] == bytes; };
        const std::size_t donor = is_part_[at(made)] ? none : donor_for(k, base, has_room);
        place.offset = donor != none ? plan_.places_[donor].offset : ranges.take(bytes);
        if (donor != none) room[donor] = 0;
        room[base] = bytes;
      }
      for (const std::size_t over : ending[k])
        ranges.give_back(plan_.places_[over].offset, std::exchange(room[over], 0));
    }
    plan_.arena_bytes_ = ranges.end();
    for (std::size_t v = 0; v < plan_.places_.size(); ++v)
      if (base_[v] != v) {
        const Place& base = plan_.places_[base_[v]];
        plan_.places_[v].home = base.home;
        plan_.places_[v].number = base.number;
        plan_.places_[v].offset = base.offset;
      }
  }

  // If a kernel may compute an output of the program in the memory of one of the kernel's inputs,
  // moves that input from the arena to the memory of the output.
  void start_in_results() {
    for (std::size_t k = plan_.kernels_.size(); k-- > 0;)
      for (const int made : made_by(plan_.kernels_[k])) {
        const Place& result = place_of(made);
        if (result.home != Home::result || base_[at(made)] != at(made)) continue;
        const std::uint64_t bytes = variable(at(made)).bytes();
        const std::size_t donor = donor_for(k, at(made), [&](std::size_t of) { return variable(of).bytes() == bytes; });
        if (donor == none) continue;
        plan_.places_[donor].home = Home::result;
        plan_.places_[donor].number = result.number;
      }
  }

  // Returns true if kernel k may compute its output `made` in the memory of its input `base`: if it
  // reads the input once, all of it in its order, its operation is elementwise or able to reuse
  // that input (Op::reuses), and both arrays have elements of the same size.
  bool may_compute_in(std::size_t k, std::size_t made, std::size_t base) {
    const Kernel& kernel = plan_.kernels_[k];
    const std::span<const int> read = read_by(kernel);
    const auto is_it = [&](int other) { return base_[at(other)] == base; };
    const auto i = static_cast<std::size_t>(std::find_if(read.begin(), read.end(), is_it) - read.begin());
    if (i == read.size() || std::count_if(read.begin(), read.end(), is_it) != 1) return false;
    // In a row block, the rows of a view are those of its base only if it is the base.
    const bool may_be_view = block_of_[k] == none || plan_.kernels_[block_of_[k]].is_product;
    const bool in_order = at(read[i]) == base || (may_be_view && is_whole_view(read[i]));
    return in_order && may_write_over(kernel, i) && size_of(variable(base).dtype) == size_of(variable(made).dtype);
  }
  // Returns the base of the input of kernel k in whose memory the kernel may compute its output
  // `made` (may_compute_in), or `none`. The kernel must be the last reader of the input, and
  // has_room(input) must be true. If kernel k belongs to a block, an earlier kernel of the same
  // block must have computed the input, so that both arrays have the same rows.
  template <class HasRoom>
  std::size_t donor_for(std::size_t k, std::size_t made, const HasRoom& has_room) {
    for (const int input : read_by(plan_.kernels_[k])) {
      const std::size_t base = base_[at(input)];
      if (plan_.places_[base].home != Home::arena) continue;
      if (ends_[base] != static_cast<int>(k) || !has_room(base)) continue;
      if (block_of_[k] != none && !is_made(base, block_of_[k], k)) continue;
      if (may_compute_in(k, made, base)) return base;
    }
    return none;
  }

  void patch(std::size_t view) {
    const Place& place = place_of(plan_.viewed_[view]);
    const Index bytes = place.layout.node().offset * static_cast<Index>(size_of(place.layout.dtype()));
    if (place.home == Home::input) plan_.input_patches_.push_back({view, place.number, bytes});
    if (place.home == Home::result) plan_.result_patches_.push_back({view, place.number, bytes});
  }

  Executable& plan_;
  const Program& program_;
  // For each variable, its base: the variable in whose storage it lies, often the variable itself.
  std::vector<std::size_t> base_;
  // For each base, the other variables in its storage.
  std::map<std::size_t, std::vector<std::size_t>> others_in_;
  // ends_: for each base, the last kernel that reads or writes its storage. last_: for each base,
  // the kernel until whose end its storage must not be reused, which is the kernel in ends_ or, if
  // that kernel belongs to a row block, the last kernel of the block.
  std::vector<int> ends_, last_;
  // True for a variable that is computed in a part of the storage of another variable.
  std::vector<bool> is_part_;
  // The variables that the planner adds, which are numbered after those of the program.
  std::vector<Program::Variable> extra_;
  // For each kernel, the first kernel of its row block, or `none`.
  std::vector<std::size_t> block_of_;
  std::size_t last_throwing_ = none;                  // the last kernel that may throw
  std::vector<const Program::Instruction*> updates_;  // the dynamic_update_slice so far
};

void Executable::plan(const Program& program, std::span<const Strides> strides, const ExecutableSettings& settings) {
  Planner(*this, program, strides).run(settings);
}

}  // namespace stave_detail
