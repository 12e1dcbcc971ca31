// Progress bars: the list of loops, the layout of their lines, and a terminal on which the bars
// stay below all other text.
#include <stave/handlers/model/report.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <stave/core/ops/scoped_name.h>
#include <stave/handlers/model/terminal.h>

namespace stave {

using namespace stave_detail;

namespace {

// ---- loops ------------------------------------------------------------------------------

struct Loop {
  std::string name;
  long done = 0, total = 0;
  // The value of `done` when the loop began.
  long first = 0;
  // The time at which the loop began, in seconds.
  double began = 0;
  // The time of the loop's last report, in seconds.
  double latest = 0;

  bool ended() const { return done == total; }
};

// The loops in progress, outermost first.
class Loops {
 public:
  void update(const std::string& name, long done, long total, double now) {
    Loop* loop = find(name, done, total);
    if (!loop) {
      if (loops_.size() == most) loops_.pop_back();
      loop = &loops_.emplace_back(Loop{name, done, total, done, now, now});
    }
    if (done < loop->done) {  // the loop has started again
      loop->first = done;
      loop->began = now;
    }
    loop->done = done;
    loop->total = total;
    loop->latest = now;
  }
  bool all_ended() const {
    return std::all_of(loops_.begin(), loops_.end(), [](const Loop& loop) { return loop.ended(); });
  }
  const std::vector<Loop>& all() const { return loops_; }
  void clear() { loops_.clear(); }

 private:
  // Returns the loop that a report belongs to, or null if the loop is new. A loop with a name is
  // identified by its name. A loop without a name is identified by its total. If that total changes
  // between two runs of the loop, as the number of batches per epoch may, the innermost loop
  // is reused if it has at most one step left.
  Loop* find(const std::string& name, long done, long total) {
    const bool named = !name.empty();
    for (Loop& loop : loops_)
      if (loop.name == name && (named || loop.total == total)) return &loop;
    if (named || loops_.size() < 2 || done > 1) return nullptr;
    Loop& last = loops_.back();
    return last.name.empty() && last.done + 1 >= last.total ? &last : nullptr;
  }

