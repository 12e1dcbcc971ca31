// Reader of zip archives: the end record of the file leads to the directory, which leads to the
// entries.
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <optional>

#include <stave/core/io/zip.h>
#include <stave/core/io/zip_records.h>

namespace stave_detail {

namespace {

// Deflate packs at most 258 bytes into 2 bits. (https://zlib.net/zlib_tech.html)
constexpr std::uint64_t most_compression = 1032;

// ---- the directory ------------------------------------------------------------------------------

struct Directory {
  std::uint64_t count, bytes, offset;
  std::uint64_t end;  // the offset in the file of the record after the directory
  // Returns how many bytes precede the archive in the file, such as the program of a
  // self-extracting archive. The offsets in the archive do not count them.
  std::uint64_t prefix() const { return end - bytes - offset; }
};

class DirectoryReader {
 public:
  explicit DirectoryReader(const InputFile& file) : file_(file) {}

  std::vector<ZipEntry> read() const {
    const Directory directory = find();
    if (directory.offset > directory.end || directory.bytes > directory.end - directory.offset)
      refuse("its directory does not lie within the file");
    const std::string bytes = read_at(directory.end - directory.bytes, directory.bytes);
    if (directory.count > bytes.size() / directory_length) refuse("its directory is too short for all its entries");
    std::vector<ZipEntry> entries;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < directory.count; ++i) entries.push_back(read_entry(bytes, at));
    if (at != bytes.size()) refuse("its directory does not have as many entries as it says");
    for (ZipEntry& entry : entries) {
      check(entry, directory);
      entry.offset += directory.prefix();
    }
    return entries;
  }

 private:
  [[noreturn]] void refuse(const char* fault) const {
    fail<FileError>("{}: is a damaged zip archive: {}", file_.where(), fault);
  }

  std::string read_at(std::uint64_t offset, std::uint64_t n) const {
    if (offset > file_.size() || n > file_.size() - offset) refuse("a record does not lie within the file");
    std::string bytes(static_cast<std::size_t>(n), '\0');
    file_.read(offset, bytes.data(), bytes.size());
    return bytes;
  }

  // Finds the end record, which is followed by a comment of up to 65535 bytes. [4.3.16]
  Directory find() const {
    const std::uint64_t tail = std::min<std::uint64_t>(file_.size(), end_length + 0xffff);
    const std::string bytes = read_at(file_.size() - tail, tail);
    for (std::size_t at = bytes.size(); at-- > 0;) {
      const std::size_t left = bytes.size() - at;
      if (left < end_length || read32(&bytes[at]) != end_signature) continue;
      if (read16(&bytes[at + 20]) != left - end_length) continue;
      return from_end(&bytes[at], file_.size() - left);
    }
    fail<FileError>("{}: is not a .npz file: a zip archive ends with a directory, and this file has none",
                    file_.where());
  }

  Directory from_end(const char* end, std::uint64_t at) const {
    const Directory directory{read16(end + 10), read32(end + 12), read32(end + 16), at};
    if (directory.count == 0xffff || directory.bytes == 0xffffffff || directory.offset == 0xffffffff)
      if (const std::optional<Directory> wide = from_end64(at)) return *wide;
    if (read16(end + 4) != 0 || read16(end + 6) != 0 || read16(end + 8) != directory.count)
      refuse("it is part of an archive of several files");
    return directory;
  }

  // Reads the zip64 end record, which is found by a locator right before the end record. Returns
  // nothing if there is no locator. [4.3.14, 4.3.15]
  std::optional<Directory> from_end64(std::uint64_t end) const {
    if (end < locator64_length) return {};
    const std::string locator = read_at(end - locator64_length, locator64_length);
    if (read32(locator.data()) != locator64_signature) return {};
    const auto begins_at = [&](std::uint64_t at) {
      return at <= end && end - at >= locator64_length + end64_length &&
             read32(read_at(at, end64_length).data()) == end64_signature;
    };
    std::uint64_t at = read64(&locator[8]);
    if (!begins_at(at) && end >= locator64_length + end64_length) at = end - locator64_length - end64_length;
    if (!begins_at(at)) refuse("its zip64 directory is not where it should be");
    const std::string record = read_at(at, end64_length);
    if (read32(&record[16]) != 0 || read32(&record[20]) != 0 || read64(&record[24]) != read64(&record[32]))
      refuse("it is part of an archive of several files");
    return Directory{read64(&record[32]), read64(&record[40]), read64(&record[48]), at};
  }

