// Compiled code on disk, so that the next process need not compile it again.
//
// A file for each piece of code, named by the hash of all that the code depends on. It holds that hash, and a checksum of the code: one that is
// damaged, cut off or somebody else's is as if it were not there. Files are written under another name and renamed, so processes that
// write the same one at once are no trouble. Where nothing can be written, nothing is kept, and that is no error.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stave_cuda {

/// FNV-1a of 128 bits (RFC 9923).
class Hash {
 public:
  void add(std::string_view bytes);  // after their number, so that it matters where parts end
  std::array<std::uint64_t, 2> words() const;
  std::string hexadecimal() const;
  friend bool operator==(const Hash&, const Hash&) = default;

 private:
  __extension__ using Wide = unsigned __int128;
  void add_byte(unsigned char byte);
  Wide state_ = (Wide{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;
};

/// $STAVE_CACHE, else $XDG_CACHE_HOME/stave, else ~/.cache/stave; empty where none of them is set: nothing is kept.
std::filesystem::path code_folder();

/// What was written under this key, whole.
std::optional<std::string> read_code(const std::filesystem::path& folder, const Hash& key);
void write_code(const std::filesystem::path& folder, const Hash& key, std::string_view code) noexcept;

}  // namespace stave_cuda
