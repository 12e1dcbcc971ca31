// A cache of compiled code on disk, so that the next process does not compile the code again.
//
// Each piece of code has a file named by the hash of everything that the code depends on. The file
// holds that hash and a checksum of the code. A damaged, truncated or foreign file is treated as
// absent. A file is written under a temporary name and then renamed, so processes may write the
// same file concurrently. If nothing can be written, nothing is cached, and this is no error.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stave_cuda {

/// The 128-bit FNV-1a hash (RFC 9923).
class Hash {
 public:
  // Hashes the number of bytes and then the bytes, so the boundaries between parts matter.
  void add(std::string_view bytes);
  std::array<std::uint64_t, 2> words() const;
  std::string hexadecimal() const;
  friend bool operator==(const Hash&, const Hash&) = default;

 private:
  __extension__ using Wide = unsigned __int128;
  void add_byte(unsigned char byte);
  Wide state_ = (Wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
};

/// Returns the cache folder: $STAVE_CACHE, else $XDG_CACHE_HOME/stave, else ~/.cache/stave.
/// A variable whose value is not an absolute path is ignored. The result is empty if no variable
/// remains; then nothing is cached.
std::filesystem::path code_folder();

/// Returns the code stored under this key, or nothing if there is no intact file.
std::optional<std::string> read_code(const std::filesystem::path& folder, const Hash& key);
void write_code(const std::filesystem::path& folder, const Hash& key, std::string_view code) noexcept;

}  // namespace stave_cuda
