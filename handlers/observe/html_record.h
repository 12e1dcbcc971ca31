// The data of an HtmlReport (html_report.h), stored as tables of small numbers. Rows refer to texts
// and to each other by number. The page reads the tables column by column, as html_record_json.cpp
// writes them.
//
//   site      (scope, name of an operation): where in the program operations are performed
//   kind      (site, attributes, operands, outputs, device): operations with the same text
//   instance  one stay in a scope: a scope that is entered twice has two instances
//   lane      (thread, device): a row of the timeline
//   source    (kind, output): which output of which kind of operation a value is
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <iosfwd>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stave/core/op/notation.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/storage_watcher.h>
#include <stave/handlers/model/report.h>
#include <stave/handlers/observe/stepping.h>

namespace stave {

struct HtmlReportOptions;

}  // namespace stave

namespace stave_detail {

class HtmlRecord final : public StorageWatcher {
 public:
  HtmlRecord();
  ~HtmlRecord() override;

  Outputs handle(Call& call);
  Sowing::Result handle(Sowing& sowing);
  std::size_t operations() const;
  void write_json(std::ostream& out, const HtmlReportOptions& options) const;
  void add_chains(std::string json);

 private:
  using Nanoseconds = std::int64_t;  // Time since the record began.
  static constexpr int none = -1;

  // Assigns numbers to keys: 0, 1, 2, ... in the order of their first use.
  template <class Map>
  struct Numbers {
    using Key = typename Map::key_type;
    Map numbers;
    std::vector<const Key*> keys;
    int of(const Key& key) {
      const auto [found, is_new] = numbers.try_emplace(key, static_cast<int>(keys.size()));
      if (is_new) keys.push_back(&found->first);
      return found->second;
    }
  };
  using Pair = std::array<int, 2>;

  struct Operation {
    Nanoseconds start, time;
    // The number of this operation, from 1 on, and that of the operation whose derivative rule
    // performed it, or 0.
    std::uint64_t number, forward;
    int kind, instance, lane;
  };
  struct DeviceRow {
    Device device;
    const Backend* backend;
    // The bytes that were live on the device when it was first used.
    std::size_t bytes;
    Nanoseconds first_used;
  };
  struct StorageRow {
    Nanoseconds made, freed;  // `freed` is -1 if the storage is live.
    std::size_t bytes;
    int device, site, label;
    bool earlier;  // Whether the storage existed when its device was first used.
  };
  struct Point {  // A report() of a value at one time: a point of the curve of its name.
    Nanoseconds when;
    int name;
    Index elements;
    double mean, least, greatest;
  };
  // The note on a value: which output of which kind of operation it is.
  struct Source {
    HtmlRecord* record = nullptr;
    int kind = none, output = 0, storage = none;
    void labelled(const NamePtr& name) const {
      if (storage != none) record->set_label(storage, name->text);
    }
  };
  class Listener;
  // The part of the handler that belongs to one thread, and the state of that thread.
  struct Thread {
    Thread(HtmlRecord& record, int number);
    ~Thread();
    const int number;
    const std::unique_ptr<Listener> listener;
    const Notes<Source> sources{"HTML report"};
    // The scopes of the last operation, outermost first, each with its instance: the number of this
    // stay in the scope.
    std::vector<std::pair<NamePtr, int>> scopes;
    // The number of operations that have begun and not ended.
    int open = 0;
    // The site (scope and operation name) of the innermost operation that has not ended.
    int site = none;
    // The time that this record spent between operations.
    Nanoseconds own = 0;
    // The part of long gaps between operations in which the thread did not run.
    Nanoseconds waited = 0;
    // The end of the last operation that was not nested in another.
    Nanoseconds last_end = -1;
    // The time of the last reading of the thread's processor time, and its value.
    Nanoseconds sampled = -1, processor = 0;
  };
  struct PendingOperation {
    Thread* thread = nullptr;
    int site = none, outer_site = none, instance = none, operands = none, attributes = none, device = none;
    // For each operand, the kind of the operation that yielded it, and the number of the output.
    std::vector<Pair> sources;
    Clock::time_point entered, start;
    // The operation's number, the number of the operation whose derivative rule performed it, and
    // the bytes that the operation reads.
    std::uint64_t number = 0, forward = 0, read = 0;
    // The storage of the first operand, if the operation is a view.
    const Storage* storage = nullptr;
    std::optional<std::uint64_t> flops;
  };

