#include <stave/handlers/debugger.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include <unistd.h>

#include <stave/core/fail.h>
#include <stave/core/io/file.h>
#include <stave/handlers/debugger_words.h>
#include <stave/handlers/line_reader.h>
#include <stave/handlers/notation.h>
#include <stave/handlers/summary.h>

namespace stave_detail {

namespace {

constexpr const char* prompt = "(stave) ";

using Words = std::vector<std::string>;  // of a command, its name first

const Words& names_of_operations() {
  static const Words names{
#define X(name, ...) #name,
      STAVE_ALL_OPS(X)
#undef X
  };
  return names;
}

std::deque<std::string> lines_of_script(const std::string& path) {
  std::deque<std::string> lines;
  if (path.empty()) return lines;
  std::string text;
  try {
    const stave_detail::InputFile file("debugger", path);
    text.resize(file.size());
    file.read(0, text.data(), text.size());
  } catch (const FileError&) {
    fail<FileError>("debugger: the script {} cannot be read", path);
  }
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  return lines;
}

class Session final : public DebuggerSession {
 public:
  explicit Session(const DebuggerOptions& options)
      : in_(options.in), out_(options.out ? *options.out : std::cout), script_(lines_of_script(options.script)),
        typed_(!options.in && isatty(STDIN_FILENO)), edited_(!options.in && !options.out && LineReader::at_terminal()) {
    if (options.record.empty()) return;
    record_.open(options.record);
    if (!record_) fail<FileError>("debugger: {} cannot be written, to record commands", options.record);
  }
  std::string describe() const override { return "debugger"; }

  void call_begins() override {
    stood_ = dropped_ = false;
    if (until() == Until::same_scope || until() == Until::end_of_scope) go(Until::operation);
  }
  void call_ends(bool thrown) override {
    if (stood_) out_ << (thrown ? "an exception has left the function" : "the function has returned") << std::endl;
    if (dropped_) go(Until::operation);
    dropped_ = false;
  }

 private:
  struct Command {
    const char *name, *alias, *arguments, *help;
    bool (Session::*run)(const Words&);  // whether the program goes on
  };
  static const std::vector<Command>& commands();

  void stand() override {
    if (dropped_) throw_dropped();
    stood_ = true;
    show_stop();
    for (;;) {
      const std::optional<std::string> line = next_line();
      if (!line) return run_on();
      if (obey(*line)) break;
    }
    if (dropped_) throw_dropped();
  }
  [[noreturn]] void throw_dropped() {
    go(Until::operation);  // who swallows it, meets it again at the next operation
    fail<TransformError>("debugger: the rest of the function was dropped");
  }

  // ---- commands come in ------------------------------------------------------------------------------------

  std::optional<std::string> next_line() {
    if (script_.empty() && edited_)
      return lines_.read(prompt, [this](const std::string& left) { return completions(left); });
    out_ << prompt << std::flush;
    std::optional<std::string> line;
    const bool from_script = !script_.empty();
    if (from_script) {
      line = std::move(script_.front());
      script_.pop_front();
    } else if (std::string read; std::getline(in_ ? *in_ : std::cin, read)) {
      line = std::move(read);
    }
    if (!line || from_script || !typed_) out_ << line.value_or("") << std::endl;  // a terminal shows what is typed
    return line;
  }

  // Whether the program goes on.
  bool obey(const std::string& line) {
    Words words = words_of(line);
    if (words.empty() && line.find('#') == std::string::npos) words = again_;
    if (words.empty()) return false;
    const Command* const command = command_of(words[0]);
    if (!command) return false;
    if (record_.is_open()) record_ << (words == again_ ? command->name : line) << std::endl;
    try {
      const bool goes_on = (this->*command->run)(words);
      again_ = goes_on ? words : Words();
      return goes_on;
    } catch (const Error& error) {
      const std::string_view text = error.what();
      out_ << text.substr(0, text.find('\n')) << std::endl;  // `where` tells what stands around
      return false;
    }
  }

  static Words names_of_commands() {
    Words names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    return names;
  }
  // By its name, its alias, or a beginning that it shares with no other.
  const Command* command_of(const std::string& word) {
    const Command* found = nullptr;
    int possible = 0;
    for (const Command& command : commands()) {
      if (word == command.name || word == command.alias) return &command;
      if (!std::string_view(command.name).starts_with(word) && !std::string_view(command.alias).starts_with(word))
        continue;
      ++possible;
      found = &command;
    }
    if (possible == 1) return found;
    const std::string nearest = nearest_to(word, names_of_commands());
    out_ << "there is no command `" << word << (nearest.empty() ? "`;" : "`; did you mean `" + nearest + "`?")
         << " `help` shows all" << std::endl;
    return nullptr;
  }

