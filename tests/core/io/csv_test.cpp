// read_csv: numbers as text, and text that is no number.

#include <sstream>

#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace csv_test {

using namespace stave;
using namespace stave_test;

Tensor read(const std::string& text, CsvOptions options = {}) {
  const Folder folder;
  return read_csv(with_bytes(folder / "x.csv", text), options);
}

/// Returns the error message for a file of this text, without the file's name before it.
std::string fault_of(const std::string& text, CsvOptions options = {}) {
  const Folder folder;
  const std::string path = folder / "x.csv", start = "read_csv: " + path;
  const std::string message = message_of<FileError>([&] { read_csv(with_bytes(path, text), options); });
  EXPECT_THAT(message, testing::StartsWith(start));
  return message.substr(std::min(start.size(), message.size()));
}

TEST(Csv, ReadsNumbersAsNumpyDoes) {
  // numpy.loadtxt(file, delimiter=",") gives these numbers.
  EXPECT_THAT(read("1,-2.5,3e2\n .5 ,+4.,-inf\n"), IsNear(tensor({{1., -2.5, 300.}, {.5, 4., -INFINITY}})));
  EXPECT_EQ(read("nan,1e999,-1e999,1e-999\n").str(), "[[ nan  inf -inf   0.]]");
  EXPECT_EQ(read("1e39,1e-46,3e-45\n").str(), "[[   inf 0.e+00 3.e-45]]");
  EXPECT_THAT(read("0.1\n", {.dtype = float64}), Equals(tensor({{0.1}}, float64)));
  EXPECT_THAT(read("1,1e999\n", {.dtype = float64}), IsNear(tensor({{1., INFINITY}}, float64)));
}

TEST(Csv, TakesEveryEndOfLineAndAByteOrderMark) {
  for (const char* text : {"1,2\n3,4\n", "1,2\r\n3,4\r\n", "1,2\n3,4",
                           "\xef\xbb\xbf"
                           "1,2\n3,4\n"})
    EXPECT_THAT(read(text), Equals(tensor({{1., 2.}, {3., 4.}}))) << text;
}

TEST(Csv, TakesDelimiterHeaderAndDtype) {
  EXPECT_THAT(read("x;y\nm;s\n1;2\n", {.delimiter = ';', .skip_lines = 2}), Equals(tensor({{1., 2.}})));
  EXPECT_THAT(read("1\t2\n", {.delimiter = '\t', .dtype = int64}), Equals(tensor({{1, 2}}, int64)));
  EXPECT_THAT(read("  1   2\t3 \n4 5 6\n", {.delimiter = ' ', .dtype = int32}), Equals(tensor({{1, 2, 3}, {4, 5, 6}})));
  EXPECT_THAT(read("\"1\",\"2\"\n", {.dtype = uint8}), Equals(tensor({{1, 2}}, uint8)));
  EXPECT_THAT(read("9007199254740993\n", {.dtype = int64}), Equals(tensor({{9007199254740993}})));
  EXPECT_THAT(read("1,0\ntrue,False\n", {.dtype = bool_}), Equals(tensor({{true, false}, {true, false}})));
}

// Expected values are those of numpy.loadtxt(file, delimiter=",", skiprows=...). A line of blanks
// counts as a blank line, as in pandas.
TEST(Csv, SkipsBlankLinesAndComments) {
  const Tensor rows = tensor({{1., 2.}, {3., 4.}});
  for (const char* text : {"1,2\n3,4\n\n", "1,2\n\n\n3,4\n\n\n", "\n1,2\n3,4", "1,2\r\n\r\n3,4\r\n\r\n",
                           "1,2\n  \t\n3,4\n   ", "# x,y\n1,2\n3,4\n", "1,2 # first\n3,4#second\n#\n",
                           "#1,2\n  # more\n1,2\n\n# end\n3,4", "\xef\xbb\xbf# x\n1,2\n3,4", "#\r\n1,2#\r\n3,4"})
    EXPECT_THAT(read(text), Equals(rows)) << text;
  EXPECT_THAT(read("# x\n1 2\n \n3 4 # y\n", {.delimiter = ' '}), Equals(rows));
  EXPECT_THAT(read("1\n\n2\n\n"), Equals(tensor({{1.}, {2.}})));
  // skip_lines counts all lines of the file, also blank lines and comments.
  EXPECT_THAT(read("#a\n\nx,y\n1,2\n3,4\n", {.skip_lines = 3}), Equals(rows));
  EXPECT_THAT(read("#a\n\n#b\n1,2\n3,4\n", {.skip_lines = 1}), Equals(rows));
  EXPECT_THAT(read("%a\n1,2%b\n3,4\n", {.comment = '%'}), Equals(rows));
  EXPECT_THAT(read("1#2\n3#4\n", {.delimiter = '#', .comment = '\0'}), Equals(rows));
  EXPECT_EQ(fault_of("#1,2\n", {.comment = '\0'}), ":1: column 1: expected a number, found '#1'");
  EXPECT_EQ(fault_of("# x\n\n1,2\n\n3\n"), ":5: expected 2 columns, found 1");
  EXPECT_EQ(fault_of("1,2\n,\n"), ":2: column 1: expected a number, found ''");
  EXPECT_EQ(fault_of("1\t2\n\t\n", {.delimiter = '\t'}), ":2: column 1: expected a number, found ''");
  EXPECT_EQ(fault_of("# x\n\n"), ": has no numbers in it");
  EXPECT_EQ(message_of<FileError>([] { read_csv("x.csv", {.delimiter = '#'}); }),
            "read_csv: '#' cannot be both the delimiter and the beginning of comments: choose another `comment`, or "
            "'\\0' for none");
}

