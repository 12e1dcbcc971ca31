// Writes the kernel texts of regions_of_tests(), and a table of the kernels,
// as a source file for the host's compiler.
#include <fmt/format.h>

#include <cstdio>

#include <stave/backends/cuda/region_text.h>

#include "cuda/random_regions.h"

int main(int, char** arguments) {
  std::string text, table;
  int number = 0;
  for (const stave::RegionPtr& region : stave_test::regions_of_tests()) {
    const std::string name = fmt::format("region{}", number++);
    text += stave_cuda::region_text(*region, name) + "\n";
    table += fmt::format("    on_arguments<{}>,\n", name);
  }
  text +=
      "#include \"cuda/region_call.h\"\n\nconst std::vector<stave_test::RegionKernel> stave_test::region_kernels = "
      "{\n" +
      table + "};\n";
  std::FILE* const file = std::fopen(arguments[1], "w");
  return !file || std::fputs(text.c_str(), file) < 0 || std::fclose(file) != 0;
}
