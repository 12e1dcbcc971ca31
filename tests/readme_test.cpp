// What README.md, HACKING.md and the guides show is true: the lines of a program shown stand in the example, test or source, in
// this order (however indented), and the output is what it prints. A comment before the block says which:
//
//   <!-- from examples/NAME.cpp -->                   the lines, leaving out any; also .h and .py, of any folder
//   <!-- output of examples/NAME.cpp -->              all that it prints
//   <!-- output of examples/NAME.cpp, in part -->     whole lines of it, one after the other
//
// docs/site/check_links.py checks their links.
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
  std::string program, text;  // "examples/04_debug.cpp"
  bool in_part;
};

// handlers/README.md is one of them.
std::vector<fs::path> guides() {
  std::vector<fs::path> found{"handlers/README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs/guides"))
    if (entry.path().extension() == ".md") found.push_back(fs::relative(entry.path(), root));
  return found;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found = guides();
  found.insert(found.end(), {"README.md", "HACKING.md"});
  return found;
}

// The blocks of a page that a comment of `what` announces.
std::vector<Block> blocks_of(const fs::path& page, const std::string& what) {
  const std::regex comment("<!-- (from|output of) ([\\w/]+\\.(?:cpp|h|py))(, in part)? -->");
  std::vector<Block> blocks;
  const std::vector<std::string> lines = lines_of(text_of(root / page));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    const std::string line = without_indentation(lines[i]);
    if (!std::regex_match(line, match, comment) || match[1] != what) continue;
    Block block{match[2], "", match[3].matched};
    i += 2;  // past the fence
    for (; i < lines.size() && without_indentation(lines[i]) != "```"; ++i) block.text += lines[i] + "\n";
    blocks.push_back(block);
  }
  return blocks;
}

// Those of all pages; there are some.
std::vector<Block> blocks_of_pages(const std::string& what) {
  std::vector<Block> blocks;
  for (const fs::path& page : pages())
    for (Block& block : blocks_of(page, what)) blocks.push_back(std::move(block));
  EXPECT_FALSE(blocks.empty());
  return blocks;
}

TEST(Readme, ProgramsAreThoseOfTheExamples) {
  for (const Block& block : blocks_of_pages("from")) {
    std::vector<std::string> lines = lines_of(text_of(root / block.program));
    for (std::string& line : lines) line = without_indentation(line);
    auto next = lines.begin();
    for (const std::string& line : lines_of(block.text)) {
      next = std::find(next, lines.end(), without_indentation(line));
      ASSERT_NE(next, lines.end()) << block.program << " has no line, after those shown before it:\n" << line;
      ++next;
    }
  }
}

TEST(Readme, OutputIsWhatTheExamplesPrint) {
  const fs::path programs = fs::read_symlink("/proc/self/exe").parent_path() / "..";
  for (const Block& block : blocks_of_pages("output of")) {
    const fs::path program = (programs / block.program).replace_extension();
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

// A guide shows no program that nothing compiles.
TEST(Readme, AllProgramsOfGuidesAreAnnounced) {
  for (const fs::path& guide : guides()) {
    std::size_t shown = 0;
    for (const std::string& line : lines_of(text_of(root / guide))) shown += without_indentation(line) == "```cpp";
    EXPECT_EQ(shown, blocks_of(guide, "from").size()) << guide;
  }
}

TEST(Readme, StaveFromScratchHas300Lines) {
  EXPECT_LE(lines_of(text_of(root / "examples/from_scratch/from_scratch.cpp")).size(), 300);
}

}  // namespace
