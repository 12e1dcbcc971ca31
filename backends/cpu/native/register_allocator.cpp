#include <stave/backends/cpu/native/register_allocator.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <unordered_map>

namespace stave_cpu {

// ---- parallel moves -----------------------------------------------------------------------------

namespace {

using Move = std::pair<Location, Location>;  // to, from

bool is_constant(const Location& from) {
  return from.kind == Location::Kind::number || from.kind == Location::Kind::address;
}
std::int64_t key_of(const Location& it) { return static_cast<std::int64_t>(it.kind) << 32 | it.id; }

class MovesAtOnce {
 public:
  MovesAtOnce(std::vector<Move> moves, Moves& by) : moves_(std::move(moves)), by_(by) {}

  void run() {
    for (std::size_t k = 0; k < moves_.size(); ++k) {
      const auto& [to, from] = moves_[k];
      if (from.kind == Location::Kind::nowhere) throw std::logic_error("a value of native code has no place");
      if (is_constant(from) || to == from) continue;
      ++reads_[key_of(from)];
      writer_[key_of(to)] = k;
    }
    pending_.assign(moves_.size(), true);
    for (std::size_t k = 0; k < moves_.size(); ++k) perform_from(k);
    // The moves that still wait form cycles, in which each place is read once.
    for (std::size_t k = 0; k < moves_.size(); ++k)
      if (is_pending(k)) break_cycle(k);
    for (const auto& [to, from] : moves_)
      if (is_constant(from)) by_.move(to, from);
  }

 private:
  bool is_pending(std::size_t k) const {
    return pending_[k] && !is_constant(moves_[k].second) && moves_[k].first != moves_[k].second;
  }
  bool is_read(const Location& place) const {
    const auto found = reads_.find(key_of(place));
    return found != reads_.end() && found->second > 0;
  }
  // Performs move k if no pending move reads its target. Then performs, in the same way, the move
  // that writes to the source of move k, and so on.
  void perform_from(std::size_t k) {
    while (is_pending(k) && !is_read(moves_[k].first)) {
      by_.move(moves_[k].first, moves_[k].second);
      pending_[k] = false;
      --reads_[key_of(moves_[k].second)];
      const auto waiting = writer_.find(key_of(moves_[k].second));
      if (waiting == writer_.end()) return;
      k = waiting->second;
    }
  }
  void break_cycle(std::size_t k) {
    const Location first = moves_[k].second;
    moves_[k].second = by_.save(first);
    reads_[key_of(first)] = 0;
    ++reads_[key_of(moves_[k].second)];
    perform_from(writer_.at(key_of(first)));
  }

