// .safetensors files. Stave reads the files of the reference implementation (make_safetensors.py in
// tests/data makes them) and writes the same bytes. Loaded tensors are views of the mapped file,
// which no operation writes to. io_damage_test.cpp tests damaged files.

#include <complex>
#include <cstring>
#include <fstream>
#include <optional>

#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace safetensors_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using T = const Tensor&;
using Named = std::map<std::string, Tensor>;

const std::string data = STAVE_SOURCE_DIR "/tests/data/";
const std::vector<Dtype> dtypes = {bool_, uint8, uint16,  uint32,   uint64,  int8,    int16,
                                   int32, int64, float16, bfloat16, float32, float64, complex64};

/// A file with this header, without padding.
std::string file_of(const std::string& header, const std::string& elements) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + elements;
}
std::string elements_of(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(float)};
}

bool is_mapped(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(path) != line.npos) return true;
  return false;
}

// ---- as the reference implementation ------------------------------------------------------------

TEST(Safetensors, ReadsFilesOfTheReferenceImplementation) {
  const Named arrays = load_safetensors<Named>(data + "arrays.safetensors");
  for (const Dtype dtype : dtypes) {
    if (dtype == bfloat16 || dtype == complex64) continue;
    const Tensor ordinals = reshape(arange(6), {2, 3});
    const Tensor expected = dtype == bool_ || is_unsigned(dtype) ? ordinals : ordinals - 3;
    EXPECT_THAT(arrays.at(name_of(dtype)), Equals(astype(expected, dtype))) << name_of(dtype);
  }
  EXPECT_THAT(arrays.at("scalar"), Equals(tensor(2.5, float64)));
  EXPECT_THAT(arrays.at("empty"), Equals(zeros({0, 3}, int32)));
  EXPECT_THAT(arrays.at("λ \"quoted\" \\ \x01"), Equals(arange(3.)));
  EXPECT_EQ(arrays.size(), dtypes.size() + 1);
  EXPECT_THAT(load_safetensors<Named>(data + "bfloat16.safetensors").at("x"),
              Equals(tensor({1., -2.5, 3.140625}, bfloat16)));
  using C = std::complex<float>;
  EXPECT_THAT(load_safetensors<Named>(data + "complex64.safetensors").at("z"),
              Equals(tensor({{C(1, 2), C(3, -1)}, {C(0, 0.5), C(-4, 0)}})));
  EXPECT_THAT(safetensors_metadata(data + "arrays.safetensors"), ElementsAre(std::pair("format", "np \"λ\"")));
  EXPECT_THAT(safetensors_metadata(data + "bfloat16.safetensors"), IsEmpty());
}

TEST(Safetensors, WritesTheBytesOfTheReferenceImplementation) {
  const Folder folder;
  const auto expect_same = [&](const std::string& path) {
    save_safetensors(folder / "x", load_safetensors<Named>(path), {.metadata = safetensors_metadata(path)});
    EXPECT_EQ(bytes_of(folder / "x"), bytes_of(path)) << path;
  };
  expect_same(data + "arrays.safetensors");
  expect_same(data + "sharded-00002-of-00002.safetensors");
  expect_same(data + "complex64.safetensors");
  save_safetensors(folder / "x", Named{});
  EXPECT_EQ(bytes_of(folder / "x"), file_of("{}      ", ""));
}

TEST(Safetensors, KeepsEveryDtypeAndLayout) {
  const Folder folder;
  for (const Dtype dtype : dtypes) {
    const Tensor x = astype(reshape(arange(24) - 3, {2, 3, 4}), dtype);
    const std::vector<Tensor> views = {x,
                                       transpose(x),
                                       x(ellipsis, slice(none, none, -2)),
                                       broadcast_to(x(0), {3, 3, 4}),
                                       x(0, 0, 1),
                                       x(slice(0, 0)),
                                       x(0, 0)};
    save_safetensors(folder / "x.safetensors", views);
    const auto read = load_safetensors<std::vector<Tensor>>(folder / "x.safetensors");
    ASSERT_EQ(read.size(), views.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      EXPECT_THAT(read[i], Equals(views[i]));
      EXPECT_TRUE(read[i].is_contiguous());
    }
  }
  EXPECT_THAT(folder.names(), ElementsAre("x.safetensors"));
}

