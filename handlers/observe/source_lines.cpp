#include <stave/handlers/observe/source_lines.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
// Other C libraries have neither backtrace nor dladdr1; the call stack is unknown there.
#ifdef __GLIBC__
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#endif

extern "C" char** environ;

namespace stave_detail {

CallStack call_stack() {
#ifdef __GLIBC__
  std::array<void*, 128> addresses;
  const int count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
  return CallStack(addresses.begin() + std::min(count, 1), addresses.begin() + count);
#else
  return {};
#endif
}

std::string SourceFrame::file_name() const { return file.substr(file.find_last_of('/') + 1); }
std::string SourceFrame::place() const { return file.empty() ? "" : fmt::format("{}:{}", file_name(), line); }
std::string SourceFrame::str() const {
  return place() + (file.empty() || function.empty() ? "" : " ") + (function.empty() ? "" : "in " + function);
}

namespace {

// ---- names of functions ------------------------------------------------------------------

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return text ? text.get() : name;
}

// Returns whether a mangled name belongs to Stave or the C++ library, judged by its outermost
// namespace, or to the start-up code of the C library.
bool is_library_function(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return mangled.starts_with("__libc_") || mangled == "_start";
  mangled.remove_prefix(2);
  while (!mangled.empty() && std::string_view("ZNKVRO").find(mangled[0]) != std::string_view::npos)
    mangled.remove_prefix(1);
  for (const char* prefix :
       {"5stave", "12stave_detail", "11stave_tables", "St", "Sa", "Ss", "9__gnu_cxx", "10__cxxabiv1"})
    if (mangled.starts_with(prefix)) return true;
  return false;
}

// Returns whether a file belongs to Stave (in its source folders or its installed headers)
// or to the compiler.
bool is_library_file(const std::string& file) {
  static const std::string sources = [] {
    const std::string here = __FILE__;
    const std::size_t folder = here.rfind("handlers/");
    return folder == std::string::npos ? std::string("/") : here.substr(0, folder);
  }();
  for (const char* layer : {"core/", "handlers/", "backends/"})
    if (file.starts_with(sources + layer) || file.find(std::string("/stave/") + layer) != std::string::npos)
      return true;
  return file.find("/include/c++/") != std::string::npos || file.starts_with("/usr/lib/gcc/");
}

// ---- modules: programs and shared libraries ----------------------------------------------

struct CodeAddress {
  std::string module;
  std::uintptr_t address = 0;  // The address within the module's file.
};

#ifdef __GLIBC__
std::optional<CodeAddress> address_of(void* return_address) {
  // An address within the call instruction.
  void* const inside = static_cast<char*>(return_address) - 1;
  Dl_info info{};
  link_map* map = nullptr;
  if (!dladdr1(inside, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return std::nullopt;
  std::string module = map->l_name;
  if (module.empty()) {
    std::array<char, 4096> path;
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    if (length <= 0) return std::nullopt;
    module.assign(path.data(), static_cast<std::size_t>(length));
  }
  const std::string name = module.substr(module.find_last_of('/') + 1);
  for (const char* of_others :
       {"libstave", "libc.so", "libc-", "libstdc++", "libc++", "libgcc_s", "libm.so", "ld-linux"})
    if (name.starts_with(of_others)) return std::nullopt;
  return CodeAddress{std::move(module), reinterpret_cast<std::uintptr_t>(inside) - map->l_addr};
}
#else
std::optional<CodeAddress> address_of(void*) { return std::nullopt; }
#endif

// ---- addr2line ---------------------------------------------------------------------------

// Returns the standard output of a program; empty if it cannot be run.
std::string output_of(const std::vector<std::string>& command) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments, environment;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // Without this variable, addr2line does not fetch debug information from servers.
  for (char** variable = environ; *variable; ++variable)
    if (std::strncmp(*variable, "DEBUGINFOD_URLS=", 16) != 0) environment.push_back(*variable);
  environment.push_back(nullptr);
  pid_t child = 0;
  const bool runs = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data()) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  std::string text;
  std::array<char, 4096> bytes;
  for (ssize_t got;
       runs && ((got = read(pipe_ends[0], bytes.data(), bytes.size())) > 0 || (got < 0 && errno == EINTR));)
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
  close(pipe_ends[0]);
  if (runs) waitpid(child, nullptr, 0);
  return text;
}

std::string addresses_to_lines(const std::string& module, const std::vector<std::uintptr_t>& addresses) {
  std::vector<std::string> command{"", "-f", "-i", "-a", "-e", module};
  for (const std::uintptr_t address : addresses) command.push_back(fmt::format("{:#x}", address));
  for (const char* tool : {"addr2line", "llvm-addr2line"}) {
    command[0] = tool;
    if (std::string text = output_of(command); !text.empty()) return text;
  }
  return "";
}

// Reads file and line from text such as "model.cpp:12 (discriminator 3)"; ignores "??:0".
void read_place(std::string_view text, SourceFrame& frame) {
  text = text.substr(0, text.find(" ("));
  const std::size_t colon = text.find_last_of(':');
  if (colon == std::string_view::npos || text.starts_with("??")) return;
  int line = 0;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
  if (line == 0) return;
  frame.file = text.substr(0, colon);
  frame.line = line;
}

// Parses the output of addr2line: for each address a line with it, then pairs of lines
// with a function and its file and line. Inlined functions come first:
//   0x1234
//   square
//   model.cpp:12
std::vector<std::vector<SourceFrame>> read_frames(const std::string& text) {
  std::vector<std::vector<SourceFrame>> found;
  std::size_t at = 0;
  const auto next_line = [&] {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
    return line;
  };
  while (at < text.size()) {
    const std::string function = next_line();
    if (function.starts_with("0x")) {
      found.emplace_back();
      continue;
    }
    SourceFrame frame;
    read_place(next_line(), frame);
    if (found.empty() || is_library_function(function) || is_library_file(frame.file)) continue;
    if (function != "??") frame.function = short_function(demangled(function));
    if (!frame.function.empty() || !frame.file.empty()) found.back().push_back(std::move(frame));
  }
  return found;
}

}  // namespace

