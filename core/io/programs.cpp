#include <stave/core/io/programs.h>

#include <stave/core/io/io.h>
#include <stave/core/io/program_text.h>
#include <stave/core/io/safetensors.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr const char* program_metadata = "stave.program";

}  // namespace

void save_program(const std::string& path, const Program& program) {
  ProgramText written = text_of(program, "save_program: " + path);
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < written.tensors.size(); ++i)
    tensors.push_back({std::to_string(i), std::move(written.tensors[i])});
  SafetensorsOptions options;
  options.metadata.emplace(program_metadata, std::move(written.text));
  write_safetensors("save_program", path, std::move(tensors), options);
}

Program load_program(const std::string& path) {
  const InputFile file("load_program", path);
  const SafetensorsHeader header = read_safetensors_header(file);
  const auto text = header.metadata.find(program_metadata);
  if (text == header.metadata.end())
    fail<FileError>("{}: it holds no program: its metadata have no '{}': use load_safetensors for tensors",
                    file.where(), program_metadata);
  const ArraysOfFile tensors = copy_tensors(file, header);
  for (const auto& [name, reason] : tensors.unreadable)
    fail<FileError>("{}: the tensor '{}' {}", file.where(), shown(name), reason);
  return program_of(text->second, tensors.arrays, file.where());
}

}  // namespace stave
