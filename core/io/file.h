// Input files, read at any offset, and output files, which appear completely or not at all.
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

/// An open file descriptor, which the destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const noexcept { return fd_; }
  /// Closes the descriptor. Returns true if the system accepted everything that was written.
  bool close() noexcept;

 private:
  int fd_;
};

/// A regular file, open for reading. where() begins every error message: "load_npy: w.npy".
class InputFile {
 public:
  InputFile(std::string operation, const std::string& path);

  const std::string& operation() const noexcept { return operation_; }
  const std::string& where() const noexcept { return where_; }
  std::uint64_t size() const noexcept { return size_; }
  int descriptor() const noexcept { return file_.get(); }
  /// Reads bytes [offset, offset + n) of the file. Throws FileError if the file is shorter.
  void read(std::uint64_t offset, void* to, std::size_t n) const;

 private:
  std::string operation_, where_;
  Descriptor file_;
  std::uint64_t size_;
};

/// A file that is being written under a temporary name, in the folder of the file that it will
/// replace, the target. If finish() is not called, the destructor removes the temporary file. The
/// constructor removes temporary files that killed processes have left for the same target.
///
/// A file in progress is called NAME.stave-0.part, or has the first free number in place of 0.
/// Its process holds a lock on it (flock), which ends with the process. So a file that can be
/// locked was left by a killed process. A process id in the name would not show this: in a
/// container that starts again, the new process may have the id of the killed one. On a file system
/// without locks, the files of killed processes stay, and new files get free numbers.
class OutputFile {
 public:
  OutputFile(std::string operation, const std::string& path);
  ~OutputFile();

  const std::string& where() const noexcept { return where_; }
  /// The number of bytes written.
  std::uint64_t size() const noexcept { return size_; }
  void write(std::span<const char> bytes);
  /// Writes the file to the disk, then renames it to the target. After a crash of the machine there
  /// is either the old file or the new one. Throws FileError.
  void finish();

 private:
  struct Part {
    std::string name;  // empty once the file has the name of the target
    Descriptor file;   // the open file, which holds the lock
  };
  static Part create_part(const std::string& target, const std::string& where);

  std::string where_, target_;
  Part part_;
  std::uint64_t size_ = 0;
};

/// Returns true if a file of this name may be a temporary file of an OutputFile.
bool is_temporary(std::string_view name);
/// Removes a temporary file that a killed process has left, but not one in progress. Returns false
/// if there still is a file of this name.
bool remove_stale_temporary(const std::string& name);

/// The text of errno, such as "No such file or directory".
std::string system_error_text();

/// Returns the beginning of a text from a file, as error messages show it: with "\xNN" for bytes
/// that cannot be printed.
std::string shown(std::string_view text);

/// A stream of bytes: a part of a file, or the unpacked contents of a compressed part.
class Source {
 public:
  virtual ~Source() = default;
  /// Reads n bytes. Throws FileError if fewer are left.
  void read(void* to, std::size_t n);
  std::uint64_t left() const noexcept { return left_; }
  /// The beginning of every error message.
  const std::string& where() const noexcept { return where_; }

 protected:
  Source(std::string where, std::uint64_t bytes) : where_(std::move(where)), left_(bytes) {}
  virtual void do_read(char* to, std::size_t n) = 0;

 private:
  std::string where_;
  std::uint64_t left_;
};

/// The `bytes` bytes of a file that begin at `offset`.
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
