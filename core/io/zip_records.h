// Records of zip archives: their signatures and lengths, and functions that read and write numbers
// in little-endian bytes. Numbers in brackets are sections of APPNOTE.TXT (zip.h).
#pragma once

#include <stave/core/effects/settings.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace stave_detail {

inline constexpr std::uint32_t local_signature = 0x04034b50, directory_signature = 0x02014b50,
                               end_signature = 0x06054b50, end64_signature = 0x06064b50,
                               locator64_signature = 0x07064b50;  // [4.3.7 ... 4.3.16]
inline constexpr std::size_t local_length = 30, directory_length = 46, end_length = 22, end64_length = 56,
                             locator64_length = 20;
inline constexpr unsigned extra_zip64 = 1, method_stored = 0, method_deflated = 8, flag_encrypted = 1,
                          flag_utf8 = 0x800;

inline std::uint64_t little_endian(const char* at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(at[i]);
  return value;
}
inline unsigned read16(const char* at) { return static_cast<unsigned>(little_endian(at, 2)); }
inline std::uint32_t read32(const char* at) { return static_cast<std::uint32_t>(little_endian(at, 4)); }
inline std::uint64_t read64(const char* at) { return little_endian(at, 8); }

/// A record that is being built: Record().u32(signature).u16(version)...
struct Record {
  std::string bytes;
  Record& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& text(const std::string& value) {
    bytes += value;
    return *this;
  }
};

}  // namespace stave_detail
