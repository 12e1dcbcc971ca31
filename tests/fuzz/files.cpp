// Randomly damaged files in each format that Stave reads. Either the file is read, or an error
// names it; reading allocates no memory that the file's size does not justify; and a file that was
// read is written and read again with the same bits.
//
// Alone, the program makes files from the seeds below by random changes. Built with
// -DSTAVE_LIBFUZZER and clang's -fsanitize=fuzzer, it is guided by the lines of core/io and
// handlers/onnx that a file reaches: see run.sh.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/io/gguf.h>
#include <stave/core/io/programs.h>
#include <stave/core/program/passes/passes.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/stave.h>

#include "options.h"

namespace {

using namespace stave;

namespace fs = std::filesystem;
using Named = std::map<std::string, Tensor>;
using Engine = std::mt19937_64;

// ---- files --------------------------------------------------------------------------------------

/// A folder that is removed with its contents. It is in memory where the system has such a place.
struct Folder {
  const std::string path = [] {
    std::string name = (fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) / "stave-XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
  ~Folder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void put(const std::string& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// ---- formats ------------------------------------------------------------------------------------

struct Format {
  std::string name;  // the name of its files
  Named (*load)(const std::string& path);
  void (*save)(const std::string& path, const Named& arrays);  // null: there is no such function
  // The most bytes of tensors for one byte of a file.
  std::size_t most_bytes;
  // Where a file holds the length of its header, and the width of that number; 0: nowhere.
  std::size_t length_at = 0, length_width = 0;
  std::vector<std::string> seeds{};
};

Named example() {
  return {{"layers/0/weight", reshape(arange(6.), {2, 3})},
          {"key", random_bits(Key(1), {2})},
          {"step", full({}, 7, int64)},
          {"mask", tensor({true, false, true})},
          {"half", ones({5}, float16)}};
}

// Programs, with all that instructions can hold.
std::vector<Program> example_programs() {
  using T = const Tensor&;
  const Tensor w = tensor({1.5, -2.5}), x = ones({3, 2});
  const auto layer = [](T a, T b) {
    const Scope scope("layer");
    return sum(square(tanh(matmul(b, a)) * 0.5 + 1.)) + sum(max_pool(reshape(b, {1, 1, 6}), 2));
  };
  const auto step = [](T state, T row) { return std::pair(sin(state) * row, state + row); };
  const auto states = [&](T a) { return sum(scan(step)(a, full({3, 2}, 0.25)).first); };
  const auto forgets = [](T a) { return sum(checkpoint([](T b) { return sin(b) * b; })(a)); };
  const auto moves = [](T a, T b) {
    const Tensor chosen = flip(concat({pad(a, {{1, 0}}), b(0)}, 0), 0);
    return sum(sort(chosen)) + solve(eye(2) * a, a) + take(a, argmax(a)) + cumulative_sum(softmax(a, 0), 0);
  };
  return {trace(layer)(w, x), optimized(trace(grad(layer))(w, x)),
          trace(states)(w),   trace(grad(states))(w),
          trace(forgets)(w),  trace(moves)(w, x)};
}

// Reads a program. If that succeeds, the program must be the same when it is written and read
// again.
Named load_one_program(const std::string& path) {
  const Program program = load_program(path);
  const std::string again = path + "-again";
  save_program(again, program);
  if (const Program same = load_program(again);
      !stave_detail::same_program(program, same) || same.str() != program.str())
    throw std::runtime_error("written and read again it is another program");
  cost_of(program);
  return {};
}

// Reads the arrays of a file, and checks that quantized weights have the same elements.
Named load_all_gguf(const std::string& path) {
  Named arrays;
  for (const auto& [name, tensor] : load_gguf(path).tensors) {
    if (tensor.type.starts_with("type ")) continue;  // one that Stave lacks
    const Tensor x = tensor.array();
    const auto without_nan = [](const Tensor& y) { return where(isnan(y), 0.5, y); };
    if (tensor.is_quantized() && !array_equal(without_nan(x), without_nan(dequantize(tensor.quantized(), float32))))
      throw std::runtime_error("quantized weights differ from the array");
    arrays.emplace(name, x);
  }
  return arrays;
}

Named load_csv(const std::string& path, char delimiter) {
  return {{"0", read_csv(path, {.delimiter = delimiter, .dtype = float64})}};
}

std::vector<Format> formats(const Folder& folder) {
  const auto load_one = [](const std::string& path) { return Named{{"0", load_npy(path)}}; };
  const auto save_one = [](const std::string& path, const Named& arrays) { save_npy(path, arrays.at("0")); };
  const auto npz = [](const std::string& path) { return load_npz<Named>(path); };
  const auto to_npz = [](const std::string& path, const Named& arrays) { save_npz(path, arrays); };
  const auto safetensors = [](const std::string& path) { return load_safetensors<Named>(path); };
  const auto to_safetensors = [](const std::string& path, const Named& arrays) { save_safetensors(path, arrays); };
  const auto checkpoint = [](const std::string& path) { return load_checkpoint(path, example()); };
  const auto to_checkpoint = [](const std::string& path, const Named& arrays) { save_checkpoint(path, arrays); };
  const auto commas = [](const std::string& path) { return load_csv(path, ','); };
  const auto blanks = [](const std::string& path) { return load_csv(path, ' '); };
  const auto weights = [](const std::string& path) { return load_onnx(path).weights(); };
  std::vector<Format> all{
      {"x.npy", load_one, save_one, 2, 8, 2},  // twice the bytes, for Fortran order
      {"x.npz", npz, to_npz, 2 * 1032},        // the most that deflate packs into a byte
      {"x.safetensors", safetensors, to_safetensors, 1, 0, 8},
      {"x.json", safetensors, nullptr, 1000},  // the named files have the bytes
      {"checkpoint", checkpoint, to_checkpoint, 1, 0, 8},
      {"commas.csv", commas, nullptr, 8},
      {"blanks.csv", blanks, nullptr, 8},
      // A program is written and read again, so that its constants are there several times.
      {"x.stave", load_one_program, nullptr, 16, 0, 8},
      {"x.onnx", weights, nullptr, 1000},       // as many for a sparse tensor
      {"x.gguf", load_all_gguf, nullptr, 100},  // blocks become floats, by several operations
  };

  const std::string data = STAVE_SOURCE_DIR "/tests/data/", at = folder / "seed";
  const auto add = [&](std::size_t format) { all[format].seeds.push_back(bytes_of(at)); };
  for (const auto& [name, x] : example()) save_npy(at, x), add(0);
  save_npz(at, example()), add(1);
  save_npz(at, example(), {.compressed = true}), add(1);
  save_safetensors(at, example(), {.metadata = {{"format", "pt"}}}), add(2);
  save_safetensors(folder / "1", Named{{"a", ones({2})}, {"b", ones({3})}});
  save_safetensors(folder / "2", Named{{"b", ones({2}, float64)}});
  put(at, R"({"metadata": {"total_size": 36}, "weight_map": {"a": "1", "b": "2"}})"), add(3);
  save_checkpoint(at, example()), add(4);
  put(at, "1,2.5,-3e7\n4,nan,inf\n"), add(5);
  put(at, " 1 2.5  -3e7\n4 5 6"), add(6);
  for (const char* name : {"arrays.npz", "deflated.npz"}) all[1].seeds.push_back(bytes_of(data + name));
  for (const char* name : {"version_2.npy", "version_3.npy"}) all[0].seeds.push_back(bytes_of(data + name));
  for (const char* name : {"arrays.safetensors", "bfloat16.safetensors"}) all[2].seeds.push_back(bytes_of(data + name));
  for (const Program& program : example_programs()) save_program(at, program), add(7);
  for (const char* name : {"control_flow", "functions", "heads", "mlp", "mlp_external", "while"})
    all[8].seeds.push_back(bytes_of(data + "onnx/" + name + ".onnx"));
  all[9].seeds.push_back(bytes_of(data + "types.gguf"));
  fs::remove(at);
  return all;
}

// ---- damage -------------------------------------------------------------------------------------

const std::string_view words[] = {"0",
                                  "1",
                                  "-1",
                                  "4",
                                  "255",
                                  "65536",
                                  "4294967295",
                                  "4294967296",
                                  "9223372036854775807",
                                  "18446744073709551615",
                                  "18446744073709551616",
                                  "1e3",
                                  "1.5",
                                  "{",
                                  "}",
                                  "[",
                                  "]",
                                  ",",
                                  ":",
                                  "\"",
                                  "\\u0000",
                                  "\\ud800",
                                  "null",
                                  "true",
                                  "\"a\"",
                                  "\"dtype\"",
                                  "\"BF16\"",
                                  "\"F64\"",
                                  "\"BOOL\"",
                                  "\"U8\"",
                                  "\"shape\":[]",
                                  "\"data_offsets\":[0,0]",
                                  "\"__metadata__\":{}",
                                  "(",
                                  ")",
                                  "False",
                                  "'<f8'",
                                  "'|b1'",
                                  "PK\1\2",
                                  "PK\3\4",
                                  "PK\5\6",
                                  "nan",
                                  "\n",
                                  "\xff",
                                  "../"};

// Replaces a number in the text.
void change_number(std::string& bytes, std::size_t at, std::string_view number) {
  const char digits[] = "0123456789";
  const std::size_t begin = bytes.find_first_of(digits, at);
  if (begin == bytes.npos) return;
  bytes.replace(begin, std::min(bytes.find_first_not_of(digits, begin), bytes.size()) - begin, number);
}

// Returns the bytes with one or a few changes: a byte changed, inserted or removed; a piece
// repeated or taken from another file; a word inserted, or put in place of a number. Afterwards the
// header's length is corrected in most cases.
std::string damaged(const Format& format, std::string bytes, Engine& engine) {
  const auto below = [&](std::size_t n) { return n ? engine() % n : 0; };
  const auto word = [&] { return words[below(std::size(words))]; };
  const std::size_t before = bytes.size();
  for (std::size_t times = 1 + (below(2) ? 0 : below(4)); times-- > 0;) {
    const std::size_t at = below(bytes.size() + 1);
    const std::string& other = below(4) ? bytes : format.seeds[below(format.seeds.size())];
    switch (below(12)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(engine());
        break;
      case 1:
        if (at < bytes.size()) bytes[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2: bytes.insert(at, 1, static_cast<char>(engine())); break;
      case 3: bytes.erase(at, 1 + below(4)); break;
      case 4: bytes.erase(at, below(bytes.size())); break;
      case 5: bytes.insert(at, other.substr(below(other.size()), below(60))); break;
      case 6: bytes.insert(at, word()); break;
      default: change_number(bytes, at, word());
    }
  }
  if (const std::size_t end = format.length_at + format.length_width; end > 0 && bytes.size() >= end && below(4)) {
    std::uint64_t length = 0;
    std::memcpy(&length, &bytes[format.length_at], format.length_width);
    length += bytes.size() - before;
    std::memcpy(&bytes[format.length_at], &length, format.length_width);
  }
  return bytes;
}

// ---- invariants ---------------------------------------------------------------------------------

std::string elements_of(const Tensor& x) {
  return visit_real_dtype(x.dtype(), [&](auto zero) {
    std::string bytes;
    for (const decltype(zero) value : x.to_vector<decltype(zero)>())
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return bytes;
  });
}

bool same(const Named& a, const Named& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.shape() == y.second.shape() && x.second.dtype() == y.second.dtype() &&
           elements_of(x.second) == elements_of(y.second);
  });
}

// Returns false for names of archive entries or tensors that no tree has.
bool can_be_saved(const Named& arrays) {
  return std::none_of(arrays.begin(), arrays.end(), [](const auto& array) {
    return array.first.empty() || array.first.find('\0') != std::string::npos;
  });
}

// Returns the error in how these bytes are read; "" if there is none.
std::string wrong(const Format& format, const Folder& folder, std::string_view bytes) {
  const std::string path = folder / format.name;
  put(path, bytes);
  reset_peak_memory();
  const std::size_t before = memory_stats().live_bytes;
  const auto most = [&] { return before + 4096 + format.most_bytes * bytes.size(); };
  Named arrays;
  try {
    arrays = format.load(path);
  } catch (const MemoryError& error) {
    return std::string("memory is asked for: ") + error.what();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find(folder.path) == text.npos) return "an error that does not name the file: " + text;
    if (memory_stats().peak_bytes > most()) return "more memory than it has, and then: " + text;
    return "";
  } catch (const std::exception& error) {
    return std::string("an exception that is not Stave's: ") + error.what();
  }
  if (memory_stats().peak_bytes > most()) return "it is read into more memory than it has";
  for (const auto& [name, x] : arrays) elements_of(x);
  if (!format.save || !can_be_saved(arrays)) return "";
  try {
    const std::string again = folder / "again";
    format.save(again, arrays);
    return same(format.load(again), arrays) ? "" : "written and read again it is another one";
  } catch (const std::exception& error) {
    return std::string("what is read of it cannot be written and read again: ") + error.what();
  }
}

const Folder& the_folder() {
  static const Folder folder;
  return folder;
}
const std::vector<Format>& the_formats() {
  static const std::vector<Format> all = formats(the_folder());
  return all;
}

}  // namespace

#ifdef STAVE_LIBFUZZER

// The first byte chooses the format of the other bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Format& format = the_formats()[data[0] % the_formats().size()];
  const std::string fault = wrong(format, the_folder(), {reinterpret_cast<const char*>(data) + 1, size - 1});
  if (fault.empty()) return 0;
  std::fprintf(stderr, "%s: %s\n", format.name.c_str(), fault.c_str());
  std::abort();
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Engine engine(seed);
  if (size > 1 && engine() % 2) return LLVMFuzzerMutate(data, size, most);
  const std::size_t which = size > 1 ? data[0] % the_formats().size() : engine() % the_formats().size();
  const Format& format = the_formats()[which];
  const std::string start =
      size > 1 ? std::string(data + 1, data + size) : format.seeds[engine() % format.seeds.size()];
  const std::string bytes = static_cast<char>(which) + damaged(format, start, engine);
  const std::size_t written = std::min(bytes.size(), most);
  std::memcpy(data, bytes.data(), written);
  return written;
}

#else

int main(int argc, char** argv) {
  const stave_fuzz::Options options(argc, argv);
  // Memory is counted, so that there is only one thread.
  if (options.threads != 1) stave_fuzz::Options::usage();
  return stave_fuzz::fuzz(options, [&](std::uint64_t seed) {
    Engine engine(seed);
    const Format& format = the_formats()[engine() % the_formats().size()];
    const std::string bytes = damaged(format, format.seeds[engine() % format.seeds.size()], engine);
    const std::string fault = wrong(format, the_folder(), bytes);
    if (fault.empty()) return true;
    const std::string kept = "fuzz_files-" + std::to_string(seed) + "-" + format.name;
    put(kept, bytes);
    std::printf("fuzz_files --only %llu: %s\nThe file is %s\n", static_cast<unsigned long long>(seed), fault.c_str(),
                kept.c_str());
    return false;
  });
}

#endif
