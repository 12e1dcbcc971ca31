// Every program and output in the documents is true. The lines of a program occur in the named
// example, test or source file in the same order, with any indentation. An output is what the
// program prints. A comment before the block names the file:
//
//   <!-- from examples/NAME.cpp -->                 some of its lines; also .h and .py files
//   <!-- output of examples/NAME.cpp -->            the complete output
//   <!-- output of examples/NAME.cpp, in part -->   consecutive whole lines of the output
//
// The README fits on one page, and the limits that docs/guides/compile.md lists are the constants
// of the code. docs/site/check_links.py checks the documents' links.
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
  std::string program, text;  // program is a path such as "examples/04_debug.cpp"
  bool in_part;
};

// All documents: the pages of docs and its guides, and the README of each top-level folder.
std::vector<fs::path> pages() {
  std::vector<fs::path> found{"README.md", "HACKING.md"};
  for (const char* const folder : {"docs", "docs/guides"})
    for (const auto& entry : fs::directory_iterator(root / folder))
      if (entry.path().extension() == ".md") found.push_back(fs::relative(entry.path(), root));
  for (const auto& entry : fs::directory_iterator(root))
    if (fs::exists(entry.path() / "README.md")) found.push_back(entry.path().filename() / "README.md");
  return found;
}

// The blocks of a page that follow a comment of the kind `what`, which is "from" or "output of".
std::vector<Block> blocks_of(const fs::path& page, const std::string& what) {
  const std::regex comment("<!-- (from|output of) ([\\w/]+\\.(?:cpp|h|py))(, in part)? -->");
  std::vector<Block> blocks;
  const std::vector<std::string> lines = lines_of(text_of(root / page));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    const std::string line = without_indentation(lines[i]);
    if (!std::regex_match(line, match, comment) || match[1] != what) continue;
    Block block{match[2], "", match[3].matched};
    i += 2;  // skips the fence
    for (; i < lines.size() && without_indentation(lines[i]) != "```"; ++i) block.text += lines[i] + "\n";
    blocks.push_back(block);
  }
  return blocks;
}

// The blocks of all pages. There must be some.
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

// Every C++ program in a document has a comment that names its source.
TEST(Readme, AllProgramsAreAnnounced) {
  for (const fs::path& page : pages()) {
    std::size_t shown = 0;
    for (const std::string& line : lines_of(text_of(root / page))) shown += without_indentation(line) == "```cpp";
    const std::vector<Block> blocks = blocks_of(page, "from");
    const auto in_cpp = [](const Block& block) { return !block.program.ends_with(".py"); };
    EXPECT_EQ(shown, std::count_if(blocks.begin(), blocks.end(), in_cpp)) << page;
  }
}

TEST(Readme, IsOnePage) {
  const std::string text = text_of(root / "README.md");
  EXPECT_LE(lines_of(text).size(), 220);
  EXPECT_LE(text.size(), 12 * 1024);
}

// The list of guides links to every document.
TEST(Readme, DocumentsAreListed) {
  const std::string list = text_of(root / "docs/guides/README.md");
  for (const auto& entry : fs::directory_iterator(root / "docs/guides")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".md" || name == "README.md") continue;
    EXPECT_THAT(list, HasSubstr("(" + name + ")"));
  }
  for (const auto& entry : fs::directory_iterator(root / "docs")) {
    if (entry.path().extension() != ".md") continue;
    EXPECT_THAT(list, HasSubstr("(../" + entry.path().filename().string() + ")"));
  }
}

TEST(Readme, LimitsOfCompileAreThoseOfTheCode) {
  struct Limit {
    const char *row, *file, *constant;
    int cell = 0;  // the position of the number in a row with several numbers
    bool is_exponent = false;
  };
  const Limit limits[] = {
      {"distinct values of one read", "handlers/compile/compile.cpp", "most_values_observed = (\\d+)"},
      {"of a read of more than one element", "handlers/compile/compile.cpp", "recorded_at_once = (\\d+)"},
      {"bytes that one operation may read", "handlers/compile/compile.cpp",
       "most_bytes_read = std::size_t\\{(\\d+)\\} << 20"},
      {"calls in a row that find something new", "handlers/compile/compile.cpp", "most_misses = (\\d+)"},
      {"paths of one signature", "handlers/compile/compile.cpp", "most_paths = (\\d+)"},
      {"signatures of one compiled function", "handlers/compile/compile.cpp", "most_signatures = (\\d+)"},
      {"guards recorded without a replay", "handlers/compile/compile.cpp", "most_unused = (\\d+)"},
      {"operations of one recording", "handlers/compile/record.cpp", "most_instructions = std::size_t\\{1\\} << (\\d+)",
       0, true},
      {"elementwise operations in one fused kernel", "handlers/compile/passes/regions.cpp", "most_steps = (\\d+)"},
      {"elementwise operations in one fused kernel", "handlers/compile/passes/regions.cpp", "most_inputs = (\\d+)", 1},
      {"elementwise operations in one fused kernel", "handlers/compile/passes/regions.cpp", "most_outputs = (\\d+)", 2},
      {"memory that the backward pass of one loop keeps", "handlers/compile/loop_reverse.cpp",
       "most_stacked = std::uint64_t\\{(\\d+)\\} << 20"},
      {"results of [functions of rows]", "core/program/passes/hoist_from_loops.cpp",
       "most_new_bytes = std::uint64_t\\{(\\d+)\\} << 20"},
      {"members of an effect's or answer's type", "core/effects/members.h", "most_members = (\\d+)"},
  };
  std::string table = text_of(root / "docs/guides/compile.md");
  table = table.substr(table.find("\n## Limits\n"));
  for (const Limit& limit : limits) {
    const std::string code = text_of(root / limit.file);
    std::smatch number;
    ASSERT_TRUE(std::regex_search(code, number, std::regex(limit.constant))) << limit.constant << " in " << limit.file;
    const auto row = table.find(std::string("| ") + limit.row);
    ASSERT_NE(row, std::string::npos) << "the table of limits has no row: " << limit.row;
    std::string line = table.substr(row, table.find('\n', row) - row);
    std::string shown = line.substr(line.rfind(" | ") + 3);
    std::erase(shown, ',');  // the comma of 1,024
    for (int cell = 0; cell < limit.cell; ++cell) shown.erase(0, shown.find(';') + 1);
    const long long value = std::stoll(number[1]);
    EXPECT_EQ(std::stoll(shown), limit.is_exponent ? 1LL << value : value) << line;
  }
}

TEST(Readme, StaveFromScratchHas300Lines) {
  EXPECT_LE(lines_of(text_of(root / "examples/from_scratch/from_scratch.cpp")).size(), 300);
}

}  // namespace
