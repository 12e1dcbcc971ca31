#include <stave/handlers/debugger/debugger.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include <unistd.h>

#include <stave/core/io/file.h>
#include <stave/core/op/notation.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/handlers/debugger/debugger_expressions.h>
#include <stave/handlers/debugger/debugger_history.h>
#include <stave/handlers/debugger/debugger_view.h>
#include <stave/handlers/debugger/debugger_words.h>
#include <stave/handlers/debugger/line_reader.h>
#include <stave/handlers/model/summary.h>
#include <stave/handlers/model/terminal.h>

namespace stave_detail {

namespace {

constexpr const char* prompt = "(stave) ";

// The words of a command; its name comes first.
using Words = std::vector<std::string>;

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
        view_(out_, options.source), stdin_is_terminal_(!options.in && isatty(STDIN_FILENO)),
        uses_line_editor_(!options.in && !options.out && LineReader::at_terminal()) {
    if (options.record.empty()) return;
    record_.open(options.record);
    if (!record_)
      fail<FileError>("debugger: the file {}, in which commands are recorded, cannot be written", options.record);
  }
  std::string describe() const override { return "debugger"; }

  void call_begins() override {
    shown_ = dropped_ = false;
    if (until() == Until::same_scope || until() == Until::end_of_scope) go(Until::operation);
  }
  void call_ends(bool thrown) override {
    if (shown_) out_ << (thrown ? "an exception has left the function" : "the function has returned") << std::endl;
    if (dropped_) go(Until::operation);
    dropped_ = false;
    history_.forget_values();
  }

 private:
  struct Command {
    const char *name, *alias, *arguments, *help;
    // Returns whether the program continues.
    bool (Session::*run)(const Words&);
  };
  static const std::vector<Command>& commands();

  void on_stop() override {
    if (dropped_) throw_dropped();
    shown_ = true;
    view_.choose_innermost();
    show_stop();
    for (;;) {
      const std::optional<std::string> line = next_line();
      if (!line) return run_on();
      if (execute(*line)) break;
    }
    if (dropped_) throw_dropped();
  }
  void before_operation(const Call& call) override {
    if (!dropped_) history_.add(call, scopes_of_this());
  }
  [[noreturn]] void throw_dropped() {
    // If the function catches the exception, the program stops at the next operation, which throws
    // it again.
    go(Until::operation);
    fail<TransformError>("debugger: the rest of the function was dropped");
  }

  // ---- input of commands -----------------------------------------------------------------

  std::optional<std::string> next_line() {
    if (script_.empty() && uses_line_editor_)
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
    // A terminal already shows typed text; other commands are echoed.
    if (!line || from_script || !stdin_is_terminal_) out_ << line.value_or("") << std::endl;
    return line;
  }

  // Runs a command. Returns whether the program continues.
  bool execute(const std::string& line) {
    Words words = words_of(line);
    written_ = words_of(line, true);
    if (words.empty() && line.find('#') == std::string::npos) words = command_to_repeat_;
    if (words.empty()) return false;
    const Command* const command = command_of(words[0]);
    if (!command) return false;
    if (record_.is_open()) record_ << (words == command_to_repeat_ ? command->name : line) << std::endl;
    try {
      const bool goes_on = (this->*command->run)(words);
      command_to_repeat_ = goes_on ? words : Words();
      return goes_on;
    } catch (const Error& error) {
      const std::string text = error.what();
      // The other lines of the message name the handlers around the operation, which `where` shows.
      view_.say(text.substr(0, text.find('\n')));
      return false;
    }
  }

