#include <stave/handlers/observe/run_record.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include <stave/core/op/notation.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

std::uint64_t mixed(std::uint64_t digest, std::uint64_t word) {
  digest = (digest ^ word) * 0x9e3779b97f4a7c15;
  return digest ^ digest >> 32;
}

std::string type_text(Dtype dtype, const Shape& shape) { return notation(nullptr, dtype, shape, cpu); }

// The call as text, without labels and devices.
std::string text_of(const Call& call) {
  std::string text = call.op().name;
  if (const std::string attributes = attributes_of(call); !attributes.empty()) text += " " + attributes;
  const char* between = " ";
  for (const Tensor& input : call.inputs())
    text += std::exchange(between, ", ") + type_text(input.dtype(), input.shape());
  return text;
}

}  // namespace

std::uint64_t number_of_this_thread() noexcept {
  static std::atomic<std::uint64_t> count{0};
  constinit thread_local std::uint64_t number = 0;
  if (number == 0) number = ++count;
  return number;
}

OperationDigests::OperationDigests() : digests_(make_intrusive<NotesState>("run record")) {}

std::uint64_t OperationDigests::digest(const Tensor& x) const {
  if (!x.defined()) return 0;
  if (const std::uint64_t* known = digests_.find(x)) return *known;
  const UnderFrame past_all_handlers(nullptr);
  const Tensor values = contiguous(observed(x));
  const std::size_t bytes = static_cast<std::size_t>(values.size()) * size_of(values.dtype());
  std::vector<std::uint64_t> words((bytes + 7) / 8);
  read_storage(values.node().memory(), words.data(), values.node().data(), bytes);
  std::uint64_t digest = bytes;
  for (const std::uint64_t word : words) digest = mixed(digest, word);
  return digest;
}

std::uint64_t OperationDigests::digest_of_all(std::span<const Tensor> xs) const {
  std::uint64_t all = xs.size();
  for (const Tensor& x : xs) all = mixed(all, digest(x));
  return all;
}

