// How examples/private_training.cpp reads its digits, and its errors if it cannot.
#include "../examples/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "files.h"

namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::StartsWith;

const std::string columns = [] {  // the 64 pixels of a line
  std::string text;
  for (int i = 0; i < 64; ++i) text += std::to_string(i % 17) + ",";
  return text;
}();

std::string with_pixel(const std::string& pixel) { return pixel + columns.substr(columns.find(',')); }

// Writes a file with this text and returns its path. The next call replaces it.
std::string file_of(const std::string& text) {
  static const stave_test::Folder folder;
  return stave_test::with_bytes(folder / "digits.csv", text);
}

std::string error_of(const std::string& path) {
  try {
    read_digits(path);
  } catch (const stave::Error& error) {
    return error.what();
  }
  return "no error";
}

// Returns the error for a file of this text, without the path before it.
std::string fault_of(const std::string& text) {
  const std::string path = file_of(text), error = error_of(path);
  EXPECT_THAT(error, AnyOf(StartsWith(path), StartsWith("read_csv: " + path)));
  return error.substr(std::min(error.find(path) + path.size(), error.size()));
}

TEST(Digits, ReadsPixelsAndLabels) {
  const Digits digits = read_digits(file_of(columns + "7\n" + with_pixel("16") + "0\n"));
  ASSERT_EQ(digits.pixels.shape(), stave::Shape(2, 64));
  EXPECT_EQ(digits.pixels.dtype(), stave::float32);
  EXPECT_EQ(digits.pixels(0, 0).item<float>(), -1);
  EXPECT_EQ(digits.pixels(0, 8).item<float>(), 0);
  EXPECT_EQ(digits.pixels(1, 0).item<float>(), 1);
  EXPECT_THAT(digits.labels.to_vector<std::int32_t>(), ElementsAre(7, 0));
}

TEST(Digits, TakesEveryEndOfLine) {
  EXPECT_EQ(read_digits(file_of(columns + "7\r\n" + columns + "8")).labels.size(), 2);
}

TEST(Digits, HasTheDigitsOfTheDataSet) {
  const Digits digits = read_digits(STAVE_SOURCE_DIR "/examples/data/digits.csv");
  std::array<int, 10> counts{};
  for (const std::int32_t label : digits.labels.to_vector<std::int32_t>()) ++counts.at(static_cast<std::size_t>(label));
  // The published counts.
  EXPECT_THAT(counts, ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
  EXPECT_EQ(min(digits.pixels).item<float>(), -1);
  EXPECT_EQ(max(digits.pixels).item<float>(), 1);
}

TEST(Digits, MissingFile) {
  EXPECT_EQ(error_of("no/such/digits.csv"),
            "read_csv: no/such/digits.csv: cannot be opened: No such file or directory");
}

TEST(Digits, Directory) {
  EXPECT_EQ(error_of(::testing::TempDir()), "read_csv: " + ::testing::TempDir() + ": is a folder");
}

TEST(Digits, EmptyFile) { EXPECT_EQ(fault_of(""), ": has no numbers in it"); }

TEST(Digits, WrongNumberOfColumns) {
  EXPECT_EQ(fault_of("1,2,3\n"), ":1: expected 65 columns, found 3");
  EXPECT_EQ(fault_of(columns + "7\n" + columns + "7,\n"), ":2: expected 65 columns, found 66");
  EXPECT_EQ(fault_of(columns + "7\n7\n"), ":2: expected 65 columns, found 1");
}

TEST(Digits, NotANumber) {
  for (const std::string field : {"x", "", "1.5", "0x1", "1 2"})
    EXPECT_EQ(fault_of(columns + "7\n" + with_pixel(field) + "7\n"),
              ":2: column 1: expected an integer, found '" + field + "'");
}

TEST(Digits, OutOfRange) {
  EXPECT_EQ(fault_of(with_pixel("17") + "7\n"), ":1: column 1: expected an integer from 0 to 16, found 17");
  EXPECT_EQ(fault_of(columns + "7\n" + with_pixel("17") + "7\n"),
            ":2: column 1: expected an integer from 0 to 16, found 17");
  EXPECT_EQ(fault_of(with_pixel("-1") + "7\n"), ":1: column 1: expected an integer from 0 to 16, found -1");
  EXPECT_EQ(fault_of(columns + "10\n"), ":1: column 65: expected an integer from 0 to 9, found 10");
}

TEST(Digits, TheProgramSaysWhatIsWrongAndEndsWith1) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "../examples/private_training";
  if (!fs::exists(program)) GTEST_SKIP() << "the examples are not built: no " << program;
  const std::string path = file_of(columns + "ten\n");
  FILE* const errors = popen((program.string() + " '" + path + "' 2>&1 >/dev/null").c_str(), "r");
  ASSERT_TRUE(errors);
  std::string text;
  for (int c; (c = std::fgetc(errors)) != EOF;) text += static_cast<char>(c);
  const int status = pclose(errors);
  EXPECT_EQ(text, "private_training: read_csv: " + path + ":1: column 65: expected an integer, found 'ten'\n");
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
