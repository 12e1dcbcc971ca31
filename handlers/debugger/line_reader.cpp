#include <stave/handlers/debugger/line_reader.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <termios.h>
#include <unistd.h>

#include <stave/handlers/model/terminal.h>

namespace stave_detail {

namespace {

class RawMode {
 public:
  RawMode() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IXON);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    // TCSADRAIN keeps text that was typed ahead.
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  }
  ~RawMode() { tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
};

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Returns a byte of input; -1 at the end.
int get() {
  char c = 0;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got == 1) return static_cast<unsigned char>(c);
    if (got == 0 || errno != EINTR) return -1;
  }
}

std::size_t width_of_terminal() { return columns_of_terminal(STDOUT_FILENO).value_or(80); }

constexpr int control(char key) { return key & 0x1f; }
constexpr int backspace = 0x7f, escape = 0x1b;

// Reads the rest of an escape sequence. Returns the control key with the same meaning; 0 for none.
int after_escape() {
  const int kind = get();
  if (kind != '[' && kind != 'O') return 0;
  std::string parameters;
  int c = get();
  for (; (c >= '0' && c <= '9') || c == ';'; c = get()) parameters += static_cast<char>(c);
  switch (c) {
    case 'A': return control('P');
    case 'B': return control('N');
    case 'C': return control('F');
    case 'D': return control('B');
    case 'H': return control('A');
    case 'F': return control('E');
    case '~':
      if (parameters == "1" || parameters == "7") return control('A');
      if (parameters == "4" || parameters == "8") return control('E');
      return parameters == "3" ? control('D') : 0;
    default: return 0;
  }
}

// The line that is being typed.
class Line {
 public:
  Line(const std::string& prompt, const std::vector<std::string>& history, const LineReader::Complete& complete)
      : prompt_(prompt), history_(history), complete_(complete) {
    begin_anew();
  }

  /// Returns the line after Enter; nothing at the end of input.
  std::optional<std::string> read() {
    for (;;) {
      show();
      int key = get();
      if (key == control('R') && (key = search()) == 0) continue;
      // The Delete key must not be taken for Ctrl-D on an empty line.
      if (key == escape && (key = after_escape()) == control('D')) {
        erase(cursor_, after(cursor_));
        continue;
      }
      if (key < 0 || (key == control('D') && text().empty())) return std::nullopt;
      if (key == '\r' || key == '\n') return text();
      press(key);
    }
  }

 private:
  std::string& text() { return lines_[at_]; }
  std::size_t back() {
    std::size_t place = cursor_;
    while (place > 0 && is_utf8_continuation(text()[--place])) {
    }
    return place;
  }
  std::size_t after(std::size_t place) {
    place = std::min(place + 1, text().size());
    while (place < text().size() && is_utf8_continuation(text()[place])) ++place;
    return place;
  }
  std::size_t start_of_word() {
    const auto is_blank = [&](std::size_t i) { return text()[i] == ' '; };
    std::size_t place = cursor_;
    while (place > 0 && is_blank(place - 1)) --place;
    while (place > 0 && !is_blank(place - 1)) --place;
    return place;
  }
  void erase(std::size_t from, std::size_t to) {
    text().erase(from, to - from);
    cursor_ = from;
  }
  void insert(std::string_view typed) {
    text().insert(cursor_, typed);
    cursor_ += typed.size();
  }
  void begin_anew() {
    lines_ = history_;
    lines_.emplace_back();
    go_to_line(lines_.size() - 1);
  }
  void go_to_line(std::size_t line) {
    at_ = line;
    cursor_ = text().size();
  }

  // Searches for an earlier line that contains the typed text. ^R continues to an earlier match;
  // ^G and ^C restore the line before the search. Any other control key ends the search
  // and is returned, to be applied to the line found; 0 means none.
  int search() {
    const std::size_t line_before = at_, cursor_before = cursor_;
    std::string wanted;
    for (;;) {
      show("(search `" + wanted + "') ");
      const int key = get();
      if (key == control('R')) {
        if (at_ == 0 || !find_up_from(at_ - 1, wanted)) put("\a");
      } else if (key == backspace || key == control('H')) {
        while (!wanted.empty() && is_utf8_continuation(wanted.back())) wanted.pop_back();
        if (!wanted.empty()) wanted.pop_back();
        find_up_from(lines_.size() - 1, wanted);
      } else if (key == control('G') || key == control('C')) {
        at_ = line_before;
        cursor_ = cursor_before;
        return 0;
      } else if (key >= ' ') {
        wanted += static_cast<char>(key);
        if (!is_utf8_continuation(wanted.back()) && !find_up_from(at_, wanted)) put("\a");
      } else {
        show();
        return key;
      }
    }
  }
  bool find_up_from(std::size_t line, const std::string& wanted) {
    for (std::size_t i = line + 1; i-- > 0;)
      if (const std::size_t place = lines_[i].find(wanted); place != std::string::npos && !lines_[i].empty()) {
        at_ = i;
        cursor_ = place;
        return true;
      }
    return false;
  }

