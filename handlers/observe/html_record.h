// What an HtmlReport (html_report.h) has seen, in tables of small numbers: rows name texts and each other by their number. The page
// reads them column by column, as html_record_json.cpp writes them.
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
#include <stave/core/tensor/storage_watch.h>
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
  using Nanoseconds = std::int64_t;  // since the record began
  static constexpr int none = -1;

  // Numbers of keys, from 0, as they come.
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
    std::uint64_t number, forward;  // its own, from 1 on; of the operation that it derives; 0: none
    int kind, instance, lane;
  };
  struct DeviceRow {
    Device device;
    const Backend* backend;
    std::size_t bytes;  // that lived when it was first met
    Nanoseconds met;
  };
  struct StorageRow {
    Nanoseconds made, freed;  // freed: -1 if it lives
    std::size_t bytes;
    int device, site, label;
    bool earlier;  // it was there when its device was met
  };
  struct Point {  // of a curve
    Nanoseconds when;
    int name;
    Index elements;
    double mean, least, greatest;
  };
  // Noted on a value: which output it is, of what kind of operation.
  struct Source {
    HtmlRecord* record = nullptr;
    int kind = none, output = 0, storage = none;
    void labelled(const NamePtr& name) const {
      if (storage != none) record->set_label(storage, name->text);
    }
  };
  class Listener;
  // A thread's own part of the handler, and where the thread stands.
  struct Thread {
    Thread(HtmlRecord& record, int number);
    ~Thread();
    const int number;
    const std::unique_ptr<Listener> listener;
    const Notes<Source> sources{"HTML report"};
    std::vector<std::pair<NamePtr, int>> scopes;  // of the last operation, from outside in, each with its instance
    int open = 0;                                 // operations that have not ended
    int site = none;                              // of the last of them
    Nanoseconds own = 0;                          // what this record spent between operations
    Nanoseconds waited = 0;                       // of long times between them, while the thread stood still
    Nanoseconds last_end = -1;                    // of the last operation that lay in no other
    Nanoseconds sampled = -1, processor = 0;      // when the thread's processor time was read, and what it was
  };
  struct Begun {
    Thread* thread = nullptr;
    int site = none, outer_site = none, instance = none, operands = none, attributes = none, device = none;
    std::vector<Pair> sources;  // of each operand: kind, output
    Clock::time_point entered, start;
    std::uint64_t number = 0, forward = 0, read = 0;  // its own; of the operation that it derives; bytes
    const Storage* storage = nullptr;                 // of its first operand
    std::optional<std::uint64_t> flops;
  };

  void made(const Storage& storage, Device device) override;
  void freed(const Storage& storage) noexcept override;
  Listener& listener_here();
  Begun begin(const Call& call);
  Outputs end(const Begun& begun, Outputs outputs, Clock::duration time, bool threw);
  void add_point(const std::string& name, const Tensor& value);
  void set_label(int storage, const std::string& label);

  // What follows is for who holds the mutex. No storage is made or freed meanwhile.
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
  std::unordered_map<std::string, int> notations_;  // texts, by what they are written of
  Numbers<std::map<Pair, int>> scopes_;             // the scope around it, its name
  std::vector<int> backward_;                       // for each scope 1 if it is that of a backward pass
  Numbers<std::map<Pair, int>> sites_;              // scope, the operation's name
  // Site, attributes, operands, outputs, device. Of a value that came in from outside: of all but outputs and device, none.
  Numbers<std::map<std::array<int, 5>, int>> kinds_;
  std::vector<std::uint64_t> kind_bytes_;  // that its operations made
  std::vector<std::uint64_t> kind_moved_;  // bytes that they read and wrote
  std::vector<double> kind_flops_;         // of one of them; -1: unknown
  Numbers<std::map<Pair, int>> lanes_;     // thread, device
  std::vector<Pair> instances_;            // the instance around it, scope
  std::deque<Operation> operations_;       // in the order in which they ended
  std::uint64_t last_number_ = 0;
  ForwardLinks links_;
  std::map<std::array<int, 4>, std::uint64_t> edges_;  // from kind, its output, to kind, its operand: how often
  std::vector<DeviceRow> devices_;
  std::deque<StorageRow> storages_;
  std::unordered_map<const Storage*, int> living_;
  std::vector<Point> points_;
  std::vector<std::string> chains_;  // as JSON
  std::map<const void*, Thread> threads_;
  const WatchingStorage watching_{*this};  // last: it ends first
};

}  // namespace stave_detail