// The format has complex64 since version 0.7 of the reference implementation, and no complex128.
TEST(Safetensors, HasNoComplex128) {
  const Folder folder;
  const Tensor z = ones({2}, complex128);
  const std::string path = folder / "x", rest =
                                             ": 'b/z' is complex128, which the .safetensors format does not have: save "
                                             "real(x) and imag(x), or convert x to "
                                             "complex64 with astype; .npy and .npz files have complex128";
  const Named arrays{{"a", ones({1})}, {"b/z", z}};
  EXPECT_EQ(message_of<DtypeError>([&] { save_safetensors(path, arrays); }), "save_safetensors: " + path + rest);
  EXPECT_EQ(message_of<DtypeError>([&] { save_checkpoint(path, arrays); }), "save_checkpoint: " + path + rest);
  EXPECT_THAT(folder.names(), IsEmpty());
  save_safetensors(path, Named{{"re", real(z)}, {"im", imag(z)}});
  const Named read = load_safetensors<Named>(path);
  EXPECT_THAT(stave::complex(read.at("re"), read.at("im")), Equals(z));
  save_npz(path, Named{{"z", z}});
  EXPECT_THAT(load_npz<Named>(path).at("z"), Equals(z));
}

TEST(Safetensors, KeepsEveryBitOfFloats) {
  const Folder folder;
  const std::vector<std::uint64_t> bits = {0x7ff8000000000123, 0xfff0000000000000, 1, 0x8000000000000000};
  std::vector<double> values(bits.size());
  std::memcpy(values.data(), bits.data(), 8 * bits.size());
  save_safetensors(folder / "x", from(values));
  const std::vector<double> got = load_safetensors<Tensor>(folder / "x").to_vector<double>();
  EXPECT_EQ(std::memcmp(got.data(), bits.data(), 8 * bits.size()), 0);
}

// ---- trees --------------------------------------------------------------------------------------

struct Linear {
  Tensor weight, bias;
  static constexpr const char* names[] = {"weight", "bias"};
};
struct Net {
  std::vector<Linear> layers;
  std::optional<Tensor> scale;
  Key key{0};
  static constexpr const char* names[] = {"layers", "scale", "key"};
};

TEST(Safetensors, KeepsTrees) {
  const Folder folder;
  const Net net{{{tensor({1., 2.}), tensor(3.)}, {tensor({4., 5.}), tensor(6., float16)}}, {}, Key(7)};
  save_safetensors(folder / "net", net);
  const Net built = load_safetensors<Net>(folder / "net"), filled = load_safetensors(folder / "net", net);
  for (const Net* got : {&built, &filled}) {
    ASSERT_EQ(got->layers.size(), 2u);
    EXPECT_THAT(got->layers[1].weight, Equals(tensor({4., 5.})));
    EXPECT_THAT(got->layers[1].bias, Equals(tensor(6., float16)));
    EXPECT_FALSE(got->scale);
    EXPECT_THAT(got->key.data(), Equals(Key(7).data()));
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : load_safetensors<Named>(folder / "net")) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("key", "layers/0/bias", "layers/0/weight", "layers/1/bias", "layers/1/weight"));
}

struct Embedding {
  Tensor weight;
  static constexpr const char* names[] = {"weight"};
};
struct Sharded {
  Embedding embed;
  Linear head;
  static constexpr const char* names[] = {"embed", "head"};
};
TEST(Safetensors, NamesMayHaveAnotherSeparator) {
  const Folder folder;
  const auto model = load_safetensors<Sharded>(data + "sharded.safetensors.index.json", {.separator = '.'});
  EXPECT_THAT(model.head.weight, Equals(ones({2, 2})));
  save_safetensors(folder / "x", model, {.separator = '.'});
  EXPECT_THAT(load_safetensors<Named>(folder / "x").at("head.bias"), Equals(model.head.bias));
  EXPECT_THAT(load_safetensors(folder / "x", model, {.separator = '.'}).embed.weight, Equals(model.embed.weight));

  const std::string end = "' between the parts of names when that is replaced";
  EXPECT_EQ(message_of<FileError>([&] {
              save_safetensors(folder / "y", Named{{"a.b", ones({1})}}, {.separator = '.'});
            }),
            "save_safetensors: " + folder / "y" +
                ": the name 'a.b' contains a '.', which would be confused with the '/" + end);
  save_safetensors(folder / "y", Named{{"a/b", ones({1})}});
  EXPECT_EQ(message_of<FileError>([&] { load_safetensors<Named>(folder / "y", {.separator = '.'}); }),
            "load_safetensors: " + folder / "y" +
                ": the name 'a/b' contains a '/', which would be confused with the '." + end);
}

