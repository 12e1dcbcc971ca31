// .gguf files, as the package gguf writes them and computes their elements (make_gguf.py in
// tests/data). fuzz/files.cpp damages files at random.
#include <cstring>
#include <sstream>

#include <stave/core/io/gguf.h>
#include <stave/core/io/zip_records.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace gguf_test {

using namespace stave;
using namespace stave_test;
using stave_detail::Record;
using testing::ElementsAre;
using testing::HasSubstr;

using Named = std::map<std::string, Tensor>;

const std::string data = STAVE_SOURCE_DIR "/tests/data/";

// ---- metadata -----------------------------------------------------------------------------------

TEST(Gguf, MetadataOfEveryType) {
  const Gguf file = load_gguf(data + "types.gguf");
  const auto value = [&]<class T>(const char* name, T) { return std::get<T>(file.metadata.at(name)); };
  EXPECT_EQ(value("u8", std::uint64_t()), 255u);
  EXPECT_EQ(value("i8", std::int64_t()), -128);
  EXPECT_EQ(value("u16", std::uint64_t()), 65535u);
  EXPECT_EQ(value("i16", std::int64_t()), -32768);
  EXPECT_EQ(value("u32", std::uint64_t()), 4294967295u);
  EXPECT_EQ(value("i32", std::int64_t()), -2147483648);
  EXPECT_EQ(value("u64", std::uint64_t()), ~std::uint64_t{0});
  EXPECT_EQ(value("i64", std::int64_t()), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value("f32", double()), 0.5);
  EXPECT_EQ(value("f64", double()), 1e300);
  EXPECT_EQ(value("yes", bool()), true);
  EXPECT_EQ(value("no", bool()), false);
  EXPECT_EQ(value("text", std::string()), "λ \"quoted\"");
  EXPECT_EQ(value("general.architecture", std::string()), "test");
  using Array = std::vector<GgufValue>;
  EXPECT_EQ(value("words", Array()), (Array{std::string("a"), std::string(), std::string("bc")}));
  EXPECT_EQ(value("numbers", Array()), (Array{std::int64_t{1}, std::int64_t{-2}, std::int64_t{3}}));
  EXPECT_EQ(value("floats", Array()), (Array{0.5, -2.}));
  const Array first{std::int64_t{1}, std::int64_t{2}}, second{std::int64_t{3}};
  EXPECT_EQ(value("nested", Array()), (Array{first, second}));
}

// ---- tensors ------------------------------------------------------------------------------------

TEST(Gguf, ArraysAreThoseOfThePackage) {
  const Gguf file = load_gguf(data + "types.gguf");
  const Named expected = load_npz<Named>(data + "gguf.npz");
  for (const auto& [name, x] : expected) {
    SCOPED_TRACE(name);
    const GgufTensor& tensor = file.at(name);
    EXPECT_EQ(tensor.shape, x.shape());
    if (name == "BF16") EXPECT_THAT(astype(tensor.array(), float32), Equals(x));
    else EXPECT_THAT(tensor.array(), Equals(x));  // to the bit
  }
  EXPECT_EQ(file.at("BF16").array().dtype(), bfloat16);
  EXPECT_EQ(file.tensors.size(), expected.size() + 1);
}

// Weights have the codes of the blocks, and products with them are those with the arrays.
TEST(Gguf, BlocksAreQuantizedWeights) {
  const Gguf file = load_gguf(data + "types.gguf");
  int quantized = 0;
  for (const auto& [name, tensor] : file.tensors) {
    SCOPED_TRACE(name);
    if (!tensor.is_quantized()) continue;
    ++quantized;
    const Quantized w = tensor.quantized();
    const bool has_groups_of_16 = name == "Q2_K" || name == "Q3_K" || name == "Q6_K";
    const bool is_of_four_bits = name[1] == '4' || name == "Q2_K" || name == "Q3_K";
    const bool is_affine = name == "Q4_1" || name == "Q5_1" || name == "Q2_K" || name == "Q4_K" || name == "Q5_K";
    EXPECT_EQ(w.bits, is_of_four_bits ? 4 : 8);
    EXPECT_EQ(w.biases.has_value(), is_affine);
    EXPECT_EQ(w.scales.dtype(), name.ends_with("K") ? float32 : float16);
    EXPECT_EQ(w.scales.shape(-1), tensor.shape.back() / (has_groups_of_16 ? 16 : 32));
    EXPECT_THAT(dequantize(w, float32), Equals(tensor.array()));
    const Tensor x = normal(Key(1), {2, tensor.shape.back()});
    EXPECT_TRUE(allclose(quantized_matmul(x, w), matmul(x, matrix_transpose(tensor.array())), 1e-4, 1e-3));
  }
  EXPECT_EQ(quantized, 11);  // ten types, and a stack of matrices
}