  // The maximal number of loops, each of which takes one line.
  static constexpr std::size_t most = 8;
  std::vector<Loop> loops_;
};

// ---- lines ------------------------------------------------------------------------------

// Formats a duration: "0:05", "1:02:03", "2d 3h".
std::string in_clock_digits(double seconds) {
  const auto whole = static_cast<long>(std::lround(std::min(seconds, 1e9)));
  if (whole >= 86400) return fmt::format("{}d {}h", whole / 86400, whole / 3600 % 24);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// Formats a speed: "12.3/s", "2.17 s/step".
std::string rate_in_words(double per_second) {
  if (per_second >= 999.5) return fmt::format("{:.0f}/s", per_second);
  return per_second >= 1 ? fmt::format("{:.3g}/s", per_second) : fmt::format("{:.3g} s/step", 1 / per_second);
}

// The parts of the line of one loop.
struct Line {
  std::string name, percent, count, rate, time;
  double part = 0;
  std::size_t widest_count = 0;

  explicit Line(const Loop& loop) : name(loop.name) {
    const double elapsed = loop.latest - loop.began;
    const auto steps = static_cast<double>(loop.done - loop.first);
    const double speed = elapsed > 0 && steps > 0 ? steps / elapsed : 0;
    if (speed > 0) rate = rate_in_words(speed);
    if (loop.total > 0 || loop.ended()) {
      part = loop.ended() ? 1 : std::clamp(static_cast<double>(loop.done) / static_cast<double>(loop.total), 0., 1.);
      percent = fmt::format("{:3}%", static_cast<int>(part * 100));
      count = fmt::format("{}/{}", loop.done, loop.total);
      if (loop.ended()) time = elapsed < 9.95 ? fmt::format("in {:.1f} s", elapsed) : "in " + in_clock_digits(elapsed);
      else if (speed > 0 && loop.done < loop.total)
        time = in_clock_digits(static_cast<double>(loop.total - loop.done) / speed) + " left";
    } else {
      count = std::to_string(loop.done);
    }
    if (loop.ended() && elapsed <= 0) time = "";
    widest_count = std::max(count.size(), loop.total > 0 ? 2 * std::to_string(loop.total).size() + 1 : 0);
  }
};

constexpr std::string Line::*parts_of_line[] = {&Line::name, &Line::percent, &Line::count, &Line::rate, &Line::time};

// Formats a loop without a bar and without the parts that are empty.
std::string description_of(const Loop& loop) {
  const Line line(loop);
  std::string text;
  for (const auto part : parts_of_line)
    if (std::string word = line.*part; !word.empty()) {
      word.erase(0, std::min(word.find_first_not_of(' '), word.size()));
      text += (text.empty() ? "" : " ") + word;
    }
  return text;
}

// The widths of the parts of a line; a width of 0 omits the part. All loops share the widths, so
// their bars are aligned. `rate` and `time` have minimal widths, so that bars stay in place from
// one drawing to the next.
struct Layout {
  std::size_t name = 0, percent = 0, count = 0, rate = 6, time = 9, bar = 0;

  Layout(const std::vector<Line>& lines, std::size_t columns) {
    for (const Line& line : lines) {
      name = std::max(name, columns_of(line.name));
      percent = std::max(percent, line.percent.size());
      count = std::max(count, line.widest_count);
      rate = std::max(rate, line.rate.size());
      time = std::max(time, line.time.size());
    }
    const auto taken = [&] {
      std::size_t sum = 0;
      for (const std::size_t width : {name, percent, count, rate, time}) sum += width ? width + 1 : 0;
      return sum;
    };
    // The minimal width of a bar, with its brackets.
    const std::size_t smallest = 8;
    name = std::min(name, std::max<std::size_t>(columns / 3, 8));
    const auto shorten = [&](std::size_t& width) {
      const std::size_t all = taken();
      if (all > columns) width -= std::min(width, all - columns);
    };
    if (taken() + smallest > columns) rate = 0;
    if (taken() > columns) time = 0;
    shorten(name);
    shorten(percent);
    if (percent == 0) return;
    bar = taken() + smallest <= columns ? columns - taken() - 2 : 0;
  }

  std::string text(const Line& line) const {
    std::string text;
    const auto add = [&](const std::string& part, std::size_t width, bool right = false) {
      if (width == 0) return;
      const std::string fitting(cut(part, width));
      const std::size_t blanks = width - columns_of(fitting);
      text += (text.empty() ? "" : " ") + (right ? std::string(blanks, ' ') + fitting : padded(fitting, width));
    };
    add(line.name, name);
    add(line.percent, percent);
    if (bar) {
      const auto full = static_cast<std::size_t>(line.part * static_cast<double>(bar));
      const bool known = !line.percent.empty();
      add(known ? "[" + std::string(full, '#') + std::string(bar - full, '.') + "]" : "", bar + 2);
    }
    add(line.count, count, true);
    add(line.rate, rate);
    add(line.time, time);
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }
};

std::vector<std::string> rendered(const std::vector<Loop>& loops, std::size_t columns) {
  const std::vector<Line> lines(loops.begin(), loops.end());
  const Layout layout(lines, columns);
  std::vector<std::string> texts;
  for (const Line& line : lines) texts.emplace_back(cut(layout.text(line), columns));
  return texts;
}

// ---- uncaught exceptions ----------------------------------------------------------------

// The number of PrintProgress objects whose terminal has a bar as its last line. If it is not 0,
// the terminate handler begins a new line before std::terminate prints its message.
constinit std::atomic<int> bars_in_line = 0;
constinit std::mutex terminates;
// The number of PrintProgress objects that need the terminate handler.
constinit int terminating = 0;
constinit std::terminate_handler terminate_before = nullptr;

void terminate_in_a_new_line() {
  if (bars_in_line > 0) static_cast<void>(!write(STDERR_FILENO, "\n", 1));
  if (terminate_before) terminate_before();
  std::abort();
}

struct TerminatesInANewLine {
  TerminatesInANewLine() {
    const std::lock_guard lock(terminates);
    if (terminating++ == 0) terminate_before = std::set_terminate(terminate_in_a_new_line);
  }
  ~TerminatesInANewLine() {
    const std::lock_guard lock(terminates);
    if (--terminating == 0 && std::get_terminate() == terminate_in_a_new_line) std::set_terminate(terminate_before);
  }
  TerminatesInANewLine(const TerminatesInANewLine&) = delete;
  TerminatesInANewLine& operator=(const TerminatesInANewLine&) = delete;
};

}  // namespace

// ---- bars -------------------------------------------------------------------------------

// Draws the bars in the last lines of a terminal. Each drawing overwrites the one before, and the
// bars are erased before other text is written. If the stream cannot be redrawn, prints one line
// after the other instead.
class PrintProgress::Bars {
 public:
  Bars(std::ostream& out, const ProgressOptions& options)
      : options_(options), descriptor_(descriptor_of(out)),
        redraws_(options.redraw.value_or(moves_cursor(descriptor_))), out_(out), to_(out.rdbuf()) {
    if (!redraws_) return;
    intercept(out);
    if (!moves_cursor(descriptor_)) return;
    terminates_.emplace();
    for (std::ostream* other : {&std::cout, &std::cerr, &std::clog})
      if (other != &out && moves_cursor(descriptor_of(*other))) intercept(*other);
  }
  ~Bars() {
    for (const auto& other : intercepted_) other->restore();
    if (line_widths_.empty()) return;
    draw();  // Shows the final state.
    end_lines();
  }
  Bars(const Bars&) = delete;
  Bars& operator=(const Bars&) = delete;

