#include <stave/handlers/observe/html_record.h>

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include <stave/core/tensor/label.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/storage.h>
#include <stave/handlers/observe/call_figures.h>

namespace stave_detail {

// ---- threads -----------------------------------------------------------------------------

class HtmlRecord::Listener final : public ReportListener {
 public:
  explicit Listener(HtmlRecord& record) : record_(record) {}
  bool hears(const Call& call) const { return call.as<SowAttributes>().tag == tag(); }

 private:
  void reported(const std::string& name, const Tensor& value) override { record_.add_point(name, value); }
  HtmlRecord& record_;
};

// `running = false` (note.h) permits values with these notes on other threads, as only this record
// reads the notes.
HtmlRecord::Thread::Thread(HtmlRecord& record, int number)
    : number(number), listener(std::make_unique<Listener>(record)) {
  sources.owner().running = false;
}
HtmlRecord::Thread::~Thread() = default;

HtmlRecord::Thread& HtmlRecord::thread_here() {
  return threads_.try_emplace(id_of_this_thread(), *this, static_cast<int>(threads_.size())).first->second;
}

HtmlRecord::HtmlRecord() { device_number(cpu); }
HtmlRecord::~HtmlRecord() = default;

// ---- time between operations -------------------------------------------------------------

namespace {

// Returns the processor time of this thread in nanoseconds.
std::int64_t processor_time() {
  timespec time{};
  return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 ? time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec
                                                            : 0;
}
// The length, in nanoseconds, from which a gap between operations is examined for waiting.
// Reading the processor time takes as long as a small operation, so shorter gaps are not examined.
constexpr std::int64_t long_gap = 50'000;

}  // namespace

// Adds to `waited` the part of a long gap in which the thread used no processor time, because it
// waited or other threads ran in its place.
void HtmlRecord::notice_gap(Thread& thread, Clock::time_point entered) {
  const Nanoseconds begin = since_origin(entered), gap = begin - thread.last_end;
  if (thread.last_end < 0 || thread.sampled < 0 || gap < long_gap) return;
  const Nanoseconds spent = processor_time() - thread.processor;
  thread.waited += std::clamp<Nanoseconds>(begin - thread.sampled - spent, 0, gap);
}
void HtmlRecord::notice_end(Thread& thread, Clock::time_point ended) {
  thread.last_end = since_origin(ended);
  if (thread.sampled >= 0 && thread.last_end - thread.sampled < long_gap) return;
  thread.processor = processor_time();
  thread.sampled = now();
}

// ---- operations --------------------------------------------------------------------------

// Records an operation. A report() becomes a point of a curve instead: its operation is not
// recorded, because the program performs it only for listeners such as this record.
Outputs HtmlRecord::handle(Call& call) {
  if (&call.op() == &op_sow)
    if (Listener& listener = listener_here(); listener.hears(call)) return listener.handle(call);
  const PendingOperation begun = begin(call);
  const auto since_start = [&] { return Clock::now() - begun.start; };
  Outputs outputs;
  Clock::duration time;
  try {
    const auto stopwatch = device_of(call) == cpu ? nullptr : stopwatch_of(call);
    outputs = begun.thread->listener->handle(call);
    time = stopwatch ? std::chrono::duration_cast<Clock::duration>(stopwatch->elapsed()) : since_start();
  } catch (...) {
    end(begun, {}, since_start(), true);
    throw;
  }
  return end(begun, std::move(outputs), time, false);
}

Sowing::Result HtmlRecord::handle(Sowing& sowing) { return listener_here().handle(sowing); }

HtmlRecord::Listener& HtmlRecord::listener_here() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return *thread_here().listener;
}

namespace {

const Storage* storage_of(const Tensor& x) { return x.defined() ? x.node().storage.get() : nullptr; }

}  // namespace

HtmlRecord::PendingOperation HtmlRecord::begin(const Call& call) {
  const Clock::time_point entered = Clock::now();
  const std::string attributes = attributes_of(call);
  const std::vector<NamePtr> scopes = place_of_performer().scopes;
  const Device device = device_of(call);
  PendingOperation begun;
  begun.entered = entered;
  begun.read = bytes_read(call);
  const std::optional<TapeEntry> derived = differentiated_entry();
  if (call.op().view && !call.inputs().empty()) begun.storage = storage_of(call.input(0));
  begun.flops = flops_of(call);
  const std::lock_guard<std::mutex> lock(mutex_);
  begun.number = ++last_number_;
  if (derived) begun.forward = links_.find(*derived);
  links_.add(begun.number);
  Thread& thread = thread_here();
  begun.thread = &thread;
  begun.instance = instance_of(thread, scopes);
  const int scope = begun.instance == none ? none : instances_[static_cast<std::size_t>(begun.instance)][1];
  begun.site = sites_.of({scope, texts_.of(call.op().name)});
  begun.operands = notation_number(call.inputs());
  begun.attributes = texts_.of(attributes);
  begun.device = device_number(device);
  for (const Tensor& input : call.inputs()) {
    begun.sources.push_back(source_of(thread, input));
    see_storage(input);
  }
  if (thread.open++ == 0) notice_gap(thread, entered);
  begun.outer_site = std::exchange(thread.site, begun.site);
  begun.start = Clock::now();
  return begun;
}