  static Words names_of_commands() {
    Words names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    return names;
  }
  // Returns the command with this name or alias, or the only one with this prefix.
  const Command* command_of(const std::string& word) {
    const Command* found = nullptr;
    int possible = 0;
    std::string names;
    for (const Command& command : commands()) {
      if (word == command.name || word == command.alias) return &command;
      if (!std::string_view(command.name).starts_with(word) && !std::string_view(command.alias).starts_with(word))
        continue;
      names += (possible++ ? ", " : "") + std::string(command.name);
      found = &command;
    }
    if (possible == 1) return found;
    if (possible > 1) {
      view_.say("`" + word + "` begins several commands: " + names);
      return nullptr;
    }
    const std::string nearest = nearest_to(word, names_of_commands());
    view_.say("there is no command `" + word + (nearest.empty() ? "`;" : "`; did you mean `" + nearest + "`?") +
              " `help` shows all");
    return nullptr;
  }

  // Returns the possible completions of the last word.
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
    if (command == "break" || command == "b" || command == "tbreak" || command == "tb") {
      Words words = names_of_operations();
      words.insert(words.end(), {"in", "label", "shape", "nan", "arises", "forward", "backward", "if"});
      return words;
    }
    Words values;
    for (const auto& [label, value] : history_.labelled())
      if (label.find(' ') == std::string::npos) values.push_back(label);
    if (command == "watch" || !at() || !at()->at_operation()) return values;
    for (std::size_t i = 0; i < at()->call().inputs().size(); ++i) values.push_back("in" + std::to_string(i));
    for (std::size_t i = 0; i < at()->outputs().size(); ++i) values.push_back("out" + std::to_string(i));
    return values;
  }

  // ---- stepping --------------------------------------------------------------------------

  bool go_on(Until until) {
    go(until);
    return true;
  }
  void run_on() {
    out_ << "no more commands: the program continues" << std::endl;
    shown_ = false;
    go(Until::end);
  }
  bool step(const Words&) { return go_on(Until::operation); }
  bool next(const Words&) { return go_on(Until::same_scope); }
  bool finish(const Words&) { return go_on(Until::end_of_scope); }
  bool proceed(const Words&) { return go_on(Until::breakpoint); }
  bool drop(const Words&) { return dropped_ = true; }
  bool perform_here(const Words&) {
    if (at()->call(); at()->has_outputs()) fail<TransformError>("debugger: the operation has its outputs already");
    perform_and_stay();
    return true;
  }

  // ---- breakpoints -----------------------------------------------------------------------

