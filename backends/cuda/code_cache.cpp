#include <stave/backends/cuda/code_cache.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace stave_cuda {

namespace fs = std::filesystem;

void Hash::add_byte(unsigned char byte) {
  constexpr Wide prime = (Wide{1} << 88) + 0x13b;
  state_ = (state_ ^ byte) * prime;
}
void Hash::add(std::string_view bytes) {
  for (std::uint64_t rest = bytes.size(), i = 0; i < 8; ++i, rest >>= 8) add_byte(static_cast<unsigned char>(rest));
  for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
}
std::array<std::uint64_t, 2> Hash::words() const {
  return {static_cast<std::uint64_t>(state_ >> 64), static_cast<std::uint64_t>(state_)};
}
std::string Hash::hexadecimal() const { return fmt::format("{:016x}{:016x}", words()[0], words()[1]); }

namespace {

/// The header of a cache file. The compiled code follows it.
struct Head {
  std::array<char, 8> kind{'s', 't', 'a', 'v', 'e', ' ', '1', '\n'};
  std::array<std::uint64_t, 2> key{}, checksum{};
  std::uint64_t bytes = 0;

  Head(const Hash& key, std::string_view code) : key(key.words()), bytes(code.size()) {
    Hash sum;
    sum.add(code);
    checksum = sum.words();
  }
};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  explicit operator bool() const { return descriptor_ >= 0; }
  /// Returns the size in bytes, or nothing if the file is not a regular file.
  std::optional<std::size_t> size() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<std::size_t>(status.st_size);
  }
  bool read(char* to, std::size_t bytes) {
    return all(bytes, [&](std::size_t done) { return ::read(descriptor_, to + done, bytes - done); });
  }
  bool write(const char* from, std::size_t bytes) {
    return all(bytes, [&](std::size_t done) { return ::write(descriptor_, from + done, bytes - done); });
  }

 private:
  template <class Some>
  static bool all(std::size_t bytes, Some some) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t now = some(done);
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) return false;
      done += static_cast<std::size_t>(now);
    }
    return true;
  }

  int descriptor_;
};

fs::path file_of(const fs::path& folder, const Hash& key) { return folder / (key.hexadecimal() + ".code"); }

/// Returns the path in an environment variable, or an empty path if it is not absolute. A relative
/// folder would depend on where a program is started, and the XDG specification says to ignore it.
fs::path absolute_path_in(const char* variable) {
  const char* const value = std::getenv(variable);
  const fs::path path(value ? value : "");
  return path.is_absolute() ? path : fs::path();
}

}  // namespace

fs::path code_folder() {
  if (fs::path own = absolute_path_in("STAVE_CACHE"); !own.empty()) return own;
  if (const fs::path caches = absolute_path_in("XDG_CACHE_HOME"); !caches.empty()) return caches / "stave";
  const fs::path home = absolute_path_in("HOME");
  return home.empty() ? home : home / ".cache" / "stave";
}

std::optional<std::string> read_code(const fs::path& folder, const Hash& key) {
  if (folder.empty()) return std::nullopt;
  File file(::open(file_of(folder, key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const auto size = file ? file.size() : std::nullopt;
  if (!size || *size <= sizeof(Head)) return std::nullopt;
  char head[sizeof(Head)];
  std::string code(*size - sizeof(Head), '\0');
  if (!file.read(head, sizeof head) || !file.read(code.data(), code.size())) return std::nullopt;
  const Head expected(key, code);
  if (std::memcmp(head, &expected, sizeof head) != 0) return std::nullopt;
  return code;
}

void write_code(const fs::path& folder, const Hash& key, std::string_view code) noexcept {
  if (folder.empty()) return;
  try {
    std::error_code failed;
    fs::create_directories(folder, failed);
    std::string name = file_of(folder, key).string() + ".XXXXXX";
    File file(::mkstemp(name.data()));
    if (!file) return;
    const Head head(key, code);
    const bool written =
        file.write(reinterpret_cast<const char*>(&head), sizeof head) && file.write(code.data(), code.size());
    if (!written || ::rename(name.c_str(), file_of(folder, key).c_str()) != 0) ::unlink(name.c_str());
  } catch (const std::exception&) {  // memory is exhausted: the code is not cached
  }
}

}  // namespace stave_cuda
