#include <stave/backends/cuda/nvrtc.h>

#include <cuda_runtime_api.h>

#include <algorithm>

#include <stave/backends/cuda/dynamic_library.h>
#include <stave/backends/cuda/region_headers.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

namespace {

/// The functions of NVRTC that are used. They are declared here because NVRTC's header comes in a
/// separate package. A status of 0 is success.
struct Functions {
  using Program = struct ProgramOfNvrtc*;
#define STAVE_NVRTC(X)                                                                              \
  X(Version, int*, int*)                                                                            \
  X(GetNumSupportedArchs, int*)                                                                     \
  X(GetSupportedArchs, int*)                                                                        \
  X(CreateProgram, Program*, const char*, const char*, int, const char* const*, const char* const*) \
  X(DestroyProgram, Program*)                                                                       \
  X(CompileProgram, Program, int, const char* const*)                                               \
  X(GetCUBINSize, Program, std::size_t*)                                                            \
  X(GetCUBIN, Program, char*)                                                                       \
  X(GetPTXSize, Program, std::size_t*)                                                              \
  X(GetPTX, Program, char*)                                                                         \
  X(GetProgramLogSize, Program, std::size_t*)                                                       \
  X(GetProgramLog, Program, char*)
#define X(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  STAVE_NVRTC(X)
#undef X
};

Functions load_functions() {
  static const std::string major = std::to_string(CUDART_VERSION / 1000), file = "libnvrtc.so." + major,
                           package = "NVRTC " + major;
  const DynamicLibrary library("fused", file.c_str(), "NVRTC", package.c_str());
  Functions functions;
#define X(name, ...) library.find(functions.name, "nvrtc" #name);
  STAVE_NVRTC(X)
#undef X
  return functions;
}

const Functions& functions() {
  static const Functions loaded = load_functions();
  return loaded;
}

void check(int status, const char* what) {
  if (status != 0) stave_detail::fail<stave::Error>("fused: NVRTC: {}: status {}", what, status);
}

const Nvrtc* load() {
  try {
    const Functions& f = functions();
    int major = 0, minor = 0, count = 0;
    check(f.Version(&major, &minor), "version");
    check(f.GetNumSupportedArchs(&count), "architectures");
    auto found =
        std::make_unique<Nvrtc>(Nvrtc{major * 1000 + minor * 10, std::vector<int>(static_cast<std::size_t>(count))});
    check(f.GetSupportedArchs(found->architectures.data()), "architectures");
    std::sort(found->architectures.begin(), found->architectures.end());
    return found.release();
  } catch (const stave::Error&) {
    return nullptr;
  }
}

bool is_translated(const std::string& target) { return target.starts_with("compute"); }

std::vector<std::string> options_for(const std::string& target) {
  return {"--gpu-architecture=" + target, "--std=c++20",
          // All kernels are compiled with this option; cuda.cmake gives the reason.
          "--fmad=false",
          // Makes constexpr functions of headers device functions too.
          "--device-as-default-execution-space",
          // NVRTC does not know [[gnu::always_inline]].
          "--diag-suppress=1097"};
}

struct Program {
  Functions::Program handle = nullptr;
  ~Program() {
    if (handle) functions().DestroyProgram(&handle);
  }
};

template <class Size, class Get>
std::string text_of(Size size, Get get, Functions::Program program, const char* what) {
  std::size_t bytes = 0;
  check(size(program, &bytes), what);
  std::string text(bytes, '\0');
  check(get(program, text.data()), what);
  return text;
}

}  // namespace

const Nvrtc* nvrtc() {
  static const Nvrtc* const found = load();
  return found;
}

std::string target_of(const Nvrtc& nvrtc, int capability) {
  const auto& known = nvrtc.architectures;
  const auto above = std::upper_bound(known.begin(), known.end(), capability);
  if (above == known.begin()) return "";
  const int best = *std::prev(above);
  return (best == capability ? "sm_" : "compute_") + std::to_string(best);
}

std::string compile(const Nvrtc&, const std::string& text, const std::string& target) {
  const Functions& f = functions();
  std::vector<const char*> names, texts, options;
  for (const RegionHeader& header : region_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  const std::vector<std::string> words = options_for(target);
  for (const std::string& option : words) options.push_back(option.c_str());
  Program program;
  check(f.CreateProgram(&program.handle, text.c_str(), "region", static_cast<int>(names.size()), texts.data(),
                        names.data()),
        "a program");
  if (f.CompileProgram(program.handle, static_cast<int>(options.size()), options.data()) != 0)
    stave_detail::fail<stave::Error>("fused: NVRTC does not compile the text of a region for {}:\n{}", target,
                                     text_of(f.GetProgramLogSize, f.GetProgramLog, program.handle, "the log"));
  if (is_translated(target)) return text_of(f.GetPTXSize, f.GetPTX, program.handle, "the code");
  return text_of(f.GetCUBINSize, f.GetCUBIN, program.handle, "the code");
}

std::vector<std::string> compiled_with(const Nvrtc& nvrtc, const std::string& target) {
  std::vector<std::string> parts = options_for(target);
  parts.push_back(std::to_string(nvrtc.version));
  for (const RegionHeader& header : region_headers()) {
    parts.push_back(header.name);
    parts.push_back(header.text);
  }
  return parts;
}

}  // namespace stave_cuda