  // What may stand in place of the last word.
  Words completions(const std::string& left) {
    Words words = words_of(left);
    const std::string word = left.empty() || left.back() == ' ' || words.empty() ? "" : words.back();
    if (!word.empty()) words.pop_back();
    Words fitting;
    for (std::string& candidate : words.empty() ? names_of_commands() : arguments_of(words[0]))
      if (candidate.starts_with(word)) fitting.push_back(std::move(candidate));
    return fitting;
  }
  Words arguments_of(const std::string& command) const {
    if (command == "help" || command == "h") return names_of_commands();
    if (command == "break" || command == "b") {
      Words words = names_of_operations();
      words.insert(words.end(), {"in", "label", "shape", "nan", "forward", "backward"});
      return words;
    }
    Words values;
    if (!at() || !at()->at_operation()) return values;
    for (std::size_t i = 0; i < at()->call().inputs().size(); ++i) values.push_back("in" + std::to_string(i));
    for (std::size_t i = 0; i < at()->outputs().size(); ++i) values.push_back("out" + std::to_string(i));
    return values;
  }

  // ---- how far ---------------------------------------------------------------------------------------------

  bool go_on(Until until) {
    go(until);
    return true;
  }
  void run_on() {
    out_ << "no more commands: the program runs on" << std::endl;
    stood_ = false;
    go(Until::end);
  }
  bool step(const Words&) { return go_on(Until::operation); }
  bool next(const Words&) { return go_on(Until::same_scope); }
  bool finish(const Words&) { return go_on(Until::end_of_scope); }
  bool proceed(const Words&) { return go_on(Until::breakpoint); }
  bool drop(const Words&) { return dropped_ = true; }
  bool perform_here(const Words&) {
    if (at()->call(); at()->has_outputs()) fail<TransformError>("debugger: it has its outputs already");
    perform_and_stay();
    return true;
  }

  // ---- breakpoints -----------------------------------------------------------------------------------------

  bool set_breakpoint(const Words& words) {
    Breakpoint breakpoint;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const auto argument = [&] {
        if (i + 1 == words.size()) fail<TransformError>("debugger: what comes after `{}`?", word);
        return words[++i];
      };
      if (word == "in") breakpoint.scope = argument();
      else if (word == "label") breakpoint.label = argument();
      else if (word == "shape") breakpoint.shape = shape_of(argument());
      else if (word == "nan") breakpoint.nan = true;
      else if (word == "forward") breakpoint.pass = Breakpoint::Pass::forward;
      else if (word == "backward") breakpoint.pass = Breakpoint::Pass::backward;
      else if (breakpoint.operation.empty()) breakpoint.operation = word;
      else
        fail<TransformError>("debugger: `{}` after the operation is none of in, label, shape, nan, forward, backward",
                             word);
    }
    const std::string text = breakpoint.str(), operation = breakpoint.operation;
    out_ << "breakpoint " << add(std::move(breakpoint)) << ": " << text << std::endl;
    note_unknown(operation);
    return false;
  }
  static Shape shape_of(const std::string& text) {
    const std::optional<Shape> shape = read_shape(text);
    if (!shape) fail<TransformError>("debugger: `{}` is no shape; write it as [2,3]", text);
    return *shape;
  }
  void note_unknown(const std::string& operation) {
    const Words& names = names_of_operations();
    if (operation.empty() || std::find(names.begin(), names.end(), operation) != names.end()) return;
    const std::string nearest = nearest_to(operation, names);
    out_ << "no operation of the library is called `" << operation << "`"
         << (nearest.empty() ? "" : "; the nearest is `" + nearest + "`") << ". It is kept for one of the program's own"
         << std::endl;
  }
  bool delete_breakpoints(const Words& words) {
    if (words.size() == 1)
      while (!breakpoints().empty()) remove(breakpoints().back().number);
    for (std::size_t i = 1; i < words.size(); ++i)
      if (const auto number = index_after("", words[i]);
          !number || !std::in_range<int>(*number) || !remove(static_cast<int>(*number)))
        fail<TransformError>("debugger: there is no breakpoint {}", words[i]);
    return false;
  }
  bool list_breakpoints(const Words&) {
    if (breakpoints().empty()) out_ << "there are none" << std::endl;
    for (const Numbered& of : breakpoints()) out_ << of.number << "  " << of.breakpoint.str() << std::endl;
    return false;
  }

  // ---- values ----------------------------------------------------------------------------------------------