  void update(const std::string& name, const Progress& progress) {
    const std::lock_guard lock(mutex_);
    const double now = time();
    loops_.update(name, progress.done, progress.total, now);
    const bool all_end = loops_.all_ended();
    if (!redraws_) {
      if (!last_) last_ = now;
      if (all_end || now - *last_ >= options_.every) write_line(now);
    } else if (!last_ || all_end || now - *last_ >= 0.1) {
      if (line_unfinished_) put("\n");
      line_unfinished_ = false;
      draw();
      last_ = now;
    }
    if (!all_end) return;
    end_lines();
    loops_.clear();
    if (redraws_) last_.reset();
  }

 private:
  // A stream buffer that replaces the buffer of a stream. It erases the bars, writes the text to
  // the replaced buffer, and draws the bars again under the text.
  class TextAbove final : public std::streambuf {
   public:
    TextAbove(Bars& bars, std::ostream& out) : bars_(bars), out_(out), to_(out.rdbuf(this)) {}
    void restore() {
      if (out_.rdbuf() == this) out_.rdbuf(to_);
    }

   private:
    int_type overflow(int_type c) override {
      if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
      const char one = traits_type::to_char_type(c);
      return xsputn(&one, 1) == 1 ? c : traits_type::eof();
    }
    std::streamsize xsputn(const char* text, std::streamsize size) override {
      return size > 0 ? bars_.write_above(*to_, text, size) : 0;
    }
    int sync() override { return to_->pubsync(); }

    Bars& bars_;
    std::ostream& out_;
    std::streambuf* const to_;
  };

  void intercept(std::ostream& out) {
    if (!dynamic_cast<TextAbove*>(out.rdbuf())) intercepted_.push_back(std::make_unique<TextAbove>(*this, out));
  }

  std::streamsize write_above(std::streambuf& to, const char* text, std::streamsize size) {
    const std::lock_guard lock(mutex_);
    erase();
    const std::streamsize written = to.sputn(text, size);
    line_unfinished_ = text[size - 1] != '\n';
    if (!line_unfinished_ && !loops_.all().empty()) {
      to.pubsync();
      draw();
    }
    return written;
  }

