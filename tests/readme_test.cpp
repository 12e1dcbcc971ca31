// What README.md shows is true: the lines of a program shown stand in the example, in this order (however indented), and
// the output is what it prints. A comment before the block says which example:
//
//   <!-- from examples/NAME.cpp -->                   the lines, leaving out any
//   <!-- output of examples/NAME.cpp -->              all that it prints
//   <!-- output of examples/NAME.cpp, in part -->     whole lines of it, one after the other
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path root = STAVE_SOURCE_DIR;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string without_indentation(const std::string& line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Block {
  std::string what, example, text;
  bool in_part;
};

// The blocks that a comment of `what` announces.
std::vector<Block> blocks_of_readme(const std::string& what) {
  const std::regex comment("<!-- (from|output of) examples/(\\w+)\\.cpp(, in part)? -->");
  std::vector<Block> blocks;
  const std::vector<std::string> lines = lines_of(text_of(root / "README.md"));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, comment) || match[1] != what) continue;
    Block block{match[1], match[2], "", match[3].matched};
    i += 2;  // past the fence
    for (; i < lines.size() && lines[i] != "```"; ++i) block.text += lines[i] + "\n";
    blocks.push_back(block);
  }
  EXPECT_FALSE(blocks.empty());
  return blocks;
}

TEST(Readme, ProgramsAreThoseOfTheExamples) {
  for (const Block& block : blocks_of_readme("from")) {
    std::vector<std::string> lines = lines_of(text_of(root / "examples" / (block.example + ".cpp")));
    for (std::string& line : lines) line = without_indentation(line);
    auto next = lines.begin();
    for (const std::string& line : lines_of(block.text)) {
      next = std::find(next, lines.end(), without_indentation(line));
      ASSERT_NE(next, lines.end()) << block.example << ".cpp has no line, after those shown before it:\n" << line;
      ++next;
    }
  }
}

TEST(Readme, OutputIsWhatTheExamplesPrint) {
  const fs::path programs = fs::read_symlink("/proc/self/exe").parent_path() / "../examples";
  for (const Block& block : blocks_of_readme("output of")) {
    const fs::path program = programs / block.example;
    if (!fs::exists(program)) GTEST_SKIP() << "the examples are not built: no " << program;
    FILE* const output = popen(program.c_str(), "r");
    ASSERT_TRUE(output);
    std::string text;
    for (int c; (c = std::fgetc(output)) != EOF;) text += static_cast<char>(c);
    EXPECT_EQ(pclose(output), 0) << program;
    if (block.in_part) EXPECT_THAT("\n" + text, HasSubstr("\n" + block.text));
    else EXPECT_EQ(text, block.text);
  }
}

}  // namespace