  void press(int key) {
    switch (key) {
      case control('A'): cursor_ = 0; break;
      case control('E'): cursor_ = text().size(); break;
      case control('B'): cursor_ = back(); break;
      case control('F'): cursor_ = after(cursor_); break;
      case control('P'):
        if (at_ > 0) go_to_line(at_ - 1);
        break;
      case control('N'):
        if (at_ + 1 < lines_.size()) go_to_line(at_ + 1);
        break;
      case control('D'): erase(cursor_, after(cursor_)); break;
      case control('H'):
      case backspace: erase(back(), cursor_); break;
      case control('K'): erase(cursor_, text().size()); break;
      case control('U'): erase(0, cursor_); break;
      case control('W'): erase(start_of_word(), cursor_); break;
      case control('L'): put("\x1b[H\x1b[2J"); break;
      case control('C'):
        put("^C\n");
        begin_anew();
        break;
      case '\t': complete(); break;
      default:
        if (key >= ' ') insert(std::string(1, static_cast<char>(key)));
    }
  }

  // Inserts the common prefix of all completions. If it adds nothing, lists the completions.
  void complete() {
    const std::string left = text().substr(0, cursor_);
    const std::string word = left.substr(left.find_last_of(' ') + 1);  // npos + 1 is 0.
    const std::vector<std::string> words = complete_(left);
    if (words.empty()) return put("\a");
    std::string common = words[0];
    for (const std::string& other : words) {
      const auto differ = std::mismatch(common.begin(), common.end(), other.begin(), other.end()).first;
      common.erase(differ, common.end());
    }
    if (words.size() == 1) common += ' ';
    if (common.size() > word.size()) return insert(common.substr(word.size()));
    put("\n" + in_columns(words) + "\n");
  }
  // Arranges words in columns, as many per row as fit.
  static std::string in_columns(const std::vector<std::string>& words) {
    std::size_t widest = 0, all = 0;
    for (const std::string& word : words) {
      widest = std::max(widest, columns_of(word));
      all += columns_of(word) + 2;
    }
    const std::size_t width = width_of_terminal(), in_row = std::max<std::size_t>((width + 1) / (widest + 2), 1);
    std::string list;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool first = all <= width ? i == 0 : i % in_row == 0;
      if (!first) list += "  ";
      else if (i > 0) list += "\n";
      const bool last = i + 1 == words.size() || (all > width && (i + 1) % in_row == 0);
      list += all <= width || last ? words[i] : padded(words[i], widest);
    }
    return list;
  }

  // Redraws the line. One column is reserved for the cursor.
  void show() { show(prompt_); }
  void show(const std::string& before) {
    const std::size_t width = width_of_terminal(), prompt = columns_of(before);
    const std::size_t room = width > prompt + 1 ? width - prompt - 1 : 1;
    std::size_t from = 0, columns = columns_of(text().substr(0, cursor_));
    for (; columns > room; --columns) from = after(from);
    std::size_t to = from;
    for (std::size_t shown = 0; to < text().size() && shown < room; ++shown) to = after(to);
    put("\r" + before + text().substr(from, to - from) + "\x1b[K\r\x1b[" + std::to_string(prompt + columns) + "C");
  }

  const std::string& prompt_;
  const std::vector<std::string>& history_;
  const LineReader::Complete& complete_;
  // The edited copies of the history, and the new line.
  std::vector<std::string> lines_;
  std::size_t at_ = 0, cursor_ = 0;
};

}  // namespace

bool LineReader::at_terminal() { return moves_cursor(STDIN_FILENO) && moves_cursor(STDOUT_FILENO); }

std::optional<std::string> LineReader::read(const std::string& prompt, const Complete& complete) {
  const RawMode raw;
  const std::optional<std::string> line = Line(prompt, history_, complete).read();
  put("\n");
  if (line && !line->empty() && (history_.empty() || history_.back() != *line)) history_.push_back(*line);
  return line;
}

}  // namespace stave_detail