  void made(const Storage& storage, Device device) override;
  void freed(const Storage& storage) noexcept override;
  Listener& listener_here();
  PendingOperation begin(const Call& call);
  Outputs end(const PendingOperation& begun, Outputs outputs, Clock::duration time, bool threw);
  void add_point(const std::string& name, const Tensor& value);
  void set_label(int storage, const std::string& label);

  // The caller of the following functions holds the mutex, and makes and frees no storage.
  Nanoseconds since_origin(Clock::time_point time) const { return (time - origin_).count(); }
  void notice_gap(Thread& thread, Clock::time_point entered);
  void notice_end(Thread& thread, Clock::time_point ended);
  Nanoseconds now() const { return since_origin(Clock::now()); }
  Thread& thread_here();
  int device_number(Device device, std::size_t just_made = 0);
  int notation_number(std::span<const Tensor> xs, const char* before = "");
  int instance_of(Thread& thread, const std::vector<NamePtr>& scopes);
  int kind_of(const std::array<int, 5>& kind, std::uint64_t bytes);
  Pair source_of(const Thread& thread, const Tensor& x);
  void see_storage(const Tensor& x);
  void write_operations(std::ostream& out) const;
  void write_memory(std::ostream& out) const;
  void write_points(std::ostream& out) const;
  void write_head(std::ostream& out, const HtmlReportOptions& options) const;
  std::vector<int> forward_rows(const std::vector<const Operation*>& rows) const;

  const Clock::time_point origin_ = Clock::now();
  mutable std::mutex mutex_;
  Numbers<std::unordered_map<std::string, int>> texts_;
  // Maps the properties of tensors to the number of the text that describes them.
  std::unordered_map<std::string, int> notations_;
  // Keys: (number of the enclosing scope, name).
  Numbers<std::map<Pair, int>> scopes_;
  // For each scope, 1 if it belongs to a backward pass.
  std::vector<int> backward_;
  // Keys: (scope, name of the operation).
  Numbers<std::map<Pair, int>> sites_;
  // Keys: (site, attributes, operands, outputs, device). A value that no recorded operation
  // computed has a key in which only outputs and device are set.
  Numbers<std::map<std::array<int, 5>, int>> kinds_;
  // The bytes that the operations of each kind allocated for outputs.
  std::vector<std::uint64_t> kind_bytes_;
  // The bytes that the operations of each kind read and wrote.
  std::vector<std::uint64_t> kind_moved_;
  // For each kind, the floating-point operations of a single operation; -1 if unknown.
  std::vector<double> kind_flops_;
  // Keys: (thread, device).
  Numbers<std::map<Pair, int>> lanes_;
  // Each entry is one stay in a scope: (instance of the enclosing scope, number of the scope).
  std::vector<Pair> instances_;
  // The operations, in the order in which they ended.
  std::deque<Operation> operations_;
  std::uint64_t last_number_ = 0;
  ForwardLinks links_;
  // How often an operation read a value, by (kind that yielded the value, number of the output,
  // kind that read it, number of the operand).
  std::map<std::array<int, 4>, std::uint64_t> edges_;
  std::vector<DeviceRow> devices_;
  std::deque<StorageRow> storages_;
  std::unordered_map<const Storage*, int> live_storage_rows_;
  std::vector<Point> points_;
  std::vector<std::string> chains_;  // The sections of add_chains(), as JSON.
  std::map<const void*, Thread> threads_;
  // This is the last member, so it is destroyed first: no storage is reported to a destroyed
  // member.
  const WatchingStorage watching_{*this};
};

}  // namespace stave_detail