  // Reads a directory entry. [4.3.12]
  ZipEntry read_entry(const std::string& bytes, std::size_t& at) const {
    if (bytes.size() - at < directory_length || read32(&bytes[at]) != directory_signature)
      refuse("an entry of its directory does not begin where it should");
    const char* const record = &bytes[at];
    const std::size_t name = read16(record + 28), extra = read16(record + 30), comment = read16(record + 32);
    if (bytes.size() - at - directory_length < name + extra + comment) refuse("an entry of its directory is cut off");
    ZipEntry entry{.name = std::string(record + directory_length, name),
                   .flags = read16(record + 8),
                   .method = read16(record + 10),
                   .crc = read32(record + 16),
                   .packed = read32(record + 20),
                   .size = read32(record + 24),
                   .offset = read32(record + 42)};
    read_zip64(entry, std::string_view(record + directory_length + name, extra));
    at += directory_length + name + extra + comment;
    return entry;
  }

  // Replaces the numbers that do not fit in 32 bits by those of the extra field, which come in the
  // order size, packed, offset. [4.5.3]
  void read_zip64(ZipEntry& entry, std::string_view extra) const {
    while (extra.size() >= 4) {
      const unsigned id = read16(extra.data());
      const std::size_t length = read16(extra.data() + 2);
      if (length > extra.size() - 4) refuse("an extra field is cut off");
      std::string_view field = extra.substr(4, length);
      extra.remove_prefix(4 + length);
      if (id != extra_zip64) continue;
      for (std::uint64_t* number : {&entry.size, &entry.packed, &entry.offset}) {
        if (*number != 0xffffffff) continue;
        if (field.size() < 8) refuse("a zip64 field is cut off");
        *number = read64(field.data());
        field.remove_prefix(8);
      }
    }
  }

  void check(const ZipEntry& entry, const Directory& directory) const {
    if (entry.offset > directory.offset || entry.packed > directory.offset - entry.offset)
      refuse("an entry does not lie within the file");
    const bool plausible =
        entry.method == method_stored ? entry.size == entry.packed : entry.size / most_compression <= entry.packed;
    if (!plausible) refuse("an entry has an impossible size");
  }

  const InputFile& file_;
};

// ---- entries ------------------------------------------------------------------------------------

class StoredStream : public ZipReader::Stream {
 public:
  StoredStream(const InputFile& file, std::string where, std::uint64_t offset, const ZipEntry& entry)
      : Stream(where, entry.size), bytes_(file, std::move(where), offset, entry.packed), expected_(entry.crc) {}

  void finish() override {
    char buffer[4096];
    while (left() > 0) read(buffer, static_cast<std::size_t>(std::min<std::uint64_t>(left(), sizeof buffer)));
    check_end();
    if (crc_ != expected_)
      fail<FileError>("{}: is damaged: its checksum is {:08x}, not {:08x}", where(), crc_, expected_);
  }

 protected:
  void do_read(char* to, std::size_t n) override {
    unpack(to, n);
    if (n > 0) crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(to), n);
  }
  virtual void unpack(char* to, std::size_t n) { bytes_.read(to, n); }
  virtual void check_end() {}

  FileSource bytes_;

 private:
  std::uint32_t expected_;
  uLong crc_ = ::crc32(0, nullptr, 0);
};