  void show_stop() {
    if (at()->at_operation() && at()->reason().starts_with("breakpoint ")) out_ << at()->reason() << "\n";
    out_ << at()->str() << std::endl;
    if (at()->has_outputs()) show_all("out", at()->outputs());
  }
  void show(const std::string& name, const Tensor& x) {
    out_ << name << "  " << summary_of(x) << "\n";
    std::istringstream lines(picture_of(x));
    for (std::string line; std::getline(lines, line);) out_ << std::string(name.size() + 2, ' ') << line << "\n";
    out_ << std::flush;
  }
  void show_all(const std::string& kind, std::span<const Tensor> xs) {
    for (std::size_t i = 0; i < xs.size(); ++i) show(kind + std::to_string(i), xs[i]);
  }
  const Tensor* find_value(const std::string& word) const {
    const std::pair<const char*, std::span<const Tensor>> kinds[] = {{"in", at()->call().inputs()},
                                                                     {"out", at()->outputs()}};
    for (const auto& [kind, xs] : kinds)
      if (const auto index = index_after(kind, word)) {
        if (*index < xs.size()) return &xs[*index];
        fail<TransformError>("debugger: {} has {} {} here, from 0", at()->call().op().name, xs.size(),
                             *kind == 'i' ? "operands, in" : "outputs, out");
      }
    return nullptr;
  }
  bool print(const Words& words) {
    if (words.size() == 1) {
      show_all("in", at()->call().inputs());
      show_all("out", at()->outputs());
    }
    for (std::size_t i = 1; i < words.size(); ++i) {
      const Tensor* const x = find_value(words[i]);
      if (!x) fail<TransformError>("debugger: `{}` is no value here; values are in0, in1, ..., out0, ...", words[i]);
      show(words[i], *x);
      out_ << x->str() << std::endl;
    }
    return false;
  }
  bool where(const Words&) {
    for (const StopPoint::Surrounding& around : at()->around())
      out_ << (around.scope ? "scope    " : "handler  ") << around.name << (around.at_work ? ", at work" : "") << "\n";
    out_ << std::flush;
    return false;
  }

  Tensor given(const std::string& word, const Shape& shape, Dtype dtype) const {
    if (const Tensor* const known = find_value(word)) return *known;
    const auto inputs = at()->call().inputs();
    return read_value(word, shape, dtype, inputs.empty() ? cpu : inputs[0].device());
  }
  bool skip(const Words& words) {
    if (at()->call(); at()->has_outputs()) fail<TransformError>("debugger: it has its outputs already: `replace` one");
    if (words.size() != 2) fail<TransformError>("debugger: `skip` takes one value, for all outputs");
    Outputs outputs;
    for (const Abstract& output : at()->call().abstract_outputs())
      outputs.push_back(given(words[1], output.shape, output.dtype));
    return answered(std::move(outputs));
  }
  bool replace(const Words& words) {
    if (at()->call(); !at()->has_outputs())
      fail<TransformError>("debugger: there are no outputs yet: `perform` it first, or `skip` it with a value");
    const auto which = words.size() == 3 ? index_after("out", words[1]) : std::optional<std::size_t>(0);
    if ((words.size() != 2 && words.size() != 3) || !which || *which >= at()->outputs().size())
      fail<TransformError>("debugger: `replace` takes a value, or which output and a value, as out1 0.5; there are {}",
                           at()->outputs().size());
    Outputs outputs;
    for (const Tensor& output : at()->outputs()) outputs.push_back(output);
    outputs[*which] = given(words.back(), outputs[*which].shape(), outputs[*which].dtype());
    return answered(std::move(outputs));
  }
  bool answered(Outputs outputs) {
    at()->answer(std::move(outputs));
    show_all("out", at()->outputs());
    return false;
  }

  bool help(const Words& words) {
    const Command* const one = words.size() > 1 ? command_of(words[1]) : nullptr;
    if (words.size() > 1 && !one) return false;
    for (const Command& command : commands())
      if (!one || one == &command)
        out_ << fmt::format("{:<12} {:<5} {:<21} {}\n", command.name, command.alias, command.arguments, command.help);
    out_ << std::flush;
    return false;
  }

  std::istream* const in_;
  std::ostream& out_;
  std::deque<std::string> script_;
  std::ofstream record_;
  const bool typed_, edited_;
  LineReader lines_;
  Words again_;                           // what an empty line repeats
  bool stood_ = false, dropped_ = false;  // in this call
};

const std::vector<Session::Command>& Session::commands() {
  static const std::vector<Command> list{
      {"step", "s", "", "to the next operation", &Session::step},
      {"next", "n", "", "to the next one that is not in a scope further in", &Session::next},
      {"finish", "f", "", "to the end of this scope", &Session::finish},
      {"continue", "c", "", "to the next breakpoint", &Session::proceed},
      {"break", "b", "[OPERATION] [WHERE]", "in SCOPE, label NAME, shape [2,3], nan, forward, backward",
       &Session::set_breakpoint},
      {"breakpoints", "", "", "lists them", &Session::list_breakpoints},
      {"delete", "d", "[NUMBER]", "a breakpoint, or all", &Session::delete_breakpoints},
      {"where", "w", "", "handlers and scopes around, from inside out", &Session::where},
      {"print", "p", "[in0|out0]", "operands and outputs; of one also the elements", &Session::print},
      {"perform", "", "", "the operation, and stays after it", &Session::perform_here},
      {"skip", "", "VALUE", "gives it in place of performing the operation: 0.5, [1, 2], in0, x.npy", &Session::skip},
      {"replace", "r", "[out1] VALUE", "gives it in place of an output", &Session::replace},
      {"drop", "quit", "", "the rest of the function does not run", &Session::drop},
      {"help", "h", "[COMMAND]", "an empty line repeats what went on; # begins a comment", &Session::help},
  };
  return list;
}

}  // namespace

std::shared_ptr<DebuggerSession> DebuggerSession::begin(const DebuggerOptions& options) {
  return std::make_shared<Session>(options);
}

}  // namespace stave_detail
