// Tests the cache of compiled code on disk. A file that is damaged, truncated or made for another
// text counts as absent.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <stave/backends/cuda/code_cache.h>

namespace stave_cuda {
namespace {

namespace fs = std::filesystem;

Hash key_of(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash;
}

class CodeCache : public testing::Test {
 protected:
  CodeCache() {
    std::string name = (fs::temp_directory_path() / "stave_code.XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~CodeCache() override { fs::remove_all(folder); }

  fs::path file() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) return entry.path();
    return {};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
  std::string bytes() const {
    std::ifstream stream(file(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  void put(const std::string& bytes) const { std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes; }
  std::optional<std::string> read() const { return read_code(folder, key); }

  fs::path folder;
  const Hash key = key_of("a text");
  const std::string code = std::string("code\0with zeros", 15) + std::string(5000, 'x');
};

// The expected hashes cover eight bytes with the number of bytes that follow, then those bytes.
// They were computed with Python's integers; the same computation gives "a" alone its published
// value d228cb696f1a8caf78912b704e4a8964.
TEST(Hash, IsFnv1aOf128Bits) {
  EXPECT_EQ(key_of("").hexadecimal(), "9d30c1f78465995be47dda5e4e4e77ed");
  EXPECT_EQ(key_of("a").hexadecimal(), "426d56754e03ad9adb79f299c730f21f");
}
TEST(Hash, DependsOnPartBoundaries) {
  Hash one, other;
  one.add("ab"), one.add("c");
  other.add("a"), other.add("bc");
  EXPECT_FALSE(one == other);
}

TEST_F(CodeCache, GivesWhatWasWritten) {
  EXPECT_FALSE(read());
  write_code(folder, key, code);
  EXPECT_EQ(read(), code);
  EXPECT_EQ(files(), 1u);  // no temporary file is left
  EXPECT_FALSE(read_code(folder, key_of("another text")));
  write_code(folder, key, "other code");
  EXPECT_EQ(read(), "other code");
}
TEST_F(CodeCache, CreatesItsFolders) {
  write_code(folder / "a" / "b", key, code);
  EXPECT_EQ(read_code(folder / "a" / "b", key), code);
}
TEST_F(CodeCache, RefusesAFileWithAnyDamagedByte) {
  write_code(folder, key, "code");
  const std::string whole = bytes();
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    put(damaged);
    EXPECT_FALSE(read()) << "byte " << i;
  }
  put(whole);
  EXPECT_EQ(read(), "code");
}
TEST_F(CodeCache, RefusesAFileOfAnyOtherLength) {
  write_code(folder, key, "code");
  const std::string whole = bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(whole.substr(0, length));
    EXPECT_FALSE(read()) << length;
  }
  put(whole + "x");
  EXPECT_FALSE(read());
}
TEST_F(CodeCache, RefusesAForeignFile) {
  write_code(folder, key, code);
  const fs::path own = file();
  put(std::string(10000, 'x'));
  EXPECT_FALSE(read());
  fs::remove(own);
  write_code(folder, key_of("another text"), code);
  fs::rename(file(), own);
  EXPECT_FALSE(read());
}
TEST_F(CodeCache, ReplacesRefusedFiles) {
  write_code(folder, key, code);
  put("half");
  write_code(folder, key, code);
  EXPECT_EQ(read(), code);
}
TEST_F(CodeCache, RefusesFoldersAndPipes) {
  write_code(folder, key, code);
  const fs::path own = file();
  fs::remove(own);
  fs::create_directory(own);
  EXPECT_FALSE(read());
  write_code(folder, key, code);  // cannot be replaced by a file
  EXPECT_FALSE(read());
  EXPECT_EQ(files(), 1u);
  fs::remove(own);
  // Nothing writes to the FIFO, so a reader that waited for it would block for ever.
  ASSERT_EQ(::mkfifo(own.c_str(), 0600), 0);
  EXPECT_FALSE(read());
}
TEST_F(CodeCache, IgnoresUnwritableFolders) {
  const fs::path in_the_way = folder / "file";
  std::ofstream(in_the_way) << "not a folder";
  write_code(in_the_way, key, code);
  EXPECT_FALSE(read_code(in_the_way, key));
  write_code(in_the_way / "below", key, code);
  EXPECT_FALSE(read_code(in_the_way / "below", key));
  write_code("", key, code);
  EXPECT_FALSE(read_code("", key));
  fs::remove(in_the_way);
  ASSERT_EQ(::chmod(folder.c_str(), 0500), 0);
  write_code(folder, key, code);
  EXPECT_TRUE(!read() || ::geteuid() == 0);  // root may write everywhere
  ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
}
TEST_F(CodeCache, IgnoresUnreadableFiles) {
  write_code(folder, key, code);
  ASSERT_EQ(::chmod(file().c_str(), 0), 0);
  EXPECT_TRUE(!read() || ::geteuid() == 0);
}

// Several writers of one file, and a reader: it sees the complete code of one writer, or none.
TEST_F(CodeCache, ProcessesMayShareIt) {
  const auto code_of = [](int writer) { return std::string(200000, static_cast<char>('a' + writer)); };
  constexpr int writers = 4;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int round = 0; round < 100; ++round) write_code(folder, key, code_of(writer));
      ::_exit(0);
    }
    children.push_back(child);
  }
  int whole = 0, seen = 0;
  const auto look = [&] {
    const auto found = read();
    if (!found) return;
    ++seen;
    for (int writer = 0; writer < writers; ++writer) whole += *found == code_of(writer);
  };
  for (std::size_t done = 0; done < children.size();) {
    look();
    done += ::waitpid(-1, nullptr, WNOHANG) > 0;
  }
  look();
  EXPECT_GT(seen, 0);
  EXPECT_EQ(whole, seen);
  EXPECT_EQ(files(), 1u);
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    if (value) ::setenv(name, value, 1);
    else ::unsetenv(name);
  }
  ~Variable() {
    if (before_) ::setenv(name_, before_->c_str(), 1);
    else ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(CodeFolder, IsTheFirstVariableThatIsSet) {
  const Variable home("HOME", "/home/ada"), caches("XDG_CACHE_HOME", "/caches"), own("STAVE_CACHE", "/own");
  EXPECT_EQ(code_folder(), "/own");
  const Variable no_own("STAVE_CACHE", nullptr);
  EXPECT_EQ(code_folder(), "/caches/stave");
  const Variable relative("XDG_CACHE_HOME", "caches");
  EXPECT_EQ(code_folder(), "/home/ada/.cache/stave");
  const Variable no_home("HOME", "");
  EXPECT_EQ(code_folder(), "");
}

}  // namespace
}  // namespace stave_cuda
