#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include <stave/core/io/zip.h>
#include <stave/core/io/zip_records.h>

namespace stave_detail {

namespace {

using Pieces = std::span<const std::span<const char>>;

constexpr unsigned version_deflate = 20, version_zip64 = 45, made_on_unix = 3 << 8;
// 1 January 1980, a fixed date, so that the same tensors always make the same file. [4.4.6]
constexpr unsigned date_1980 = 1 << 5 | 1;
constexpr std::uint64_t permissions = std::uint64_t{0100644} << 16;

// Compresses pieces by deflate, without a zlib header.
class Deflater {
 public:
  Deflater() {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  std::vector<char> pack(Pieces pieces) {
    for (std::span<const char> piece : pieces)
      while (!piece.empty()) {
        const std::size_t n = std::min<std::size_t>(piece.size(), std::numeric_limits<uInt>::max());
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
        stream_.avail_in = static_cast<uInt>(n);
        run(Z_NO_FLUSH);
        piece = piece.subspan(n);
      }
    run(Z_FINISH);
    return std::move(packed_);
  }

 private:
  void run(int flush) {
    char buffer[1 << 15];
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer);
      stream_.avail_out = sizeof buffer;
      deflate(&stream_, flush);
      packed_.insert(packed_.end(), buffer, buffer + (sizeof buffer - stream_.avail_out));
    } while (stream_.avail_out == 0);
  }

  z_stream stream_{};
  std::vector<char> packed_;
};

unsigned flags_of(const std::string& name) {
  const bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return ascii ? 0 : flag_utf8;
}

}  // namespace

void ZipWriter::add(const std::string& name, Pieces pieces, bool compressed) {
  if (name.size() > 0xffff) fail<FileError>("{}: the name of an entry has {} bytes", file_.where(), name.size());
  ZipEntry entry{.name = name, .flags = flags_of(name), .offset = file_.size()};
  uLong crc = ::crc32(0, nullptr, 0);
  for (std::span<const char> piece : pieces) {
    if (!piece.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    entry.size += piece.size();
  }
  entry.crc = static_cast<std::uint32_t>(crc);
  entry.packed = entry.size;
  std::vector<char> packed;
  std::span<const char> packed_piece;
  if (compressed) {
    packed = Deflater().pack(pieces);
    packed_piece = packed;
    pieces = Pieces(&packed_piece, 1);
    entry.method = method_deflated;
    entry.packed = packed.size();
  }
  file_.write(local_header(entry));
  for (std::span<const char> piece : pieces) file_.write(piece);
  entries_.push_back(std::move(entry));
}

// The local header of an entry. With zip64, both sizes are in the extra field. [4.3.7]
std::string ZipWriter::local_header(const ZipEntry& entry) const {
  const bool wide = is_large(entry.size) || is_large(entry.packed);
  Record record;
  record.u32(local_signature).u16(wide ? version_zip64 : version_deflate).u16(entry.flags).u16(entry.method);
  record.u16(0).u16(date_1980).u32(entry.crc);
  record.u32(wide ? 0xffffffff : entry.packed).u32(wide ? 0xffffffff : entry.size);
  record.u16(entry.name.size()).u16(wide ? 20 : 0).text(entry.name);
  if (wide) record.u16(extra_zip64).u16(16).u64(entry.size).u64(entry.packed);
  return record.bytes;
}

// The directory record of an entry. [4.3.12]
std::string ZipWriter::directory_record(const ZipEntry& entry) const {
  Record extra;
  for (const std::uint64_t number : {entry.size, entry.packed, entry.offset})
    if (is_large(number)) extra.u64(number);
  const auto narrow = [&](std::uint64_t number) { return is_large(number) ? 0xffffffff : number; };
  const std::size_t length = extra.bytes.size();
  const unsigned version = length ? version_zip64 : version_deflate;
  Record record;
  record.u32(directory_signature).u16(made_on_unix | version).u16(version).u16(entry.flags).u16(entry.method);
  record.u16(0).u16(date_1980).u32(entry.crc).u32(narrow(entry.packed)).u32(narrow(entry.size));
  record.u16(entry.name.size()).u16(length ? length + 4 : 0).u16(0).u16(0).u16(0).u32(permissions);
  record.u32(narrow(entry.offset)).text(entry.name);
  if (length) record.u16(extra_zip64).u16(length).text(extra.bytes);
  return record.bytes;
}

// Writes the directory, the zip64 end record and locator if needed, then the end record.
// [4.3.12 to 4.3.16]
void ZipWriter::finish() {
  const std::uint64_t offset = file_.size();
  for (const ZipEntry& entry : entries_) file_.write(directory_record(entry));
  const std::uint64_t bytes = file_.size() - offset, end = file_.size(), count = entries_.size();
  const bool many = count >= most_16_bit_, wide = many || is_large(bytes) || is_large(offset);
  Record record;
  if (wide) {
    record.u32(end64_signature).u64(end64_length - 12).u16(made_on_unix | version_zip64).u16(version_zip64);
    record.u32(0).u32(0).u64(count).u64(count).u64(bytes).u64(offset);
    record.u32(locator64_signature).u32(0).u64(end).u32(1);
  }
  record.u32(end_signature).u16(0).u16(0).u16(many ? 0xffff : count).u16(many ? 0xffff : count);
  record.u32(is_large(bytes) ? 0xffffffff : bytes).u32(is_large(offset) ? 0xffffffff : offset).u16(0);
  file_.write(record.bytes);
}

}  // namespace stave_detail