TEST(Gguf, OtherUsesAreErrors) {
  const Gguf file = load_gguf(data + "types.gguf");
  EXPECT_FALSE(file.at("vector").is_quantized());
  EXPECT_THAT([&] { file.at("vector").quantized(); },
              ThrowsMessage<ShapeError>(HasSubstr("load_gguf: 'vector' is a vector, and no matrix of weights")));
  EXPECT_THAT([&] { file.at("F32").quantized(); },
              ThrowsMessage<DtypeError>(HasSubstr("'F32' is of F32, which has no blocks of codes: use array()")));
  EXPECT_THAT([&] { file.at("other").array(); },
              ThrowsMessage<DtypeError>(HasSubstr("'other' is of type 16, which Stave does not have")));
  EXPECT_THAT([&] { file.at("none"); },
              ThrowsMessage<FileError>(HasSubstr("types.gguf: there is no tensor 'none' among the 21: BF16, F16, ")));
}

// The mapping lives as long as a tensor of it, and arrays of numbers are views of it.
TEST(Gguf, TensorsOutliveTheirFile) {
  const Folder folder;
  const std::string path = with_bytes(folder / "x.gguf", bytes_of(data + "types.gguf"));
  const Tensor x = load_gguf(path).at("F32").array();
  const GgufTensor tensor = load_gguf(path).at("Q8_0");
  fs::remove(path);
  const Named expected = load_npz<Named>(data + "gguf.npz");
  EXPECT_THAT(x, Equals(expected.at("F32")));
  EXPECT_THAT(tensor.array(), Equals(expected.at("Q8_0")));
}

// The lines of docs/guides/bring_your_model.md.
TEST(Gguf, TheGuideShowsAProduct) {
  const std::string path = data + "types.gguf", name = "Q4_0";
  const Tensor x = normal(Key(0), {1, 64});

  const Gguf file = load_gguf(path);
  const Quantized w = file.at(name).quantized();  // codes of 4 bits, scales of float16
  const Tensor y = quantized_matmul(x, w);        // x times the transposed weights

  EXPECT_TRUE(allclose(y, matmul(x, matrix_transpose(load_npz<Named>(data + "gguf.npz").at(name))), 1e-5, 1e-4));
}

// ---- damaged files ------------------------------------------------------------------------------

/// A file that is built: the header, and 32 bytes of data for one tensor.
struct Built {
  Record record;
  explicit Built(std::uint64_t version = 3, std::uint64_t tensors = 0, std::uint64_t entries = 0) {
    record.text("GGUF").u32(version).u64(tensors).u64(entries);
  }
  Built& text(const std::string& value) {
    record.u64(value.size()).text(value);
    return *this;
  }
  Built& entry(const std::string& name, std::uint64_t type) {
    text(name);
    record.u32(type);
    return *this;
  }
  Built& tensor(const std::string& name, std::initializer_list<std::uint64_t> lengths, std::uint64_t type,
                std::uint64_t offset = 0) {
    text(name);
    record.u32(lengths.size());
    for (const std::uint64_t length : lengths) record.u64(length);
    record.u32(type).u64(offset);
    return *this;
  }
  /// The bytes with the data of tensors, from the next multiple of 32 on.
  std::string with_data(std::size_t count) const {
    std::string bytes = record.bytes;
    bytes.resize((bytes.size() + 31) / 32 * 32 + count, '\0');
    return bytes;
  }
};

std::string fault_of(const std::string& bytes) {
  const Folder folder;
  const std::string path = with_bytes(folder / "x.gguf", bytes);
  const std::string message = message_of<FileError>([&] {
    const Gguf file = load_gguf(path);
    for (const auto& [name, tensor] : file.tensors)
      if (name != "other") static_cast<void>(tensor.array());
  });
  const std::size_t at = message.find(path);
  return at == message.npos ? message : message.substr(at + path.size());
}

TEST(DamagedGguf, HeadersAreChecked) {
  EXPECT_THAT(fault_of(""), HasSubstr(": is not a .gguf file"));
  EXPECT_THAT(fault_of("GGUF and something else, no"), HasSubstr(": is of version "));
  EXPECT_THAT(fault_of("PK and something else, of some length"), HasSubstr(": is not a .gguf file"));
  EXPECT_EQ(fault_of(Built(1).record.bytes), ": is of version 1: 2 and 3 can be read");
  EXPECT_EQ(fault_of(Built(3u << 24).record.bytes), ": is a big-endian file, which Stave does not read");
  EXPECT_EQ(fault_of(Built(3, 2).record.bytes),
            ": should have 2 tensors from byte 24 on, for which the file is too short");
  EXPECT_EQ(fault_of(Built(3, 0, std::uint64_t{1} << 60).record.bytes),
            ": should have 1152921504606846976 entries of metadata from byte 24 on, for which the file is too short");
}