TEST(Safetensors, ErrorNamesEveryMismatch) {
  const Folder folder;
  const std::string path = folder / "x", start = "load_safetensors: " + path + ": ";
  save_safetensors(path, Named{{"a", ones({2})}, {"b", tensor({1, 2})}, {"c", ones({2})}});
  const auto fault = [&]<class E>(E*, const Named& like) {
    return message_of<E>([&] { load_safetensors(path, like); });
  };
  FileError* file = nullptr;
  EXPECT_EQ(fault(file, {{"a", ones({3})}, {"b", ones({2, 1})}, {"d", ones({2})}}),
            start +
                "does not fit the tree:\n"
                "  'a' has shape [2], but [3] is expected\n"
                "  'b' has shape [2], but [2,1] is expected\n"
                "  'b' is int32, but float32 is expected: load it without `like` and convert it with astype\n"
                "  has no array 'd'\n"
                "  has an array 'c', which the tree does not have");
  EXPECT_EQ(fault(static_cast<ShapeError*>(nullptr), {{"a", ones({3})}, {"b", tensor({1, 2})}, {"c", ones({2})}}),
            start + "'a' has shape [2], but [3] is expected");
  EXPECT_EQ(fault(file, {{"a", ones({2})}, {"b", tensor({1, 2})}, {"c", ones({2})}, {"d", ones({2})}}),
            start + "has no array 'd', but 'a', 'b', 'c'");
  Named many;
  for (int i = 0; i < 100; ++i) many["x" + std::to_string(i)] = ones({1});
  EXPECT_THAT(fault(file, many), EndsWith("\n  and more: 103 differences in all"));
}

// ---- several files ------------------------------------------------------------------------------

TEST(Safetensors, ReadsTheFilesOfAnIndex) {
  const Named model = load_safetensors<Named>(data + "sharded.safetensors.index.json");
  EXPECT_EQ(model.size(), 3u);
  EXPECT_THAT(model.at("embed.weight"), Equals(reshape(arange(8.), {4, 2})));
  EXPECT_THAT(model.at("head.weight"), Equals(ones({2, 2})));
  EXPECT_THAT(model.at("head.bias"), Equals(zeros({2})));
}

TEST(Safetensors, IndexDecidesWhichTensorsAreRead) {
  const Folder folder;
  const std::string index = folder / "model.json", start = "load_safetensors: " + index + ": ";
  save_safetensors(folder / "1", Named{{"a", ones({1})}, {"b", ones({1})}});
  save_safetensors(folder / "2", Named{{"a", ones({2})}});
  const auto load = [&](const std::string& text) { return load_safetensors<Named>(with_bytes(index, text)); };
  const auto fault = [&](const std::string& text) { return message_of<FileError>([&] { load(text); }); };
  const Named found = load(R"({"weight_map": {"a": "2", "b": "1"}, "more": [null, -1e3, {}]})");
  EXPECT_EQ(found.size(), 2u);
  EXPECT_THAT(found.at("a"), Equals(ones({2})));
  EXPECT_THAT(load(R"({"weight_map": {}})"), IsEmpty());

  EXPECT_EQ(fault(R"({"weight_map": {"c": "1"}})"), start + "'c' should be in '1', which has no such tensor");
  EXPECT_EQ(fault(R"({"weight_map": {"a": "3"}})"),
            "load_safetensors: " + folder / "3" + ": cannot be opened: No such file or directory");
  for (const char* name : {"/etc/passwd", "../1", "..", ".", "", "x/y", "1\\u0000"})
    EXPECT_THAT(fault(R"({"weight_map": {"a": ")" + std::string(name) + "\"}}"),
                StartsWith(start + "the file of 'a' should be one beside it, but is '"))
        << name;
  for (const char* text : {"{}", "[]", "1", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})"})
    EXPECT_EQ(fault(text), start +
                               "is not an index of .safetensors files: it has no weight_map of files' names by "
                               "tensors' names");
  for (const char* text : {"", "{", R"({"weight_map": {"a": "1",}})", "{} {}", "\xff"})
    EXPECT_THAT(fault(text), StartsWith(start + "the index is not JSON: ")) << text;
  EXPECT_EQ(fault(R"({"weight_map": {"a": "1", "a": "2"}})"), start + "the index has the name 'a' twice");
  EXPECT_EQ(fault(std::string(200, '[')), start + "the index nests more than 100 levels");
}

// ---- tensors are the file -----------------------------------------------------------------------

