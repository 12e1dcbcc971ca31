// Zip archives with stored and deflated entries, and zip64. Encrypted entries and archives of
// several parts are not supported.
// Source: PKWARE, APPNOTE.TXT 6.3.10 (numbers in brackets are its sections),
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
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
  std::uint64_t packed = 0, size = 0;  // the number of bytes in the archive, and when unpacked
  std::uint64_t offset = 0;            // the offset of the local header
};

/// Reads the directory of an archive. The constructor checks every number in it against the size of
/// the file: entries lie within the file and do not overlap, and none claims to unpack to more than
/// deflate could have packed. Throws FileError.
class ZipReader {
 public:
  explicit ZipReader(const InputFile& file);

  const std::vector<ZipEntry>& entries() const noexcept { return entries_; }
  /// A stream of the unpacked bytes of an entry. `open` throws FileError for an encrypted entry or
  /// an unknown method of compression.
  class Stream;
  std::unique_ptr<Stream> open(const ZipEntry& entry) const;

 private:
  const InputFile& file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::uint64_t> data_;  // for each entry, the offset of its bytes in the file
};

class ZipReader::Stream : public Source {
 public:
  using Source::Source;
  /// Reads the remaining bytes, and throws FileError unless the checksum is right.
  virtual void finish() = 0;
};

/// Writes an archive to a file.
class ZipWriter {
 public:
  /// Sizes and offsets from `most_32_bit` on, and numbers of entries from `most_16_bit` on,
  /// are written in zip64 fields. Tests use lower values, so that small archives have such fields.
  explicit ZipWriter(OutputFile& file, std::uint64_t most_32_bit = 0xffffffff, std::size_t most_16_bit = 0xffff)
      : file_(file), most_32_bit_(most_32_bit), most_16_bit_(most_16_bit) {}

  /// Adds an entry with the contents of these pieces, one after the other.
  void add(const std::string& name, std::span<const std::span<const char>> pieces, bool compressed);
  /// Writes the directory. No entry can be added after it.
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