Outputs OperationDigests::perform_described(Call& call, RunOperation& operation) const {
  operation.text = text_of(call);
  operation.operands = digest_of_all(call.inputs());
  for (const NamePtr& scope : place_of_performer().scopes)
    operation.scopes += (operation.scopes.empty() ? "[" : " [") + scope->text + "]";
  Outputs outputs = perform(std::move(call));
  const char* between = " -> ";
  for (Tensor& output : outputs) {
    if (!output.defined()) continue;
    operation.text += std::exchange(between, ", ") + type_text(output.dtype(), output.shape());
    const std::uint64_t of_output = digest(output);
    output = digests_.put(std::move(output), of_output);
  }
  operation.outputs = digest_of_all(outputs);
  return outputs;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

constexpr std::string_view heading = "stave run 1: thread, operands, outputs, operation, scopes, place";

std::string words_of(const std::optional<RunOperation>& operation) {
  if (!operation) return "the run had ended";
  std::string words = fmt::format("{}, outputs {:016x}", operation->text, operation->outputs);
  if (!operation->scopes.empty()) words += ", in " + operation->scopes;
  if (!operation->place.empty()) words += ", at " + operation->place;
  return words;
}

bool same_operation(const RunOperation& a, const RunOperation& b) { return a.text == b.text && a.outputs == b.outputs; }

// A text in a line of columns that tabs separate.
std::string column(std::string text) {
  for (char& c : text)
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  return text;
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  for (std::size_t at = 0;;) {
    const std::size_t end = std::min(line.find('\t', at), line.size());
    columns.push_back(line.substr(at, end - at));
    if (end == line.size()) return columns;
    at = end + 1;
  }
}

template <class T>
bool read_number(const std::string& text, T& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string RunDifference::str() const {
  std::string why;
  if (!recorded || !found) why = "one run performs an operation more";
  else if (recorded->text != found->text) why = "the runs perform different operations";
  else if (recorded->operands == found->operands) why = "the operation gives other bits for equal operands";
  else why = "an operand differs that no observed operation made: an argument or a captured tensor";
  return fmt::format("operation {}: {}. Recorded: {}. This run: {}", number, why, words_of(recorded), words_of(found));
}

// ---- recording ----------------------------------------------------------------------------

Outputs RunRecord::handle(Call& call) {
  CallStack stack = call_stack();
  RunOperation operation;
  Outputs outputs = digests_.perform_described(call, operation);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto thread = threads_.try_emplace(number_of_this_thread(), sequences_.size()).first;
  if (thread->second == sequences_.size()) sequences_.emplace_back();
  const CallStack* const kept = &*stacks_.insert(std::move(stack)).first;
  sequences_[thread->second].push_back({std::move(operation), kept});
  return outputs;
}

void RunRecord::write(const std::string& path) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const CallStack*> stacks;
  for (const CallStack& stack : stacks_) stacks.push_back(&stack);
  SourceLines lines;
  lines.look_up(stacks);
  std::map<const CallStack*, std::string> places;
  for (const CallStack* stack : stacks) {
    const SourceFrame frame = lines.innermost(*stack);
    places[stack] = frame.file.empty() ? "" : frame.str();
  }
  std::ofstream out(path);
  out << heading << "\n";
  for (std::size_t thread = 0; thread < sequences_.size(); ++thread)
    for (const auto& [operation, stack] : sequences_[thread])
      out << fmt::format("{}\t{:016x}\t{:016x}\t{}\t{}\t{}\n", thread, operation.operands, operation.outputs,
                         column(operation.text), column(operation.scopes), column(places[stack]));
  out.close();
  if (!out) fail<FileError>("RunRecord: {} cannot be written", path);
}

// ---- comparing ----------------------------------------------------------------------------

RunComparison::RunComparison(const std::string& path, RunComparisonOptions options) : options_(options) {
  std::ifstream in(path);
  std::string line;
  if (!std::getline(in, line)) fail<FileError>("RunComparison: {} cannot be read", path);
  if (line != heading) fail<FileError>("RunComparison: {} is not a file of RunRecord of this version", path);
  for (std::size_t number = 2; std::getline(in, line); ++number) {
    std::vector<std::string> columns = columns_of(line);
    RunOperation operation;
    std::size_t thread = 0;
    if (columns.size() != 6 || !read_number(columns[0], thread, 10) || thread > sequences_.size() ||
        !read_number(columns[1], operation.operands, 16) || !read_number(columns[2], operation.outputs, 16))
      fail<FileError>("RunComparison: {}, line {}: six columns are expected, the first three of which are numbers",
                      path, number);
    operation.text = std::move(columns[3]);
    operation.scopes = std::move(columns[4]);
    operation.place = std::move(columns[5]);
    if (thread == sequences_.size()) sequences_.emplace_back();
    sequences_[thread].operations.push_back(std::move(operation));
  }
}

// Returns the recorded sequence of a thread that begins with this operation: one that begins with
// the same operation and bits, or else with the same operation, or else any that no other thread
// has. Null: all are taken.
RunComparison::Sequence* RunComparison::sequence_for(const RunOperation& first) {
  const auto find = [&](auto fits) -> Sequence* {
    for (Sequence& sequence : sequences_)
      if (!sequence.taken && fits(sequence.operations[0])) return &sequence;
    return nullptr;
  };
  Sequence* found = find([&](const RunOperation& recorded) { return same_operation(recorded, first); });
  if (!found) found = find([&](const RunOperation& recorded) { return recorded.text == first.text; });
  if (!found) found = find([](const RunOperation&) { return true; });
  if (found) found->taken = true;
  return found;
}

bool RunComparison::differs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return difference_.has_value();
}

Outputs RunComparison::handle(Call& call) {
  if (differs()) return perform(std::move(call));
  RunOperation operation;
  Outputs outputs = digests_.perform_described(call, operation);
  operation.text = column(operation.text);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (difference_) return outputs;
  const auto [thread, is_new] = threads_.try_emplace(number_of_this_thread());
  if (is_new) thread->second = sequence_for(operation);
  Sequence* const sequence = thread->second;
  std::optional<RunOperation> recorded;
  const std::size_t number = sequence ? sequence->next++ : 0;
  if (sequence && number < sequence->operations.size()) recorded = sequence->operations[number];
  if (recorded && same_operation(*recorded, operation)) return outputs;
  SourceLines lines;
  if (const SourceFrame frame = lines.innermost(call_stack()); !frame.file.empty()) operation.place = frame.str();
  difference_ = RunDifference{number, std::move(recorded), std::move(operation)};
  if (options_.stop) fail<RunDifferenceError>("{}", difference_->str());
  return outputs;
}

std::optional<RunDifference> RunComparison::difference() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (difference_) return difference_;
  for (const Sequence& sequence : sequences_)
    if (sequence.next < sequence.operations.size())
      return RunDifference{sequence.next, sequence.operations[sequence.next], std::nullopt};
  return std::nullopt;
}

}  // namespace stave