Outputs HtmlRecord::end(const PendingOperation& begun, Outputs outputs, Clock::duration time, bool threw) {
  const Clock::time_point ended = Clock::now();
  const std::uint64_t bytes = bytes_of(outputs);
  Thread& thread = *begun.thread;
  int kind = none;
  std::vector<int> storages;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    thread.site = --thread.open == 0 ? none : begun.outer_site;
    const int text = threw ? texts_.of("throws") : notation_number(outputs);
    kind = kind_of({begun.site, begun.attributes, begun.operands, text, begun.device}, bytes);
    const bool is_view = begun.storage && !outputs.empty() && storage_of(outputs[0]) == begun.storage;
    if (!is_view && !threw) kind_moved_[static_cast<std::size_t>(kind)] += begun.read + bytes;
    if (begun.flops) kind_flops_[static_cast<std::size_t>(kind)] = static_cast<double>(*begun.flops);
    operations_.push_back({since_origin(begun.start), std::chrono::nanoseconds(time).count(), begun.number,
                           begun.forward, kind, begun.instance, lanes_.of({thread.number, begun.device})});
    for (std::size_t i = 0; i < begun.sources.size(); ++i)
      if (begun.sources[i][0] != none) ++edges_[{begun.sources[i][0], begun.sources[i][1], kind, static_cast<int>(i)}];
    for (const Tensor& output : outputs) {
      const auto found = live_storage_rows_.find(output.defined() ? output.node().storage.get() : nullptr);
      storages.push_back(found == live_storage_rows_.end() ? none : found->second);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined())
      outputs[i] = thread.sources.put(std::move(outputs[i]), Source{this, kind, static_cast<int>(i), storages[i]});
  const std::lock_guard<std::mutex> lock(mutex_);
  if (thread.open == 0) {
    notice_end(thread, ended);
    thread.own += (begun.start - begun.entered + (Clock::now() - ended)).count();
  }
  return outputs;
}

void HtmlRecord::add_chains(std::string json) {
  const std::lock_guard<std::mutex> lock(mutex_);
  chains_.push_back(std::move(json));
}

std::size_t HtmlRecord::operations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return operations_.size();
}

// Returns the number of the current stay in the innermost scope (its instance). Scopes are compared
// by identity, so two scopes of the same name have different instances.
int HtmlRecord::instance_of(Thread& thread, const std::vector<NamePtr>& scopes) {
  auto& open = thread.scopes;
  const auto name = [&](std::size_t depth) -> const NamePtr& { return scopes[scopes.size() - 1 - depth]; };
  std::size_t common = 0;
  while (common < open.size() && common < scopes.size() && open[common].first == name(common)) ++common;
  while (open.size() > common) open.pop_back();
  for (std::size_t depth = common; depth < scopes.size(); ++depth) {
    const int outer = open.empty() ? none : open.back().second;
    const int outer_scope = outer == none ? none : instances_[static_cast<std::size_t>(outer)][1];
    open.emplace_back(name(depth), static_cast<int>(instances_.size()));
    const int scope = scopes_.of({outer_scope, texts_.of(name(depth)->text)});
    backward_.resize(scopes_.keys.size());
    if (name(depth)->backward) backward_[static_cast<std::size_t>(scope)] = 1;
    instances_.push_back({outer, scope});
  }
  return open.empty() ? none : open.back().second;
}

int HtmlRecord::kind_of(const std::array<int, 5>& kind, std::uint64_t bytes) {
  const int number = kinds_.of(kind);
  kind_bytes_.resize(kinds_.keys.size());
  kind_moved_.resize(kinds_.keys.size());
  kind_flops_.resize(kinds_.keys.size(), -1);
  kind_bytes_[static_cast<std::size_t>(number)] += bytes;
  return number;
}