std::string short_function(std::string_view demangled) {
  std::string text;
  int depth = 0;
  bool lambda = false;
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    const std::string_view rest = demangled.substr(i);
    if (depth == 0) {
      if (rest.starts_with("operator()") || rest.starts_with("operator<") || rest.starts_with("operator>")) {
        const std::size_t name = rest.starts_with("operator()") ? 10 : 9;
        text += rest.substr(0, name);
        i += name - 1;
        continue;
      }
      if (rest.starts_with("(anonymous namespace)::")) {
        i += 22;
        continue;
      }
      if (rest.starts_with("{lambda") || rest.starts_with("'lambda") || rest.starts_with("$_")) {
        lambda = true;
        break;
      }
      if (rest.starts_with(" const")) break;
    }
    const char c = demangled[i];
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    else if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    else if (depth == 0) text += c;
  }
  while (text.ends_with(' ')) text.pop_back();
  // Removes the return type.
  if (!text.starts_with("operator")) text = text.substr(text.find_last_of(' ') + 1);
  while (text.ends_with(':')) text.pop_back();
  if (lambda) return text.empty() ? "lambda" : "lambda in " + text;
  return text == "operator()" ? "lambda" : text;
}

void SourceLines::look_up(std::span<const CallStack* const> stacks) {
  std::map<std::string, std::pair<std::vector<void*>, std::vector<std::uintptr_t>>> wanted;
  for (const CallStack* stack : stacks)
    for (void* const address : *stack) {
      if (!frames_.try_emplace(address).second) continue;
      if (std::optional<CodeAddress> place = address_of(address)) {
        auto& [addresses, in_file] = wanted[std::move(place->module)];
        addresses.push_back(address);
        in_file.push_back(place->address);
      }
    }
  for (const auto& [module, both] : wanted) {
    std::vector<std::vector<SourceFrame>> found = read_frames(addresses_to_lines(module, both.second));
    for (std::size_t i = 0; i < std::min(found.size(), both.first.size()); ++i)
      frames_[both.first[i]] = std::move(found[i]);
  }
}

std::vector<SourceFrame> SourceLines::frames_of(std::span<void* const> stack) {
  const CallStack all(stack.begin(), stack.end());
  const CallStack* const one = &all;
  look_up({&one, 1});
  std::vector<SourceFrame> frames;
  for (void* const address : stack)
    for (const SourceFrame& frame : frames_[address])
      if (frames.empty() || frames.back() != frame) frames.push_back(frame);
  return frames;
}

SourceFrame SourceLines::innermost(std::span<void* const> stack) {
  for (const SourceFrame& frame : frames_of(stack))
    if (!frame.file.empty()) return frame;
  return {};
}

const std::vector<std::string>& SourceLines::text_of(const std::string& file) {
  const auto [found, is_new] = texts_.try_emplace(file);
  if (is_new) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) found->second.push_back(std::move(line));
  }
  return found->second;
}

}  // namespace stave_detail
