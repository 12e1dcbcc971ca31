// Definitions shared by the tests of files: a temporary folder, files of given bytes, and .npy
// files written by hand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace stave_test {

namespace fs = std::filesystem;

/// A folder that is removed with its contents.
struct Folder {
  const std::string path = [] {
    std::string name = ::testing::TempDir() + "stave-XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
  Folder() {}
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path)) found.push_back(entry.path().filename());
    return found;
  }
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline const std::string& with_bytes(const std::string& path, const std::string& bytes) {
  // ext4 waits for the disk when an existing file is truncated and written again.
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

/// Returns the bytes of a .npy file of format 1.0 with this header dictionary.
inline std::string npy(const std::string& dictionary, const std::string& elements = "") {
  std::string bytes = "\x93NUMPY";
  bytes += {'\1', '\0', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return bytes + dictionary + elements;
}

}  // namespace stave_test