  double time() const {
    using namespace std::chrono;
    return options_.seconds ? options_.seconds() : duration<double>(steady_clock::now().time_since_epoch()).count();
  }
  void put(const std::string& text) {
    to_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
    to_->pubsync();
  }
  std::size_t columns() const {
    const std::size_t now = columns_of_terminal(descriptor_).value_or(80);
    return options_.columns > 0 ? static_cast<std::size_t>(options_.columns) : now;
  }

  // Returns the number of screen rows that the bars take. It exceeds the number of bars if the
  // terminal has become narrower and wraps their lines.
  std::size_t rows() const {
    const std::size_t width = std::max<std::size_t>(columns(), 1);
    std::size_t rows = 0;
    for (const std::size_t length : line_widths_) rows += std::max<std::size_t>((length + width - 1) / width, 1);
    return rows;
  }
  static std::string up(std::size_t rows) { return rows > 0 ? fmt::format("\r\x1b[{}A", rows) : "\r"; }
  // Returns the text that moves the cursor to the beginning of the bars and erases them.
  // It does not use "clear to the end of the screen", because some terminals keep the cleared text
  // in their history if nothing else is on the screen.
  std::string without_bars() const {
    const std::size_t last = std::max<std::size_t>(rows(), 1) - 1;
    std::string text = up(last);
    for (std::size_t row = 0; row < last; ++row) text += "\x1b[K\n";
    return text + "\x1b[K" + up(last);
  }
  void draw() {
    const std::vector<std::string> lines = rendered(loops_.all(), std::max<std::size_t>(columns(), 2) - 1);
    std::string text = line_widths_.empty() ? "\r" : rows() > lines.size() ? without_bars() : up(rows() - 1);
    if (line_widths_.empty() && terminates_) ++bars_in_line;
    line_widths_.clear();
    for (const std::string& line : lines) {
      text += (line_widths_.empty() ? "" : "\n") + line + "\x1b[K";
      line_widths_.push_back(columns_of(line));
    }
    put(text);
  }
  void erase() {
    if (line_widths_.empty()) return;
    put(without_bars());
    forget_lines();
  }
  void end_lines() {
    if (line_widths_.empty()) return;
    put("\n");
    forget_lines();
  }
  void forget_lines() {
    line_widths_.clear();
    if (terminates_) --bars_in_line;
  }
  void write_line(double now) {
    std::string text;
    for (const Loop& loop : loops_.all()) text += (text.empty() ? "" : "; ") + description_of(loop);
    out_ << text + "\n" << std::flush;
    last_ = now;
  }

  const ProgressOptions options_;
  const int descriptor_;
  const bool redraws_;
  std::ostream& out_;
  // The original buffer of `out_`. Bars are written to it directly, not through a TextAbove.
  std::streambuf* const to_;
  std::vector<std::unique_ptr<TextAbove>> intercepted_;
  std::optional<TerminatesInANewLine> terminates_;

  std::mutex mutex_;  // Guards the members below.
  Loops loops_;
  // The widths of the lines on the screen; the cursor is at the end of the last one.
  std::vector<std::size_t> line_widths_;
  // The time at which bars were last drawn or a line was last printed; empty before the first time.
  std::optional<double> last_;
  // True if the last output was text of the program, and the text does not end with a newline.
  bool line_unfinished_ = false;
};

void progress(long done, long total, std::string name) { perform(Progress{done, total, std::move(name)}); }

PrintProgress::PrintProgress(const ProgressOptions& options) : PrintProgress(std::cerr, options) {}
PrintProgress::PrintProgress(std::ostream& out, const ProgressOptions& options)
    : bars_(std::make_unique<Bars>(out, options)) {}
PrintProgress::~PrintProgress() = default;

void PrintProgress::handle(Progress& progress) {
  std::string name = scoped_name(progress.name);
  // A loop without a name is named after its scopes: "train/" becomes "train".
  if (progress.name.empty() && !name.empty()) name.pop_back();
  bars_->update(name, progress);
}

}  // namespace stave