TEST(Safetensors, TensorsAreViewsOfTheMappedFile) {
  const Folder folder;
  const std::string path = folder / "x.safetensors";
  save_safetensors(path, Named{{"a", arange(1000000.)}, {"b", arange(10.)}});
  const std::size_t before = memory_stats().live_bytes;
  Named x = load_safetensors<Named>(path);
  EXPECT_EQ(memory_stats().live_bytes, before);
  EXPECT_TRUE(is_mapped(path));
  Tensor a = x.at("a");
  x.clear();
  fs::remove(path);
  EXPECT_TRUE(is_mapped(path));
  EXPECT_THAT(sum(astype(a, float64)), Equals(tensor(499999500000., float64)));
  a = a(slice(5, 8));
  EXPECT_THAT(a, Equals(tensor({5., 6., 7.})));
  a = Tensor();
  EXPECT_FALSE(is_mapped(path));
}

TEST(Safetensors, ATensorOutlivesTheReplacementOfItsFile) {
  const Folder folder;
  save_safetensors(folder / "x", ones({100}));
  const Tensor x = load_safetensors<Tensor>(folder / "x");
  save_safetensors(folder / "x", x * 2);
  EXPECT_THAT(x, Equals(ones({100})));
  EXPECT_THAT(load_safetensors<Tensor>(folder / "x"), Equals(2 * ones({100})));
}

// The mapping is read-only: an operation that wrote to it would crash the program.
TEST(Safetensors, NoOperationWritesToTheFile) {
  const Folder folder;
  const Tensor ordinals = arange(1., 10001.), one = arange(1., 2.);
  const auto update = [](Tensor x) { return square(std::move(x)) * 2 + 1; };
  const auto compiled = compile(update);
  for (const Tensor& expected : {ordinals, one, reshape(ordinals, {100, 100})}) {
    save_safetensors(folder / "x", expected);
    const std::string bytes = bytes_of(folder / "x");
    const auto read = [&] { return load_safetensors<Tensor>(folder / "x"); };
    EXPECT_THAT(read() + 1, Equals(expected + 1));
    EXPECT_THAT(sqrt(read()), Equals(sqrt(expected)));
    EXPECT_THAT(read() * read(), Equals(square(expected)));
    EXPECT_THAT(where(read() > 2, read(), 0), Equals(where(expected > 2, expected, 0)));
    EXPECT_THAT(read().at(0).set(5), Equals(expected.at(0).set(5)));
    EXPECT_THAT(read().at(0).add(5), Equals(expected.at(0).add(5)));
    EXPECT_THAT(cumulative_sum(read(), 0), Equals(cumulative_sum(expected, 0)));
    EXPECT_THAT(sort(-read()), Equals(sort(-expected)));
    for (int i = 0; i < 3; ++i) EXPECT_THAT(compiled(read()), Equals(update(expected)));
    EXPECT_THAT(grad([&](T x) { return sum(update(x)); })(read()), Equals(4 * expected));
    EXPECT_THAT(vmap(update)(read()), Equals(update(expected)));
    const auto optimizer = adam({.learning_rate = 0.1});
    EXPECT_THAT(optimizer.update(read(), read(), optimizer.init(read())).first,
                Equals(optimizer.update(expected, expected, optimizer.init(expected)).first));
    EXPECT_EQ(bytes_of(folder / "x"), bytes);
  }
}

TEST(Safetensors, CopiesUnalignedTensors) {
  const Folder folder;
  const std::string entry = R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  for (std::size_t blanks = 0; blanks < 8; ++blanks) {
    const std::string path =
        with_bytes(folder / "x", file_of(entry + std::string(blanks, ' '), elements_of({1, 2, 3})));
    const Tensor a = load_safetensors<Named>(path).at("a");
    EXPECT_THAT(a, Equals(tensor({1., 2., 3.})));
    EXPECT_EQ(is_mapped(path), (entry.size() + blanks) % 4 == 0);
  }
}

TEST(Safetensors, EveryNonzeroByteIsTrue) {
  const Folder folder;
  const std::string header = R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})";
  const std::string path = with_bytes(folder / "x", file_of(header, std::string("\0\1\2\xff", 4)));
  EXPECT_THAT(load_safetensors<Named>(path).at("a"), Equals(tensor({false, true, true, true})));
}