  bool set_breakpoint(const Words& words) { return set_breakpoint(words, false); }
  bool set_temporary_breakpoint(const Words& words) { return set_breakpoint(words, true); }
  bool set_breakpoint(const Words& words, bool once) {
    Breakpoint breakpoint;
    breakpoint.once = once;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const auto argument = [&] {
        if (i + 1 == words.size()) fail<TransformError>("debugger: `{}` needs an argument", word);
        return words[++i];
      };
      if (word == "in") breakpoint.scope = argument();
      else if (word == "label") breakpoint.label = argument();
      else if (word == "shape") breakpoint.shape = shape_of(argument());
      else if (word == "nan")
        (i + 1 < words.size() && words[i + 1] == "arises" ? breakpoint.nan_arises : breakpoint.nan) = true;
      else if (word == "arises" && breakpoint.nan_arises) continue;
      else if (word == "forward") breakpoint.pass = Breakpoint::Pass::forward;
      else if (word == "backward") breakpoint.pass = Breakpoint::Pass::backward;
      else if (word == "if") {
        set_condition(breakpoint, written_from(i + 1));
        break;
      } else if (breakpoint.operation.empty()) breakpoint.operation = word;
      else
        fail<TransformError>(
            "debugger: `{}` after the operation is not one of in, label, shape, nan, forward, backward, if", word);
    }
    const std::string text = breakpoint.str(), operation = breakpoint.operation;
    const int number = add(std::move(breakpoint));
    view_.say(fmt::format("{}breakpoint {}: {}", once ? "temporary " : "", number, text));
    note_unknown(operation);
    return false;
  }
  // Returns the text of an expression: the words of the command from `first` on,
  // as they were written.
  std::string written_from(std::size_t first) const {
    std::string text;
    for (std::size_t i = first; i < written_.size(); ++i) text += (i == first ? "" : " ") + written_[i];
    return text;
  }
  void set_condition(Breakpoint& breakpoint, const std::string& text) {
    if (text.empty()) fail<TransformError>("debugger: `if` needs a condition, such as max > 3 or in0[0] < in1[0]");
    const auto condition = std::make_shared<const Expression>(Expression::read_all(text));
    breakpoint.condition = condition->text();
    if (condition->has_outputs())
      breakpoint.yields = [this, condition](const Call& call, std::span<const Tensor> outputs) {
        return holds(*condition, call, outputs);
      };
    else breakpoint.predicate = [this, condition](const Call& call) { return holds(*condition, call, {}); };
  }
  // Evaluates a condition. A condition that cannot be evaluated is false; the reason is printed
  // once.
  bool holds(const Expression& condition, const Call& call, std::span<const Tensor> outputs) {
    ExpressionValues values{[&](const std::string& name) { return find_value(name, &call, outputs); }};
    try {
      if (!condition.has_statistics()) return condition.holds(values);
      return std::any_of(call.inputs().begin(), call.inputs().end(), [&](const Tensor& input) {
        values.each = &input;
        return input.defined() && condition.holds(values);
      });
    } catch (const Error& error) {
      const std::string text = error.what();
      const std::string said = condition.text() + ": " + text.substr(0, text.find('\n'));
      if (complaints_.insert(said).second) view_.say("a condition is false where it cannot be evaluated: " + said);
      return false;
    }
  }

  struct Watched {
    // The fingerprint of the watched value when it was last seen.
    std::optional<std::uint64_t> value;
    std::string was, is;
    bool changed = false;
  };
  bool watch(const Words& words) {
    if (words.size() != 2) fail<TransformError>("debugger: `watch` takes the label of a value");
    const auto watched = std::make_shared<Watched>();
    if (const auto known = history_.labelled().find(words[1]); known != history_.labelled().end()) {
      watched->value = fingerprint_of(known->second);
      watched->is = summary_of(known->second);
    }
    Breakpoint breakpoint{.label = words[1], .condition = "it is another value"};
    breakpoint.predicate = [watched, label = words[1]](const Call& call) {
      for (const Tensor& input : call.inputs()) {
        if (!input.defined() || stave::label_of(input) != label) continue;
        const std::uint64_t value = fingerprint_of(input);
        if (watched->value == value) continue;
        watched->value = value;
        watched->was = std::exchange(watched->is, summary_of(input));
        return watched->changed = true;
      }
      return false;
    };
    const std::string text = breakpoint.str();
    const int number = add(std::move(breakpoint));
    watched_.emplace(number, watched);
    view_.say(fmt::format("breakpoint {}: {}", number, text));
    return false;
  }
  int number_of(const std::string& word) {
    const auto number = index_after("", word);
    if (!number || !std::in_range<int>(*number)) fail<TransformError>("debugger: there is no breakpoint {}", word);
    return static_cast<int>(*number);
  }
  bool ignore_breakpoint(const Words& words) {
    const auto times = words.size() == 3 ? index_after("", words[2]) : std::nullopt;
    if (!times || !std::in_range<int>(*times))
      fail<TransformError>("debugger: `ignore` takes the number of a breakpoint, and how many times to pass it");
    if (!ignore(number_of(words[1]), static_cast<int>(*times)))
      fail<TransformError>("debugger: there is no breakpoint {}", words[1]);
    view_.say(fmt::format("breakpoint {} is passed {} time{}", words[1], *times, *times == 1 ? "" : "s"));
    return false;
  }
  static Shape shape_of(const std::string& text) {
    const std::optional<Shape> shape = read_shape(text);
    if (!shape) fail<TransformError>("debugger: `{}` is not a shape; write it as [2,3]", text);
    return *shape;
  }
  void note_unknown(const std::string& operation) {
    const Words& names = names_of_operations();
    if (operation.empty() || std::find(names.begin(), names.end(), operation) != names.end()) return;
    const std::string nearest = nearest_to(operation, names);
    view_.say("no operation of the library is called `" + operation + "`" +
              (nearest.empty() ? "" : "; the nearest is `" + nearest + "`") +
              ". The breakpoint waits for an operation of the program with this name");
  }
  bool delete_breakpoints(const Words& words) {
    if (words.size() == 1)
      while (!breakpoints().empty()) remove(breakpoints().back().number);
    for (std::size_t i = 1; i < words.size(); ++i)
      if (!remove(number_of(words[i]))) fail<TransformError>("debugger: there is no breakpoint {}", words[i]);
    return false;
  }
  bool list_breakpoints(const Words&) {
    if (breakpoints().empty()) out_ << "there are no breakpoints" << std::endl;
    for (const BreakpointState& of : breakpoints()) {
      std::string text = fmt::format("{}  {}", of.number, of.breakpoint.str());
      if (of.breakpoint.once) text += ", once";
      if (of.stops) text += fmt::format(", reached {} time{}", of.stops, of.stops == 1 ? "" : "s");
      if (of.breakpoint.ignore) text += fmt::format(", passed {} more", of.breakpoint.ignore);
      view_.say(text, 3);
    }
    return false;
  }

  // ---- values ----------------------------------------------------------------------------

  void show_stop() {
    if (at()->at_operation() && at()->reason().find("breakpoint ") != std::string::npos) view_.say(at()->reason());
    view_.say(at()->str(), 4);
    view_.show_place(*at(), history_);
    for (const auto& [number, watched] : watched_)
      if (std::exchange(watched->changed, false)) {
        if (!watched->was.empty()) view_.say("  was " + watched->was, 6);
        view_.say("  is  " + watched->is, 6);
      }
    if (at()->has_outputs()) view_.show_all("out", at()->outputs());
  }
  // Returns a value by position ("in0", "out0") or label. A label refers to an operand or output
  // of this operation, or else to the last operand seen with that label.
  std::optional<Tensor> find_value(const std::string& name, const Call* call, std::span<const Tensor> outputs) const {
    if (call) {
      const std::pair<const char*, std::span<const Tensor>> kinds[] = {{"in", call->inputs()}, {"out", outputs}};
      for (const auto& [kind, xs] : kinds)
        if (const auto index = index_after(kind, name); index && *index < xs.size()) return xs[*index];
      for (const auto& [kind, xs] : kinds)
        for (const Tensor& x : xs)
          if (x.defined() && stave::label_of(x) == name) return x;
    }
    const auto found = history_.labelled().find(name);
    return found == history_.labelled().end() ? std::nullopt : std::optional(found->second);
  }
  // Returns a value of the operation at the current stop, or the last operand with that label.
  // Throws TransformError for "inN" or "outN" if the operation has too few operands or outputs.
  std::optional<Tensor> find_value(const std::string& name) const {
    const Call* const call = at()->at_operation() ? &at()->call() : nullptr;
    if (std::optional<Tensor> found = find_value(name, call, at()->outputs())) return found;
    for (const char* kind : {"in", "out"})
      if (index_after(kind, name)) {
        const bool in = *kind == 'i';
        fail<TransformError>("debugger: {} has {} {} here, counted from 0", at()->call().op().name,
                             in ? at()->call().inputs().size() : at()->outputs().size(),
                             in ? "operands, in" : "outputs, out");
      }
    return std::nullopt;
  }
  bool print(const Words& words) {
    if (words.size() == 1) {
      view_.show_all("in", at()->call().inputs());
      view_.show_all("out", at()->outputs());
    }
    const std::string text = written_from(1);
    for (std::string_view rest = text; !rest.empty();) {
      const Expression expression = Expression::read(rest);
      const ExpressionValues values{[this](const std::string& name) { return find_value(name); }};
      if (expression.is_name())
        if (const std::optional<Tensor> x = find_value(unquoted(expression.text()))) {
          view_.show(expression.text(), *x);
          view_.show_elements(*x);
          continue;
        }
      const Tensor x = expression.evaluate(values);
      view_.show(expression.text(), x);
      if (x.size() > 1) view_.show_elements(x);
    }
    return false;
  }
  static std::string unquoted(const std::string& text) {
    return text.starts_with('"') ? text.substr(1, text.size() - 2) : text;
  }

  // ---- history and callers ---------------------------------------------------------------

  static std::size_t count_after(const Words& words, std::size_t otherwise) {
    if (words.size() == 1) return otherwise;
    const auto count = index_after("", words[1]);
    if (words.size() > 2 || !count) fail<TransformError>("debugger: `{}` takes a number", words[0]);
    return *count;
  }
  bool back(const Words& words) {
    view_.show_operations(*at(), history_, count_after(words, 10));
    return false;
  }
  bool backtrace(const Words&) {
    view_.show_functions(*at());
    return false;
  }
  bool up(const Words& words) {
    view_.choose(*at(), view_.chosen() + count_after(words, 1), "outermost");
    return false;
  }
  bool down(const Words& words) {
    view_.choose(*at(), view_.chosen() - count_after(words, 1), "innermost");
    return false;
  }
  bool list(const Words& words) {
    if (!view_.show_lines(*at(), count_after(words, 5))) view_.show_operations(*at(), history_, 10);
    return false;
  }
  bool info(const Words&) {
    view_.say(at()->str(), 4);
    view_.say("  because of   " + at()->reason(), 15);
    view_.show_place(*at(), history_);
    view_.say(std::string("  pass         ") + (at()->in_backward_pass() ? "backward" : "forward"));
    view_.say(fmt::format("  operations   {}", history_.count()));
    view_.say(fmt::format("  breakpoints  {}", breakpoints().size()));
    std::string labels;
    for (const auto& [label, x] : history_.labelled()) labels += (labels.empty() ? "" : ", ") + notation({&x, 1});
    if (!labels.empty()) view_.say("  labels       " + labels, 15);
    return false;
  }

  bool where(const Words&) {
    for (const StopPoint::Surrounding& around : at()->around())
      view_.say((around.scope ? "scope    " : "handler  ") + around.name + (around.at_work ? ", at work" : ""), 11);
    return false;
  }

  Tensor given(const std::string& word, const Shape& shape, Dtype dtype) const {
    if (const std::optional<Tensor> known = find_value(word)) return *known;
    const auto inputs = at()->call().inputs();
    return read_value(word, shape, dtype, inputs.empty() ? cpu : inputs[0].device());
  }
  bool skip(const Words& words) {
    if (at()->call(); at()->has_outputs())
      fail<TransformError>("debugger: the operation has its outputs already: `replace` one");
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
      fail<TransformError>(
          "debugger: `replace` takes a value, or an output and a value, such as out1 0.5; there are {} outputs",
          at()->outputs().size());
    Outputs outputs;
    for (const Tensor& output : at()->outputs()) outputs.push_back(output);
    outputs[*which] = given(words.back(), outputs[*which].shape(), outputs[*which].dtype());
    return answered(std::move(outputs));
  }
  bool answered(Outputs outputs) {
    at()->answer(std::move(outputs));
    view_.show_all("out", at()->outputs());
    return false;
  }

  bool help(const Words& words) {
    const Command* const one = words.size() > 1 ? command_of(words[1]) : nullptr;
    if (words.size() > 1 && !one) return false;
    const std::size_t columns = view_.columns().value_or(1000);
    for (const Command& command : commands()) {
      if (one && one != &command) continue;
      if (columns >= 72) {
        out_ << wrapped(
                    fmt::format("{:<12} {:<5} {:<21} {}", command.name, command.alias, command.arguments, command.help),
                    columns, 41)
             << "\n";
      } else {
        const std::string alias = *command.alias ? std::string(", ") + command.alias : "";
        const std::string arguments = *command.arguments ? std::string(" ") + command.arguments : "";
        out_ << command.name << alias << arguments << "\n"
             << wrapped("  " + std::string(command.help), columns, 2) << "\n";
      }
    }
    out_ << std::flush;
    return false;
  }

  std::istream* const in_;
  std::ostream& out_;
  std::deque<std::string> script_;
  std::ofstream record_;
  DebuggerView view_;
  const bool stdin_is_terminal_, uses_line_editor_;
  LineReader lines_;
  DebuggerHistory history_;
  // Keys: the number of the breakpoint.
  std::map<int, std::shared_ptr<Watched>> watched_;
  // The messages that were already printed for conditions that cannot be evaluated.
  std::set<std::string> complaints_;
  // The words of the current command, with quotation marks.
  Words written_;
  // The command that an empty line repeats.
  Words command_to_repeat_;
  // Whether the current call of the debugged function has stopped at least once, and whether the
  // user has dropped the rest of it.
  bool shown_ = false, dropped_ = false;
};

