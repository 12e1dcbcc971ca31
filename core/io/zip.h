// Zip archives: stored and deflated entries, zip64. Neither encrypted ones nor archives of several parts.
// Source: PKWARE, APPNOTE.TXT 6.3.10, https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (sections in brackets)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stave/core/io/file.h>

namespace stave_detail {

struct ZipEntry {
  std::string name;
  unsigned flags = 0, method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0;  // bytes in the archive, and unpacked
  std::uint64_t offset = 0;            // of its local header
};

/// The directory of an archive. Every number in it has been checked against the file's size when the constructor returns:
/// entries lie within the file and do not overlap, and none claims to unpack to more than deflate could have packed.
class ZipReader {
 public:
  explicit ZipReader(const InputFile& file);

  const std::vector<ZipEntry>& entries() const noexcept { return entries_; }
  /// The unpacked bytes of an entry. Throws for a method of packing that is unknown.
  class Stream;
  std::unique_ptr<Stream> open(const ZipEntry& entry) const;

 private:
  const InputFile& file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::uint64_t> data_;  // where the bytes of each entry begin
};

class ZipReader::Stream : public Source {
 public:
  using Source::Source;
  /// Reads what is left, and throws unless the checksum is right.
  virtual void finish() = 0;
};

/// Writes an archive.
class ZipWriter {
 public:
  /// Sizes and offsets from `most_32_bit` on are written in zip64 fields. (Another value is for tests.)
  explicit ZipWriter(OutputFile& file, std::uint64_t most_32_bit = 0xffffffff, std::size_t most_16_bit = 0xffff)
      : file_(file), most_32_bit_(most_32_bit), most_16_bit_(most_16_bit) {}

  /// An entry of these pieces, one after the other.
  void add(const std::string& name, std::span<const std::span<const char>> pieces, bool compressed);
  /// The directory: the last thing to write.
  void finish();

 private:
  bool is_large(std::uint64_t value) const noexcept { return value >= most_32_bit_; }
  std::string local_header(const ZipEntry& entry) const;
  std::string directory_record(const ZipEntry& entry) const;

  OutputFile& file_;
  std::uint64_t most_32_bit_;
  std::size_t most_16_bit_;
  std::vector<ZipEntry> entries_;
};

}  // namespace stave_detail