TEST(Safetensors, SavingAndLoadingPerformNoOperation) {
  const Folder folder;
  CountOps count;
  with(count, [&] {
    save_safetensors(folder / "x", reshape(ones({6}), {2, 3}));
    count.n = 0;
    load_safetensors<Tensor>(folder / "x");
    load_safetensors<Named>(data + "arrays.safetensors");
  });
  EXPECT_EQ(count.n, 0);
  const auto f = [&](T x) {
    save_safetensors(folder / "x", x * 2);
    return sum(x * load_safetensors<Tensor>(folder / "x"));
  };
  // The array that was read is a constant.
  EXPECT_THAT(grad(f)(tensor({1., 2.})), Equals(tensor({2., 4.})));
}

// ---- dtypes that Stave lacks --------------------------------------------------------------------

/// A file of two float32 numbers, one 8-bit float, and two more float32 numbers.
std::string with_float8() {
  return file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b/c":{"dtype":"F8_E4M3","shape":[1,1],)"
                 R"("data_offsets":[8,9]},"b/d":{"dtype":"F32","shape":[2],"data_offsets":[9,17]}})",
                 elements_of({1, 2}) + "x" + elements_of({3, 4}));
}
std::string lacks(const std::string& name) {
  return "'" + name + "' has elements of dtype 'F8_E4M3', which Stave does not have: convert it, with " +
         "x.to(torch.float32) in PyTorch, say";
}

struct Part {
  Tensor c, d;
  static constexpr const char* names[] = {"c", "d"};
};
struct Whole {
  Tensor a;
  Part b;
  static constexpr const char* names[] = {"a", "b"};
};
struct Other {
  Tensor a;
  std::optional<Tensor> none;
  std::map<std::string, Tensor> b;
  static constexpr const char* names[] = {"a", "none", "b"};
};

TEST(Safetensors, TensorOfUnsupportedDtypeDoesNotBlockOthers) {
  const Folder folder;
  const std::string path = with_bytes(folder / "x", with_float8()), start = "load_safetensors: " + path + ": ";
  for (const bool copy : {false, true}) {
    const Named rest = load_safetensors<Named>(path, {.copy = copy});
    EXPECT_EQ(rest.size(), 2u);
    EXPECT_THAT(rest.at("a"), Equals(tensor({1., 2.})));
    EXPECT_THAT(rest.at("b/d"), Equals(tensor({3., 4.})));
    EXPECT_THAT(load_safetensors(path, rest, {.copy = copy}).at("b/d"), Equals(tensor({3., 4.})));
    EXPECT_EQ(load_safetensors<Named>(data + "float8.safetensors", {.copy = copy}).size(), 0u);
  }
  EXPECT_EQ(message_of<DtypeError>([&] { load_safetensors<Whole>(path); }), start + lacks("b/c"));
  const Whole like{ones({2}), {ones({1, 1}), ones({2})}};
  EXPECT_EQ(message_of<DtypeError>([&] { load_safetensors(path, like); }), start + lacks("b/c"));
  const Whole unlike{ones({3}), {ones({1, 1}), ones({2})}};
  EXPECT_EQ(message_of<FileError>([&] { load_safetensors(path, unlike); }),
            start + "does not fit the tree:\n  'a' has shape [2], but [3] is expected\n  " + lacks("b/c"));
  const auto other = load_safetensors<Other>(path);
  EXPECT_EQ(other.b.size(), 1u);
  EXPECT_FALSE(other.none);
  EXPECT_EQ(message_of<FileError>([&] { load_safetensors<Tensor>(data + "float8.safetensors"); }),
            "load_safetensors: " + data + "float8.safetensors: has no array '0', but none at all");
}