TEST(Csv, ReadsStreams) {
  std::istringstream text("# x\n1,2\n3,4");
  EXPECT_THAT(read_csv(text), Equals(tensor({{1., 2.}, {3., 4.}})));
  std::istringstream wrong("1,2\n3,x\n"), none("");
  EXPECT_EQ(message_of<FileError>([&] { read_csv(wrong); }),
            "read_csv: the stream:2: column 2: expected a number, found 'x'");
  EXPECT_EQ(message_of<FileError>([&] { read_csv(none); }), "read_csv: the stream: has no numbers in it");
}

// The result does not depend on the pieces in which the file is read.
TEST(Csv, ReadsLinesOfEveryLength) {
  for (const int columns : {1, 3, 21'845, 21'846, 40'000}) {
    std::string row;
    for (int i = 0; i < columns; ++i) row += (i ? "," : "") + std::to_string(i % 90 + 10);
    const Tensor expected = broadcast_to(arange(columns) % 90 + 10, {3, columns});
    EXPECT_THAT(read(row + "\n" + row + "\r\n" + row, {.dtype = int32}), Equals(expected)) << columns;
  }
}

TEST(Csv, ErrorsNameLineAndColumn) {
  EXPECT_EQ(fault_of("1,2\n3,x\n"), ":2: column 2: expected a number, found 'x'");
  EXPECT_EQ(fault_of("1,,3\n"), ":1: column 2: expected a number, found ''");
  EXPECT_EQ(fault_of("x,y\n1 2,3\n", {.skip_lines = 1}), ":2: column 1: expected a number, found '1 2'");
  for (const char* field : {"0x10", "1.5.2", "+-1", "++1", "1e", "--1", "1f", "1_000"})
    EXPECT_EQ(fault_of(field), ":1: column 1: expected a number, found '" + std::string(field) + "'");
  EXPECT_EQ(fault_of("1.5\n", {.dtype = int32}), ":1: column 1: expected an integer, found '1.5'");
  EXPECT_EQ(fault_of("-1\n", {.dtype = uint8}), ":1: column 1: expected an integer, found '-1'");
  EXPECT_EQ(fault_of("256\n", {.dtype = uint8}), ":1: column 1: '256' does not fit in uint8");
  EXPECT_EQ(fault_of("yes\n", {.dtype = bool_}), ":1: column 1: expected 0, 1, true or false, found 'yes'");
  EXPECT_EQ(fault_of("1,2\n3\n"), ":2: expected 2 columns, found 1");
  EXPECT_EQ(fault_of("1,2\n", {.columns = 3}), ":1: expected 3 columns, found 2");
  EXPECT_EQ(fault_of(std::string("1,\0\n", 4)), ":1: column 2: expected a number, found '\\x00'");
}

TEST(Csv, ErrorsNameUnreadableFiles) {
  const Folder folder;
  const auto fault = [](const std::string& path) { return message_of<FileError>([&] { read_csv(path); }); };
  EXPECT_EQ(fault("no/such.csv"), "read_csv: no/such.csv: cannot be opened: No such file or directory");
  EXPECT_EQ(fault(folder.path), "read_csv: " + folder.path + ": is a folder");
  EXPECT_EQ(fault_of(""), ": has no numbers in it");
  EXPECT_EQ(fault_of("x,y\n", {.skip_lines = 1}), ": has no numbers in it");
  EXPECT_EQ(message_of<ShapeError>([] { read_csv("x.csv", {.skip_lines = -1}); }),
            "read_csv: skip_lines -1 and columns 0 must not be negative");
}

}  // namespace csv_test