TEST(DamagedGguf, MetadataIsChecked) {
  const auto one = [](std::uint64_t type) {
    Built built(3, 0, 1);
    built.entry("key", type);
    return built;
  };
  Built long_text = one(8);
  long_text.record.u64(1000).text("too short");
  EXPECT_EQ(fault_of(long_text.record.bytes),
            ": should have 1000 bytes of text from byte 47 on, for which the file is too short");
  Built long_array = one(9);
  long_array.record.u32(10).u64(1000).u64(1);
  EXPECT_THAT(fault_of(long_array.record.bytes), HasSubstr(": should have 1000 values of an array from byte 51 on"));
  Built nested = one(9);
  for (int depth = 0; depth < 20; ++depth) nested.record.u32(9).u64(1);
  EXPECT_THAT(fault_of(nested.with_data(100)), HasSubstr(": arrays are nested more than 16 deep"));
  Built strange = one(13);
  EXPECT_THAT(fault_of(strange.with_data(10)), HasSubstr("has type 13, which no version has"));
  Built strange_array = one(9);
  strange_array.record.u32(99).u64(0);
  EXPECT_THAT(fault_of(strange_array.with_data(10)), HasSubstr("has values of type 99"));
  Built boolean = one(7);
  boolean.record.put(2, 1);
  EXPECT_THAT(fault_of(boolean.with_data(10)), HasSubstr(": a bool before byte 40 is 2"));
  Built twice(3, 0, 2);
  twice.entry("key", 0).record.put(1, 1);
  twice.entry("key", 0).record.put(1, 1);
  EXPECT_EQ(fault_of(twice.with_data(10)), ": the key 'key' occurs twice");
  Built not_text(3, 0, 1);
  not_text.entry("k\xff", 0).record.put(1, 1);
  EXPECT_THAT(fault_of(not_text.with_data(10)), HasSubstr(": the name 'k\\xff' is not UTF-8"));
  Built alignment(3, 0, 1);
  alignment.entry("general.alignment", 4).record.u32(24);
  EXPECT_EQ(fault_of(alignment.with_data(10)), ": general.alignment is not a power of two");
}

TEST(DamagedGguf, TensorsAreChecked) {
  const auto one = [](std::initializer_list<std::uint64_t> lengths, std::uint64_t type, std::uint64_t offset = 0) {
    return fault_of(Built(3, 1).tensor("x", lengths, type, offset).with_data(64));
  };
  EXPECT_EQ(one({4, 4}, 0), "nothing was thrown");
  EXPECT_EQ(one({4, 5}, 0), ": is cut off: 'x' should have 80 bytes from byte 0 on, and the data have 64");
  EXPECT_EQ(one({4, 4}, 0, 32), ": is cut off: 'x' should have 64 bytes from byte 32 on, and the data have 64");
  EXPECT_EQ(one({1}, 0, ~std::uint64_t{31}),
            ": is cut off: 'x' should have 4 bytes from byte 18446744073709551584 on, and the data have 64");
  EXPECT_EQ(one({1}, 0, 4), ": 'x' begins at byte 4 of the data, which is not a multiple of 32");
  EXPECT_EQ(one({40}, 2), ": 'x', Q4_0 [40], has rows that are not whole blocks of 32 elements");
  EXPECT_EQ(one({}, 2), ": 'x', Q4_0 [], has rows that are not whole blocks of 32 elements");
  EXPECT_EQ(one({96}, 8), ": is cut off: 'x' should have 102 bytes from byte 0 on, and the data have 64");
  EXPECT_THAT(one({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0), HasSubstr("that is too large"));
  EXPECT_THAT(one({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 2), HasSubstr("that is too large"));
  EXPECT_THAT(one({~std::uint64_t{0}}, 0), HasSubstr(": 'x' has an axis of length 18446744073709551615"));
  Built deep(3, 1);
  deep.text("x").record.u32(65);
  EXPECT_EQ(fault_of(deep.with_data(1000)), ": 'x' has more than 64 axes");
  EXPECT_EQ(fault_of(Built(3, 2).tensor("x", {1}, 0).tensor("x", {1}, 0).with_data(64)),
            ": two tensors have the name 'x'");
  EXPECT_EQ(fault_of(Built(3, 2).tensor("x", {16}, 0).tensor("y", {1}, 0, 32).with_data(64)),
            ": the tensors 'x' and 'y' overlap");
  EXPECT_EQ(fault_of(Built(3, 2).tensor("x", {8}, 0).tensor("y", {1}, 0, 32).with_data(64)), "nothing was thrown");
  const std::string whole = bytes_of(data + "types.gguf");
  // The last tensor has a type of unknown size.
  for (std::size_t size = 0; size + 200 < whole.size(); size += 97)
    EXPECT_NE(fault_of(whole.substr(0, size)), "nothing was thrown") << size;
}

}  // namespace gguf_test