const std::vector<Session::Command>& Session::commands() {
  static const std::vector<Command> list{
      {"step", "s", "", "goes to the next operation", &Session::step},
      {"next", "n", "", "goes to the next operation that is not in a scope inside this one", &Session::next},
      {"finish", "f", "", "goes to the end of this scope", &Session::finish},
      {"continue", "c", "", "goes to the next breakpoint", &Session::proceed},
      {"break", "b", "[OPERATION] [WHERE]",
       "stops at an operation: in SCOPE, label NAME, shape [2,3], nan, nan arises, forward, backward, if max > 3",
       &Session::set_breakpoint},
      {"tbreak", "tb", "[OPERATION] [WHERE]", "like break, for one stop", &Session::set_temporary_breakpoint},
      {"watch", "", "LABEL", "stops where the value of this label has changed", &Session::watch},
      {"ignore", "", "NUMBER TIMES", "passes a breakpoint this many times", &Session::ignore_breakpoint},
      {"breakpoints", "", "", "lists the breakpoints", &Session::list_breakpoints},
      {"delete", "d", "[NUMBER]", "deletes a breakpoint, or all", &Session::delete_breakpoints},
      {"back", "", "[NUMBER]", "lists the operations that ran before", &Session::back},
      {"list", "l", "[LINES]", "shows the source around this place", &Session::list},
      {"backtrace", "bt", "", "lists the running functions of the program, innermost first", &Session::backtrace},
      {"up", "", "[NUMBER]", "selects the function that called this one, for `list`", &Session::up},
      {"down", "", "[NUMBER]", "selects the function that this one called", &Session::down},
      {"info", "i", "", "says why the program stopped here, and the state of the debugger", &Session::info},
      {"where", "w", "", "lists the handlers and scopes around this place, innermost first", &Session::where},
      {"print", "p", "[in0|LABEL|in0 - in1]",
       "shows operands and outputs; for one of them, or an expression, also the elements", &Session::print},
      {"perform", "", "", "performs the operation, and stops after it", &Session::perform_here},
      {"skip", "", "VALUE", "uses this value instead of performing the operation: 0.5, [1, 2], in0, x.npy",
       &Session::skip},
      {"replace", "r", "[out1] VALUE", "uses this value instead of an output", &Session::replace},
      {"drop", "quit", "", "ends the function without running the rest", &Session::drop},
      {"help", "h", "[COMMAND]", "an empty line repeats the last command that continued; # begins a comment",
       &Session::help},
  };
  return list;
}

}  // namespace

std::shared_ptr<DebuggerSession> DebuggerSession::begin(const DebuggerOptions& options) {
  return std::make_shared<Session>(options);
}

}  // namespace stave_detail