  std::vector<Move> moves_;
  Moves& by_;
  std::vector<bool> pending_;
  std::unordered_map<std::int64_t, int> reads_;           // how many pending moves read a place
  std::unordered_map<std::int64_t, std::size_t> writer_;  // the move that writes a place
};

}  // namespace

void move_at_once(std::vector<Move> moves, Moves& by) { MovesAtOnce(std::move(moves), by).run(); }

// ---- registers ----------------------------------------------------------------------------------

RegisterAllocator::RegisterAllocator(const LiveRanges& ranges, RegisterSet allocatable, Moves& by)
    : ranges_(ranges), by_(by), allocatable_(allocatable), states_(static_cast<std::size_t>(ranges.values())) {
  std::fill(values_, values_ + registers, -1);
}

RegisterSet RegisterAllocator::bank_of(int value) const {
  return ranges_.bank(value) == Bank::floating ? floating_registers : general_registers;
}

void RegisterAllocator::begin(int position) {
  position_ = position;
  pinned_ = 0;
  released_ = false;
}

void RegisterAllocator::release(int value) {
  State& it = state(value);
  if (it.register_of >= 0) drop(it.register_of);
  if (it.slot >= 0 && !it.shares_slot) released_slots_.push_back(it.slot);
  it.slot = -1;
  it.stored = it.shares_slot = false;
}

void RegisterAllocator::release_operands() {
  if (!released_)
    for (const int value : ranges_.expiring(position_)) release(value);
  released_ = true;
  pinned_ = 0;
}

void RegisterAllocator::end() {
  release_operands();
  free_slots_.insert(free_slots_.end(), released_slots_.begin(), released_slots_.end());
  released_slots_.clear();
}

// Returns the next position that reads the value, or `never`. The end of a loop that restores the
// value's register counts as a read.
int RegisterAllocator::next_use(int value) {
  State& it = state(value);
  const std::span<const int> uses = ranges_.uses(value);
  const int from = position_ + released_;
  while (it.next_use < static_cast<int>(uses.size()) && uses[static_cast<std::size_t>(it.next_use)] < from)
    ++it.next_use;
  const int next = it.next_use < static_cast<int>(uses.size()) ? uses[static_cast<std::size_t>(it.next_use)] : never;
  if (it.carried_until >= 0 && next > it.carried_until)
    return it.restored_at < it.carried_until ? it.restored_at : never;
  return std::min(next, it.restored_at);
}

// Returns true if the value is carried by a loop, and nothing reads it before the end of the loop,
// where its next value replaces it.
bool RegisterAllocator::is_replaced(int value) { return state(value).carried_until >= 0 && next_use(value) == never; }

// Returns true if the value can be stored where the loop's next step expects it, in the slot of the
// carried value: the step computes it and no longer reads the carried value. (A later step of an
// inner loop might read it, and the current instruction may read it after the store.)
bool RegisterAllocator::can_share_slot(int value, int carried) {
  const int loop = ranges_.loop_at(position_);
  if (carried < 0 || loop < 0 || ranges_.loop_at(ranges_.assigned_at(value)) != loop) return false;
  const State& it = state(carried);
  return it.carried_until == ranges_.loops()[static_cast<std::size_t>(loop)].end && it.kept_at < 0 && it.slot >= 0 &&
         bank_of(carried) == bank_of(value) && is_replaced(carried) &&
         !std::ranges::binary_search(ranges_.uses(carried), position_);
}

Location RegisterAllocator::location(int value) const {
  const State& it = state(value);
  if (it.register_of >= 0) return in_register(it.register_of);
  if (ranges_.is_address(value)) return {Location::Kind::address, value};
  if (ranges_.number(value)) return {Location::Kind::number, value};
  if (it.stored) return in_slot(it.slot);
  return {};
}

void RegisterAllocator::hold(int value, int id) {
  values_[id] = value;
  state(value).register_of = id;
}
void RegisterAllocator::drop(int id) {
  state(values_[id]).register_of = -1;
  values_[id] = -1;
}

int RegisterAllocator::slot_of(int value) {
  State& it = state(value);
  if (it.slot >= 0) return it.slot;
  if (const int carried = ranges_.carried_from(value); can_share_slot(value, carried)) {
    it.shares_slot = true;
    return it.slot = state(carried).slot;
  }
  if (free_slots_.empty()) return it.slot = slots_++;
  it.slot = free_slots_.back();
  free_slots_.pop_back();
  return it.slot;
}

void RegisterAllocator::evict(int id) {
  const int value = values_[id];
  State& it = state(value);
  if (!can_be_read_again(value) && !it.stored && !is_replaced(value)) {
    by_.move(in_slot(slot_of(value)), in_register(id));
    it.stored = true;
  }
  drop(id);
}

int RegisterAllocator::take(RegisterSet bank, int preferred) {
  const RegisterSet candidates = allocatable_ & bank & ~pinned_;
  if (preferred >= 0 && (candidates & set_of(preferred)) != 0) {
    if (values_[preferred] >= 0 && is_replaced(values_[preferred])) drop(preferred);
    if (values_[preferred] < 0) return preferred;
  }
  int best = -1, furthest = -1;
  for (RegisterSet rest = candidates; rest != 0; rest &= rest - 1) {
    const int id = std::countr_zero(rest);
    if (values_[id] < 0) return id;
    // Among values with the same next use, one that need not be stored is spilled.
    const int next = next_use(values_[id]);
    const bool is_free = can_be_read_again(values_[id]) || state(values_[id]).stored;
    if (next > furthest || (next == furthest && is_free)) best = id, furthest = next;
  }
  if (best < 0) throw std::logic_error("native code has no register for a value");
  evict(best);
  return best;
}

int RegisterAllocator::read(int value) {
  int id = state(value).register_of;
  if (id < 0) {
    const Location from = location(value);
    if (from.kind == Location::Kind::nowhere) throw std::logic_error("a value of native code has no place");
    id = take(bank_of(value));
    by_.move(in_register(id), from);
    hold(value, id);
  }
  pinned_ |= set_of(id);
  return id;
}

Location RegisterAllocator::read_anywhere(int value) {
  const Location here = location(value);
  if (here.is_register()) {
    pinned_ |= set_of(here.id);
    return here;
  }
  if (here.kind == Location::Kind::number && ranges_.bank(value) == Bank::general) return here;
  // A value that is read again soon is worth a register that is free.
  const std::span<const int> uses = ranges_.uses(value);
  const auto next = std::upper_bound(uses.begin() + state(value).next_use, uses.end(), position_);
  bool is_free = false;
  for (RegisterSet rest = allocatable_ & bank_of(value) & ~pinned_; rest != 0; rest &= rest - 1)
    is_free |= values_[std::countr_zero(rest)] < 0;
  if (here.kind == Location::Kind::nowhere || (is_free && next != uses.end())) return in_register(read(value));
  return here;
}

int RegisterAllocator::preferred_register(int value) {
  const int carried = ranges_.carried_from(value);
  return carried < 0 || bank_of(carried) != bank_of(value) ? -1 : state(carried).kept_at;
}

int RegisterAllocator::assign(int value) {
  const int id = take(bank_of(value), preferred_register(value));
  hold(value, id);
  return id;
}

void RegisterAllocator::clobber(RegisterSet clobbered) {
  for (int id = 0; id < registers; ++id)
    if ((clobbered & set_of(id)) != 0 && values_[id] >= 0) evict(id);
}

// ---- loops --------------------------------------------------------------------------------------

void RegisterAllocator::carry(int carried, int initial) {
  const Location from = location(initial);
  const bool ends = ranges_.last(initial) == position_;
  release_operands();
  if (from.is_register() && !can_be_read_again(initial) && (ends || is_replaced(initial))) {
    if (!ends) drop(from.id);
    hold(carried, from.id);
    return;
  }
  // If take() evicts `initial` from this register, the register still has the contents.
  const int id = take(bank_of(carried), preferred_register(carried));
  if (from != in_register(id)) by_.move(in_register(id), from);
  hold(carried, id);
}

// Stores values that the loop does not read, as far as the loop needs their registers.
void RegisterAllocator::make_room(const LiveRanges::Loop& loop, Bank bank) {
  const RegisterSet set = allocatable_ & (bank == Bank::floating ? floating_registers : general_registers);
  int excess = loop.pressure[static_cast<int>(bank)] - std::popcount(set);
  for (RegisterSet rest = set; rest != 0; rest &= rest - 1) {
    const int id = std::countr_zero(rest), value = values_[id];
    if (value < 0) continue;
    if (is_replaced(value)) drop(id);
    else if (next_use(value) > loop.end) {
      if (can_be_read_again(value)) drop(id);
      else if (excess-- > 0) evict(id);
    }
  }
}

// Loads values that the loop reads, as far as the loop leaves registers free.
void RegisterAllocator::load_used(const LiveRanges::Loop& loop, Bank bank) {
  const RegisterSet set = allocatable_ & (bank == Bank::floating ? floating_registers : general_registers);
  int spare = std::popcount(set) - loop.pressure[static_cast<int>(bank)];
  for (RegisterSet rest = set; rest != 0; rest &= rest - 1)
    if (const int value = values_[std::countr_zero(rest)]; value >= 0 && can_be_read_again(value)) --spare;
  for (const int value : loop.used) {
    if (spare <= 0) return;
    if (ranges_.bank(value) != bank || state(value).register_of >= 0) continue;
    if (bank == Bank::general && ranges_.number(value)) continue;
    const Location from = location(value);
    RegisterSet free = 0;
    for (RegisterSet rest = set; rest != 0; rest &= rest - 1)
      if (values_[std::countr_zero(rest)] < 0) free |= rest & (0 - rest);
    if (free == 0 || from.kind == Location::Kind::nowhere) continue;
    if (can_be_read_again(value)) --spare;
    by_.move(in_register(std::countr_zero(free)), from);
    hold(value, std::countr_zero(free));
  }
}

int RegisterAllocator::begin_loop(const LiveRanges::Loop& loop) {
  make_room(loop, Bank::general);
  make_room(loop, Bank::floating);
  const int index = ranges_.code().instructions[static_cast<std::size_t>(loop.begin)].result;
  const int id = take(bank_of(index));
  hold(index, id);
  load_used(loop, Bank::general);
  load_used(loop, Bank::floating);
  OpenLoop open;
  // After the first step, the slot does not hold the value that the loop carries.
  state(index).stored = false;
  for (const auto& [carried, next] : loop.next) {
    State& it = state(carried);
    if (it.register_of >= 0) it.stored = false;
    open.carried_until.push_back(it.carried_until);
    it.carried_until = loop.end;
    it.kept_at = it.register_of;
  }
  for (int r = 0; r < registers; ++r) {
    open.values[r] = values_[r];
    if (values_[r] < 0) continue;
    State& it = state(values_[r]);
    open.stored[r] = it.stored;
    open.restored_at[r] = it.restored_at;
    it.restored_at = loop.end;
  }
  open_.push_back(std::move(open));
  return id;
}

void RegisterAllocator::end_loop(const LiveRanges::Loop& loop) {
  const OpenLoop open = std::move(open_.back());
  open_.pop_back();
  std::vector<Move> moves;
  for (const auto& [carried, next] : loop.next) {
    const int id = state(carried).kept_at;
    if (id >= 0 || carried != next)
      moves.emplace_back(id >= 0 ? in_register(id) : in_slot(slot_of(carried)), location(next));
  }
  for (int r = 0; r < registers; ++r)
    if (const int value = open.values[r]; value >= 0 && state(value).carried_until != loop.end)
      moves.emplace_back(in_register(r), location(value));
  move_at_once(std::move(moves), by_);

  for (int r = 0; r < registers; ++r)
    if (values_[r] >= 0) drop(r);
  for (std::size_t k = 0; k < loop.next.size(); ++k) {
    State& it = state(loop.next[k].first);
    it.carried_until = open.carried_until[k];
    it.kept_at = -1;
  }
  for (int r = 0; r < registers; ++r) {
    if (open.values[r] < 0) continue;
    hold(open.values[r], r);
    State& it = state(open.values[r]);
    it.stored = open.stored[r];
    it.restored_at = open.restored_at[r];
  }
}

}  // namespace stave_cpu