TEST(Safetensors, VectorDoesNotEndAtAnUnsupportedDtype) {
  const Folder folder;
  const std::string path =
      with_bytes(folder / "x",
                 file_of(R"({"0":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"1":{"dtype":"F8_E5M2",)"
                         R"("shape":[4],"data_offsets":[4,8]},"2":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                         elements_of({1, 2, 3})));
  EXPECT_THAT(message_of<DtypeError>([&] { load_safetensors<std::vector<Tensor>>(path); }),
              HasSubstr("'1' has elements of dtype 'F8_E5M2', which Stave does not have"));
  EXPECT_THAT(message_of<DtypeError>([&] { load_safetensors<std::vector<std::optional<Tensor>>>(path); }),
              HasSubstr("'1' has elements of dtype 'F8_E5M2'"));
}

TEST(Safetensors, ListsItsTensors) {
  const Folder folder;
  const std::string path = with_bytes(folder / "x", with_float8());
  const auto text = [](const std::vector<SafetensorsInfo>& all) {
    std::string lines;
    for (const SafetensorsInfo& x : all)
      lines += x.name + " " + x.code + " " + (x.dtype ? name_of(*x.dtype) : "none") + " " + x.shape.str() + "\n";
    return lines;
  };
  EXPECT_EQ(text(list_safetensors(path)), "a F32 float32 [2]\nb/c F8_E4M3 none [1,1]\nb/d F32 float32 [2]\n");
  EXPECT_EQ(text(list_safetensors(data + "sharded.safetensors.index.json")),
            "embed.weight F32 float32 [4,2]\nhead.bias F32 float32 [2]\nhead.weight F32 float32 [2,2]\n");
  EXPECT_THAT(list_safetensors(data + "bfloat16.safetensors").at(0).dtype, testing::Optional(bfloat16));
  EXPECT_EQ(list_safetensors(data + "arrays.safetensors").size(), dtypes.size() + 1);
  with_bytes(folder / "index.json", R"({"weight_map": {"b/c": "x", "a": "x"}})");
  EXPECT_EQ(text(list_safetensors(folder / "index.json")), "a F32 float32 [2]\nb/c F8_E4M3 none [1,1]\n");
  EXPECT_EQ(load_safetensors<Named>(folder / "index.json").size(), 1u);
  with_bytes(folder / "index.json", R"({"weight_map": {"c": "x"}})");
  EXPECT_EQ(message_of<FileError>([&] { list_safetensors(folder / "index.json"); }),
            "list_safetensors: " + folder / "index.json" + ": 'c' should be in 'x', which has no such tensor");
  EXPECT_EQ(message_of<FileError>([&] { list_safetensors(folder / "none"); }),
            "list_safetensors: " + folder / "none" + ": cannot be opened: No such file or directory");
}

// ---- files that others change -------------------------------------------------------------------

TEST(Safetensors, CopyOutlivesTruncationOfTheFile) {
  const Folder folder;
  const std::string path = folder / "x";
  save_safetensors(path, Named{{"a", arange(10000.)}, {"b", tensor({true, false})}, {"c", zeros({0})}});
  const std::size_t before = memory_stats().live_bytes;
  const Named x = load_safetensors<Named>(path, {.copy = true});
  EXPECT_GE(memory_stats().live_bytes, before + 40002);
  EXPECT_FALSE(is_mapped(path));
  const Named like = load_safetensors(path, x, {.copy = true});
  // After this, reading a mapped file would crash the program.
  fs::resize_file(path, 8);
  for (const Named* read : {&x, &like}) {
    EXPECT_THAT(read->at("a"), Equals(arange(10000.)));
    EXPECT_THAT(read->at("b"), Equals(tensor({true, false})));
    EXPECT_THAT(read->at("c"), Equals(zeros({0})));
  }
  const Named parts = load_safetensors<Named>(data + "sharded.safetensors.index.json", {.copy = true});
  EXPECT_THAT(parts.at("head.weight"), Equals(ones({2, 2})));
  EXPECT_FALSE(is_mapped("sharded-0000"));
}

// ---- what cannot be written ---------------------------------------------------------------------

TEST(Safetensors, RefusesNamesThatTheFormatCannotHold) {
  const Folder folder;
  const std::string path = folder / "x";
  const auto fault = [&](const Named& arrays, SafetensorsOptions options = {}) {
    return message_of<FileError>([&] { save_safetensors(path, arrays, options); });
  };
  EXPECT_EQ(
      fault({{"__metadata__", ones({1})}}),
      "save_safetensors: " + path + ": no tensor may have the name '__metadata__', which the format keeps for itself");
  EXPECT_EQ(fault({{"a\xff", ones({1})}}), "save_safetensors: " + path + ": the name 'a\\xff' is not UTF-8");
  EXPECT_EQ(fault({}, {.metadata = {{"a", "\xff"}}}), "save_safetensors: " + path + ": metadata '\\xff' is not UTF-8");
  EXPECT_EQ(fault({}, {.metadata = {{"\xff", "a"}}}),
            "save_safetensors: " + path + ": the name of metadata '\\xff' is not UTF-8");
  EXPECT_EQ(fault({{"", ones({1})}}), "save_safetensors: the key '' of a map is empty");
  EXPECT_THAT(message_of<TransformError>([&] {
                save_safetensors(path, Named{{"a", Tensor()}});
              }),
              StartsWith("save_safetensors: " + path + ": 'a' is an empty Tensor"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace safetensors_test