// Formatting tensors takes longer than all other work of this record, and most texts exist already.
// So the texts are cached by the properties of the tensors that determine them.
int HtmlRecord::notation_number(std::span<const Tensor> xs, const char* before) {
  std::string key = before;
  const auto add = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Tensor& x : xs) {
    add(x.defined());
    if (!x.defined()) continue;
    const NamePtr label = label_of(x.node());
    add(x.dtype());
    add(x.device());
    add(x.rank());
    for (const Index length : x.shape()) add(length);
    add(label ? label->text.size() : 0);
    if (label) key += label->text;
  }
  const auto [found, is_new] = notations_.try_emplace(std::move(key), none);
  if (is_new) found->second = texts_.of(before + notation(xs));
  return found->second;
}

HtmlRecord::Pair HtmlRecord::source_of(const Thread& thread, const Tensor& x) {
  const Source* source = thread.sources.find(x);
  if (!source && threads_.size() > 1)
    for (auto other = threads_.begin(); !source && other != threads_.end(); ++other)
      source = other->second.sources.find(x);
  if (source) return {source->kind, source->output};
  if (!x.defined()) return {none, 0};
  const bool number = x.node().storage && repeats_one_element(x) && !label_of(x.node());
  const int text = notation_number({&x, 1}, number ? "number " : "");
  return {kind_of({none, none, none, text, device_number(x.device())}, 0), 0};
}

// ---- memory ------------------------------------------------------------------------------

int HtmlRecord::device_number(Device device, std::size_t just_made) {
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].device == device) return static_cast<int>(i);
  Backend& backend = backend_of(device);
  const std::size_t live = memory_stats(device).live_bytes;
  devices_.push_back({device, &backend, live > just_made ? live - just_made : 0, now()});
  return static_cast<int>(devices_.size()) - 1;
}

void HtmlRecord::made(const Storage& storage, Device device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto thread = threads_.find(id_of_this_thread());
  const int number = device_number(device, storage.bytes);
  live_storage_rows_[&storage] = static_cast<int>(storages_.size());
  storages_.push_back(
      {now(), -1, storage.bytes, number, thread == threads_.end() ? none : thread->second.site, none, false});
}

void HtmlRecord::freed(const Storage& storage) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_storage_rows_.find(&storage);
  if (found != live_storage_rows_.end()) {
    storages_[static_cast<std::size_t>(found->second)].freed = now();
    live_storage_rows_.erase(found);
    return;
  }
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].backend == storage.owner) try {
        storages_.push_back({devices_[i].first_used, now(), storage.bytes, static_cast<int>(i), none, none, true});
      } catch (const std::bad_alloc&) {  // Without a row, the storage still counts as live.
      }
}

// Adds a storage that existed before this record, when an operation reads it for the first time.
void HtmlRecord::see_storage(const Tensor& x) {
  if (!x.defined() || !x.node().storage || x.node().storage->is_host_constant) return;
  const Storage& storage = *x.node().storage;
  const int device = device_number(x.device());
  const DeviceRow& row = devices_[static_cast<std::size_t>(device)];
  if (storage.owner != row.backend) return;
  const auto [found, is_new] = live_storage_rows_.try_emplace(&storage, static_cast<int>(storages_.size()));
  if (is_new) storages_.push_back({row.first_used, -1, storage.bytes, device, none, none, true});
  int& label = storages_[static_cast<std::size_t>(found->second)].label;
  if (label == none)
    if (const NamePtr name = label_of(x.node())) label = texts_.of(name->text);
}

void HtmlRecord::set_label(int storage, const std::string& label) {
  const std::lock_guard<std::mutex> lock(mutex_);
  storages_[static_cast<std::size_t>(storage)].label = texts_.of(label);
}

// ---- curves ------------------------------------------------------------------------------

void HtmlRecord::add_point(const std::string& name, const Tensor& value) {
  const std::vector<double> numbers = visit_dtype(value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<double> converted;
    for (const T number : read_elements<T>(observed(value)))
      // A complex number is shown by its absolute value.
      if constexpr (ComplexNumber<T>) converted.push_back(std::hypot(number.re, number.im));
      else converted.push_back(static_cast<double>(number));
    return converted;
  });
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  double sum = 0, least = nan, greatest = nan;
  for (const double number : numbers) {
    sum += number;
    least = std::fmin(least, number);  // fmin ignores NaN.
    greatest = std::fmax(greatest, number);
  }
  const double mean = sum / static_cast<double>(numbers.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  points_.push_back({now(), texts_.of(name), static_cast<Index>(numbers.size()), mean, least, greatest});
}

}  // namespace stave_detail
