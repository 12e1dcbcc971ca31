#include <stave/core/io/file.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <stave/core/tensor/utf8.h>

namespace stave_detail {

namespace fs = std::filesystem;

// The most bytes for one call of read or write: Linux transfers at most 2^31 - 4096 bytes.
constexpr std::size_t most_at_once = std::size_t{1} << 30;

std::string system_error_text() { return std::generic_category().message(errno); }

std::string shown(std::string_view text) {
  constexpr std::size_t most = 100;
  std::string result;
  while (!text.empty()) {
    if (result.size() >= most) return result + "...";
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control = first < ' ' || first == 0x7f || (first == 0xc2 && length == 2 && text[1] < '\xa0');
    const std::size_t taken = std::max<std::size_t>(length, 1);
    for (std::size_t i = 0; i < taken; ++i)
      if (length == 0 || control) result += escaped_byte(text[i]);
      else result += text[i];
    text.remove_prefix(taken);
  }
  return result;
}

// ---- Descriptor ---------------------------------------------------------------------------------

Descriptor::~Descriptor() { close(); }

bool Descriptor::close() noexcept {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0;
}

// ---- InputFile ----------------------------------------------------------------------------------

// Opens the file with O_NONBLOCK, because opening a pipe without a writer would wait.
InputFile::InputFile(std::string operation, const std::string& path)
    : operation_(std::move(operation)), where_(operation_ + ": " + path),
      file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), size_(0) {
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0)
    fail<FileError>("{}: cannot be opened: {}", where_, system_error_text());
  if (S_ISDIR(status.st_mode)) fail<FileError>("{}: is a folder", where_);
  if (!S_ISREG(status.st_mode)) fail<FileError>("{}: is not a regular file", where_);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t offset, void* to, std::size_t n) const {
  if (offset > size_ || n > size_ - offset)
    fail<FileError>("{}: the file ends after {} bytes, but {} bytes are expected from byte {} on", where_, size_, n,
                    offset);
  for (char* at = static_cast<char*>(to); n > 0;) {
    const ssize_t got = ::pread(file_.get(), at, std::min(n, most_at_once), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail<FileError>("{}: cannot be read: {}", where_, system_error_text());
    if (got == 0) fail<FileError>("{}: ended at byte {}: another program shortened it", where_, offset);
    at += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

// ---- OutputFile ---------------------------------------------------------------------------------

namespace {

// Returns the path of the file to replace. Follows symbolic links, so that the file is replaced and
// not the link.
std::string target_of(const std::string& path, const std::string& where) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status))
    fail<FileError>("{}: is {}, and is not overwritten by a file", where,
                    fs::is_directory(status) ? "a folder" : "not a regular file");
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
  const fs::path target = fs::canonical(path, error);
  if (error) fail<FileError>("{}: is a symbolic link to a file that does not exist", where);
  return target.string();
}

constexpr std::string_view part_mark = ".stave-", part_suffix = ".part";

std::string temporary_name(const std::string& target, int number) {
  return fmt::format("{}{}{}{}", target, part_mark, number, part_suffix);
}

enum class Lock { taken, held_by_another, unsupported };

Lock lock(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno == EWOULDBLOCK ? Lock::held_by_another : Lock::unsupported;
  return Lock::taken;
}

// Opens a file in order to lock it: for writing, because some systems lock no other files, or for
// reading if writing is not permitted.
int open_to_lock(const std::string& name) {
  constexpr int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = ::open(name.c_str(), O_RDWR | flags);
  return fd >= 0 || errno != EACCES ? fd : ::open(name.c_str(), O_RDONLY | flags);
}

bool is_called(int fd, const std::string& name) {
  struct stat held {
  }, named{};
  return ::fstat(fd, &held) == 0 && ::lstat(name.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

bool exists(const std::string& name) {
  struct stat status {};
  return ::lstat(name.c_str(), &status) == 0;
}

// Creates a file with the permissions of the file that it replaces, if there is one.
int create(const std::string& name, const std::string& target) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  struct stat old {};
  if (fd >= 0 && ::stat(target.c_str(), &old) == 0) static_cast<void>(::fchmod(fd, old.st_mode & 07777));
  return fd;
}

// Waits until the file is on the disk; returns false on an error. Some file systems have nothing to
// wait for, and return EINVAL or ENOTSUP.
bool is_on_disk(int fd) { return ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP; }

}  // namespace

bool is_temporary(std::string_view name) { return name.ends_with(part_suffix); }

// Only the process that holds a file's lock may rename or remove the file. So if the locked file
// still has this name, no other process can replace it, and the right file is removed.
bool remove_stale_temporary(const std::string& name) {
  const Descriptor part(open_to_lock(name));
  struct stat status {};
  if (part.get() >= 0 && ::fstat(part.get(), &status) == 0 && S_ISREG(status.st_mode) &&
      lock(part.get()) == Lock::taken && is_called(part.get(), name))
    ::unlink(name.c_str());
  return !exists(name);
}

namespace {

// Creates a new file and locks it. Returns nothing if there is a file of this name. Also returns
// nothing if another process locked the new file first: that process takes the file for one that a
// killed process has left, and removes it.
std::optional<Descriptor> create_locked(const std::string& name, const std::string& target, const std::string& where) {
  Descriptor file(create(name, target));
  if (file.get() < 0 && errno == EEXIST) return std::nullopt;
  if (file.get() < 0) fail<FileError>("{}: cannot be written: {}", where, system_error_text());
  const bool is_ours = lock(file.get()) != Lock::held_by_another && is_called(file.get(), name);
  return is_ours ? std::optional(std::move(file)) : std::nullopt;
}

}  // namespace

// Creates the file under the first free number, then goes on to higher numbers to remove the files
// of killed processes. It stops only when several numbers in a row are free, because the numbers of
// these files may have gaps.
OutputFile::Part OutputFile::create_part(const std::string& target, const std::string& where) {
  constexpr int most_free = 16, most_taken = 10'000;
  std::string name;
  std::optional<Descriptor> file;
  for (int number = 0, free = 0; !file || free < most_free; ++number) {
    if (number == most_taken)
      fail<FileError>("{}: cannot be written: all names for a temporary file beside it are in use, up to {}", where,
                      temporary_name(target, number - 1));
    std::string numbered = temporary_name(target, number);
    const bool is_free = !exists(numbered) || remove_stale_temporary(numbered);
    free = is_free ? free + 1 : 0;
    if (!is_free || file) continue;
    if (auto created = create_locked(numbered, target, where)) {
      file.emplace(std::move(*created));
      name = std::move(numbered);
    }
  }
  return {std::move(name), std::move(*file)};
}

OutputFile::OutputFile(std::string operation, const std::string& path)
    : where_(std::move(operation) + ": " + path), target_(target_of(path, where_)),
      part_(create_part(target_, where_)) {}

OutputFile::~OutputFile() {
  if (!part_.name.empty()) ::unlink(part_.name.c_str());
}

void OutputFile::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(part_.file.get(), bytes.data(), std::min(bytes.size(), most_at_once));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail<FileError>("{}: cannot be written: {}", where_, system_error_text());
    size_ += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void OutputFile::finish() {
  // Some systems report only at close() that a write failed. The first descriptor keeps the lock,
  // so a duplicate is closed.
  Descriptor copy(::dup(part_.file.get()));
  const bool is_whole = copy.get() >= 0 && is_on_disk(part_.file.get()) && copy.close();
  if (!is_whole || ::rename(part_.name.c_str(), target_.c_str()) != 0)
    fail<FileError>("{}: cannot be written: {}", where_, system_error_text());
  part_.name.clear();
  const std::string folder = fs::path(target_).parent_path().string();
  const Descriptor entries(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // The descriptor is negative if the folder may be written to but not read.
  if (entries.get() >= 0 && !is_on_disk(entries.get()))
    fail<FileError>("{}: is written, but its name may not be on the disk yet: {}", where_, system_error_text());
}

// ---- Source -------------------------------------------------------------------------------------

void Source::read(void* to, std::size_t n) {
  if (n > left_) fail<FileError>("{}: ends too early: {} bytes should follow, but {} are left", where_, n, left_);
  do_read(static_cast<char*>(to), n);
  left_ -= n;
}

void FileSource::do_read(char* to, std::size_t n) {
  file_.read(offset_, to, n);
  offset_ += n;
}

}  // namespace stave_detail
