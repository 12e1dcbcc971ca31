// Files as the formats see them: bytes at offsets, and new files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

using namespace stave;

/// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const noexcept { return fd_; }
  /// True if the system took note of all that was written. The descriptor is closed.
  bool close() noexcept;

 private:
  int fd_;
};

/// A regular file to read from. `where` begins every error: "load_npy: w.npy".
class InputFile {
 public:
  InputFile(std::string operation, const std::string& path);

  const std::string& operation() const noexcept { return operation_; }
  const std::string& where() const noexcept { return where_; }
  std::uint64_t size() const noexcept { return size_; }
  int descriptor() const noexcept { return file_.get(); }
  /// Bytes [offset, offset + n) of the file. Throws FileError where the file ends before.
  void read(std::uint64_t offset, void* to, std::size_t n) const;

 private:
  std::string operation_, where_;
  Descriptor file_;
  std::uint64_t size_;
};

/// A file under way, beside the one that it will replace. Without finish() nothing remains of it.
/// The constructor removes what killed processes have left of the same file.
///
/// A file under way is called NAME.stave-0.part, or has the first higher number that is free. Its
/// process holds a lock on it (flock), which ends with the process. So a dead file is one that can
/// be locked. The process's id would not tell: in a container that starts again, the new process
/// has the id of the dead one. On a file system without locks dead files stay, and new ones get
/// free numbers.
class OutputFile {
 public:
  OutputFile(std::string operation, const std::string& path);
  ~OutputFile();

  const std::string& where() const noexcept { return where_; }
  /// Bytes written.
  std::uint64_t size() const noexcept { return size_; }
  void write(std::span<const char> bytes);
  /// Closes it and gives it its name: on the disk, so that after a crash of the machine either the old file is there or the new one.
  void finish();

 private:
  struct Part {
    std::string name;  // empty once the file has that of the target
    Descriptor file;   // with the lock
  };
  static Part create_part(const std::string& target, const std::string& where);

  std::string where_, target_;
  Part part_;
  std::uint64_t size_ = 0;
};

/// Whether a file of this name may be what an OutputFile has under way.
bool is_part(std::string_view name);
/// Removes a file that a killed process has left, and none that is under way. False: there is still
/// a file of this name.
bool remove_dead_part(const std::string& name);

/// "No such file or directory" and the like, of errno.
std::string system_error_text();

/// Text out of a file, or for one, as it goes into an error: the beginning, with "\xNN" for bytes that do not print.
std::string shown(std::string_view text);

/// Bytes one after the other, of a file or of what is unpacked from it.
class Source {
 public:
  virtual ~Source() = default;
  /// Throws FileError if fewer than n are left.
  void read(void* to, std::size_t n);
  std::uint64_t left() const noexcept { return left_; }
  /// Begins every error.
  const std::string& where() const noexcept { return where_; }

 protected:
  Source(std::string where, std::uint64_t bytes) : where_(std::move(where)), left_(bytes) {}
  virtual void do_read(char* to, std::size_t n) = 0;

 private:
  std::string where_;
  std::uint64_t left_;
};

/// `bytes` bytes of a file from `offset` on.
class FileSource : public Source {
 public:
  FileSource(const InputFile& file, std::string where, std::uint64_t offset, std::uint64_t bytes)
      : Source(std::move(where), bytes), file_(file), offset_(offset) {}

 protected:
  void do_read(char* to, std::size_t n) override;

 private:
  const InputFile& file_;
  std::uint64_t offset_;
};

}  // namespace stave_detail