class DeflatedStream : public StoredStream {
 public:
  DeflatedStream(const InputFile& file, std::string where, std::uint64_t offset, const ZipEntry& entry)
      : StoredStream(file, std::move(where), offset, entry) {
    // A negative window size means data without a zlib header: zip entries have no such header.
    if (inflateInit2(&inflater_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~DeflatedStream() override { inflateEnd(&inflater_); }

 protected:
  void unpack(char* to, std::size_t n) override {
    while (n > 0) {
      const auto piece = static_cast<uInt>(std::min<std::size_t>(n, std::numeric_limits<uInt>::max()));
      inflater_.next_out = reinterpret_cast<Bytef*>(to);
      inflater_.avail_out = piece;
      step();
      const uInt done = piece - inflater_.avail_out;
      if (ended_ && done < n) fail<FileError>("{}: is damaged: it unpacks to fewer bytes than it should", where());
      to += done;
      n -= done;
    }
  }
  // Checks, after all expected bytes have been unpacked, that the packed data unpacks to no more.
  void check_end() override {
    char excess;
    while (!ended_) {
      inflater_.next_out = reinterpret_cast<Bytef*>(&excess);
      inflater_.avail_out = 1;
      step();
      if (inflater_.avail_out == 0) fail<FileError>("{}: is damaged: it unpacks to more bytes than it should", where());
    }
  }

 private:
  void step() {
    if (inflater_.avail_in == 0 && bytes_.left() > 0) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_.left(), sizeof buffer_));
      bytes_.read(buffer_, n);
      inflater_.next_in = reinterpret_cast<Bytef*>(buffer_);
      inflater_.avail_in = static_cast<uInt>(n);
    }
    const int status = ended_ ? Z_STREAM_END : inflate(&inflater_, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    ended_ = status == Z_STREAM_END;
    if (status != Z_OK && !ended_)
      fail<FileError>("{}: is damaged: {}", where(), inflater_.msg ? inflater_.msg : "its packed bytes end too early");
  }

  z_stream inflater_{};
  bool ended_ = false;
  char buffer_[1 << 15];
};

}  // namespace

ZipReader::ZipReader(const InputFile& file) : file_(file), entries_(DirectoryReader(file).read()) {
  const auto refuse = [&](const ZipEntry& entry, const char* fault) {
    fail<FileError>("{}: is a damaged zip archive: entry '{}' {}", file.where(), shown(entry.name), fault);
  };
  for (const ZipEntry& entry : entries_) {
    char local[local_length];
    file.read(entry.offset, local, sizeof local);
    const std::size_t name = read16(local + 26), extra = read16(local + 28);
    const std::uint64_t begin = entry.offset + local_length + name + extra;
    if (read32(local) != local_signature || name != entry.name.size()) refuse(entry, "is not where the directory says");
    std::string found(name, '\0');
    file.read(entry.offset + local_length, found.data(), name);
    if (found != entry.name) refuse(entry, "is not where the directory says");
    if (begin > file.size() || entry.packed > file.size() - begin) refuse(entry, "does not lie within the file");
    data_.push_back(begin);
  }
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < entries_.size(); ++i) order.emplace_back(entries_[i].offset, i);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::size_t before = order[i - 1].second;
    if (data_[before] + entries_[before].packed > order[i].first) refuse(entries_[before], "overlaps another one");
  }
}

std::unique_ptr<ZipReader::Stream> ZipReader::open(const ZipEntry& entry) const {
  const std::string where = fmt::format("{}: entry '{}'", file_.where(), shown(entry.name));
  const std::uint64_t begin = data_[static_cast<std::size_t>(&entry - entries_.data())];
  if (entry.flags & flag_encrypted) fail<FileError>("{}: is encrypted", where);
  if (entry.method == method_stored) return std::make_unique<StoredStream>(file_, where, begin, entry);
  if (entry.method == method_deflated) return std::make_unique<DeflatedStream>(file_, where, begin, entry);
  fail<FileError>("{}: is packed by method {}: only stored (0) and deflated (8) entries can be read", where,
                  entry.method);
}

}  // namespace stave_detail
