// Files: arrays are written and read back, NumPy's files are read (make.py in tests/data
// makes them), and a file is replaced either completely or not at all.
// io_damage_test.cpp tests damaged files.

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <optional>
#include <tuple>

#include <stave/core/io/zip.h>
#include <stave/core/io/zip_records.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace npy_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::UnorderedElementsAre;

using T = const Tensor&;
using Named = std::map<std::string, Tensor>;

const std::string data = STAVE_SOURCE_DIR "/tests/data/";
const std::vector<Dtype> dtypes = {bool_, uint8, uint16, uint32,  uint64,  int8,
                                   int16, int32, int64,  float16, float32, float64};

// ---- .npy ---------------------------------------------------------------------------------------

TEST(Npy, KeepsEveryDtypeAndLayout) {
  const Folder folder;
  for (const Dtype dtype : dtypes) {
    const Tensor x = astype(reshape(arange(24) - 3, {2, 3, 4}), dtype);
    for (const Tensor& view : {x, transpose(x), x(ellipsis, slice(none, none, -2)), broadcast_to(x(0), {3, 3, 4}),
                               x(0, 0, 1), x(slice(0, 0)), x(0, 0)}) {
      save_npy(folder / "x.npy", view);
      const Tensor y = load_npy(folder / "x.npy");
      EXPECT_THAT(y, Equals(view));
      EXPECT_TRUE(y.is_contiguous());
    }
  }
  EXPECT_THAT(folder.names(), ElementsAre("x.npy"));
}

TEST(Npy, KeepsEveryBitOfFloats) {
  const Folder folder;
  const std::vector<std::uint64_t> bits = {0x7ff8000000000123, 0xfff0000000000000, 1, 0x8000000000000000};
  std::vector<double> values(bits.size());
  std::memcpy(values.data(), bits.data(), 8 * bits.size());
  save_npy(folder / "x.npy", from(values));
  const std::vector<double> got = load_npy(folder / "x.npy").to_vector<double>();
  EXPECT_EQ(std::memcmp(got.data(), bits.data(), 8 * bits.size()), 0);
}

// The expected bytes follow the format that numpy.lib.format documents.
TEST(Npy, HasTheDocumentedFormat) {
  const Folder folder;
  save_npy(folder / "x.npy", tensor({{1, 2}, {3, 4}, {5, 6}}));
  const std::string dictionary = "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }";
  const std::string header = dictionary + std::string(128 - 10 - 1 - dictionary.size(), ' ') + "\n";
  std::string elements;
  for (char i = 1; i <= 6; ++i) elements += {i, 0, 0, 0};
  EXPECT_EQ(bytes_of(folder / "x.npy"), npy(header, elements));
  save_npy(folder / "x.npy", tensor({true, false}));
  EXPECT_THAT(bytes_of(folder / "x.npy"), HasSubstr("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), } "));
  save_npy(folder / "x.npy", tensor(2.5));
  EXPECT_THAT(bytes_of(folder / "x.npy"), HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (), } "));
}

TEST(Npy, ReadsEveryFormOfHeader) {
  const Folder folder;
  const auto read = [&](const std::string& dictionary, const std::string& elements) {
    return load_npy(with_bytes(folder / "x.npy", npy(dictionary, elements)));
  };
  const std::string four("\1\0\0\0", 4), three_and_four = std::string("\3\0\0\0", 4) + std::string("\4\0\0\0", 4);
  EXPECT_THAT(read("{\"shape\":(1L,),'descr':\"=i4\",'fortran_order':True}", four), Equals(tensor({1})));
  EXPECT_THAT(read("{'descr':'i4','fortran_order' : False , 'shape': ( 1 , 2 )}\n", three_and_four),
              Equals(tensor({{3, 4}})));
  EXPECT_THAT(read("{'descr':'|b1','fortran_order':False,'shape':(4,),}", std::string("\0\1\2\xff", 4)),
              Equals(tensor({false, true, true, true})));
  EXPECT_THAT(read("{'descr':'>u4','fortran_order':False,'shape':(),}" + std::string(20, ' '), four + "more"),
              Equals(tensor(1 << 24, uint32)));
}

TEST(Npy, ReadsFilesOfNumPy) {
  for (const char* version : {"2", "3"})
    EXPECT_THAT(load_npy(data + "version_" + version + ".npy"), Equals(tensor({0, 1, 2})));
}

TEST(Npy, SavingAndLoadingPerformNoOperation) {
  const Folder folder;
  CountOps count;
  const Tensor x = transpose(reshape(arange(6.), {2, 3}));
  with(count, [&] {
    save_npy(folder / "x.npy", x);
    save_npz(folder / "x.npz", x);
    load_npz<Tensor>(folder / "x.npz");
    load_npy(folder / "x.npy");
    load_npz<Named>(data + "arrays.npz");
  });
  EXPECT_EQ(count.n, 0);
}

// ---- .npz ---------------------------------------------------------------------------------------

TEST(Npz, ReadsFilesOfNumPy) {
  const Named arrays = load_npz<Named>(data + "arrays.npz");
  for (const Dtype dtype : dtypes)
    for (const char* kind : {"/little", "/big", "/little/fortran", "/big/fortran"}) {
      const Tensor expected = astype(reshape(arange(6), {2, 3}), dtype);
      EXPECT_THAT(arrays.at(name_of(dtype) + std::string(kind)), Equals(expected)) << name_of(dtype) << kind;
    }
  EXPECT_THAT(arrays.at("scalar"), Equals(tensor(2.5, float64)));
  EXPECT_THAT(arrays.at("empty"), Equals(zeros({0, 3}, int32)));
  EXPECT_THAT(arrays.at("cube"), Equals(reshape(arange(24), {2, 3, 4})));
  EXPECT_EQ(arrays.size(), 4 * dtypes.size() + 3);

  const Named deflated = load_npz<Named>(data + "deflated.npz");
  EXPECT_THAT(deflated.at("a"), Equals(zeros({10000})));
  EXPECT_THAT(deflated.at("b"), Equals(arange(0, 5, 1, int64)));
}

struct Layer {
  Tensor w;
  std::string name;
  std::optional<Tensor> b;
};
struct Model {
  int steps = 3;
  std::vector<Layer> layers;
  std::map<std::string, std::vector<Tensor>> moments;
  std::map<int, Tensor> by_number;
  std::tuple<Tensor, float, std::array<Tensor, 2>> rest;
};

Model model() {
  const auto v = [](double value) { return tensor({value, value + 0.5}); };
  return {.steps = 7,
          .layers = {{v(1), "first", v(2)}, {v(3), "second", {}}},
          .moments = {{"first", {v(4), v(5)}}, {"second", {v(6)}}},
          .by_number = {{-2, v(7)}, {10, v(8)}},
          .rest = {v(9), 1.f, {v(10), v(11)}}};
}

TEST(Npz, NamesTensorsByKeyAndPosition) {
  std::vector<std::string> names;
  const Model m = model();
  visit_named_tensors(m, [&](const std::string& name, T) { names.push_back(name); });
  EXPECT_THAT(names, ElementsAre("1/0/0", "1/0/2", "1/1/0", "2/first/0", "2/first/1", "2/second/0", "3/-2", "3/10",
                                 "4/0", "4/2/0", "4/2/1"));
  const auto name_of_one = [](const auto& tree) {
    std::string result;
    visit_named_tensors(tree, [&](const std::string& name, T) { result += name; });
    return result;
  };
  EXPECT_EQ(name_of_one(ones({2})), "0");
  EXPECT_EQ(name_of_one(std::optional(ones({2}))), "0");
  EXPECT_EQ(name_of_one(Named{{"a/b", ones({2})}}), "a/b");
}

struct Linear {
  Tensor w, b;
  static constexpr const char* names[] = {"weight", "bias"};
};
struct Net {
  std::vector<std::shared_ptr<Linear>> layers;
  std::unordered_map<std::string, Tensor> running;
  std::unique_ptr<Linear> head;
  Key key{0};
  static constexpr const char* names[] = {"layers", "running", "head", "key"};
};
TEST(Npz, UsesTheMemberNamesThatAStructDeclares) {
  const Folder folder;
  Net net{{std::make_shared<Linear>(Linear{tensor(1.), tensor(2.)})},
          {{"mean", tensor(3.)}, {"deviation", tensor(4.)}},
          std::make_unique<Linear>(Linear{tensor(5.), tensor(6.)}),
          Key(7)};
  save_npz(folder / "net.npz", net);
  std::vector<std::string> names;
  for (const auto& [name, value] : load_npz<Named>(folder / "net.npz")) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("head/bias", "head/weight", "key", "layers/0/bias", "layers/0/weight",
                                 "running/deviation", "running/mean"));
  const Net loaded = load_npz<Net>(folder / "net.npz"), like = load_npz(folder / "net.npz", net);
  for (const Net* got : {&loaded, &like}) {
    EXPECT_THAT(got->layers.at(0)->b, Equals(tensor(2.)));
    EXPECT_THAT(got->running.at("deviation"), Equals(tensor(4.)));
    EXPECT_THAT(got->head->w, Equals(tensor(5.)));
    EXPECT_THAT(got->key.data(), Equals(Key(7).data()));
  }
  EXPECT_NE(like.layers[0], net.layers[0]);
}

TEST(Npz, KeepsTrees) {
  const Folder folder;
  const Model m = model();
  for (const bool compressed : {false, true}) {
    save_npz(folder / "m.npz", m, {.compressed = compressed});
    const Model built = load_npz<Model>(folder / "m.npz"), filled = load_npz(folder / "m.npz", m);
    for (const Model& loaded : {built, filled}) {
      const auto leaves = tree_leaves(loaded), expected = tree_leaves(m);
      ASSERT_EQ(leaves.size(), expected.size());
      for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_THAT(leaves[i], Equals(expected[i]));
    }
    EXPECT_FALSE(built.layers[1].b);
    EXPECT_EQ(built.layers[0].name, "");  // from T{}
    EXPECT_EQ(built.steps, 3);
    EXPECT_EQ(filled.layers[0].name, "first");  // from the second argument of load_npz
    EXPECT_EQ(filled.steps, 7);
  }
}

TEST(Npz, KeepsEmptyTreesAndTensors) {
  const Folder folder;
  save_npz(folder / "x.npz", std::vector<Tensor>{});
  EXPECT_THAT(load_npz<std::vector<Tensor>>(folder / "x.npz"), IsEmpty());
  EXPECT_THAT(load_npz<Named>(folder / "x.npz"), IsEmpty());
  EXPECT_FALSE(load_npz<std::optional<Tensor>>(folder / "x.npz"));
  save_npz(folder / "x.npz", std::vector<Tensor>(1, zeros({0})));
  EXPECT_THAT(load_npz<std::vector<Tensor>>(folder / "x.npz").at(0), Equals(zeros({0})));
}

TEST(Npz, TheSameTensorsGiveTheSameFile) {
  const Folder folder;
  save_npz(folder / "a.npz", model());
  save_npz(folder / "b.npz", model());
  EXPECT_EQ(bytes_of(folder / "a.npz"), bytes_of(folder / "b.npz"));
}

TEST(Npz, CompressesOnRequest) {
  const Folder folder;
  const Tensor x = zeros({1000, 1000});
  save_npz(folder / "x.npz", x);
  EXPECT_GT(fs::file_size(folder / "x.npz"), 4'000'000u);
  save_npz(folder / "x.npz", x, {.compressed = true});
  EXPECT_LT(fs::file_size(folder / "x.npz"), 10'000u);
  EXPECT_THAT(load_npz<Tensor>(folder / "x.npz"), Equals(x));
}

TEST(Npz, KeepsNonAsciiNames) {
  const Folder folder;
  save_npz(folder / "x.npz", Named{{"Größe/λ", tensor({1})}});
  EXPECT_THAT(load_npz<Named>(folder / "x.npz").at("Größe/λ"), Equals(tensor({1})));
}

// The limits are lowered so that small archives need Zip64. Python's zipfile reads these archives,
// and also archives that exceed the real limits.
TEST(Npz, WritesAndReadsZip64) {
  const Folder folder;
  const std::string first(40, 'a'), second = "b";
  for (const bool compressed : {false, true}) {
    stave_detail::OutputFile file("test", folder / "x.zip");
    stave_detail::ZipWriter zip(file, 30, 2);
    for (const std::string& text : {first, second}) {
      const std::span<const char> pieces[] = {text};
      zip.add(text.substr(0, 1), pieces, compressed);
    }
    zip.finish();
    file.finish();
    const stave_detail::InputFile in("test", folder / "x.zip");
    const stave_detail::ZipReader read(in);
    ASSERT_EQ(read.entries().size(), 2u);
    for (const std::string& text : {first, second}) {
      const auto& entry = read.entries()[text == second];
      EXPECT_EQ(entry.name, text.substr(0, 1));
      ASSERT_EQ(entry.size, text.size());
      std::string got(text.size(), ' ');
      const auto stream = read.open(entry);
      stream->read(got.data(), got.size());
      stream->finish();
      EXPECT_EQ(got, text);
    }
  }
}

// The offsets in an archive may or may not count the bytes before it.
// Python's zipfile reads both kinds.
TEST(Npz, ReadsArchivesBehindOtherBytes) {
  const Folder folder;
  for (const bool compressed : {false, true}) {
    save_npz(folder / "x.npz", model(), {.compressed = compressed});
    const std::string archive = bytes_of(folder / "x.npz");
    const std::size_t end = archive.size() - stave_detail::end_length;
    for (const std::string& before : {std::string("#!/bin/sh\nexit\n"), std::string(100'000, 'x'), archive}) {
      const Model read = load_npz<Model>(with_bytes(folder / "y.npz", before + archive));
      EXPECT_THAT(read.layers.at(1).w, Equals(tensor({3., 3.5})));
      EXPECT_EQ(read.layers.size(), 2u);
    }
    // This archive ends with a comment.
    std::string commented = "before" + archive + "a comment";
    commented[6 + end + 20] = 9;
    EXPECT_EQ(load_npz<Model>(with_bytes(folder / "y.npz", commented)).layers.size(), 2u);
  }
  EXPECT_THAT(load_npz<Named>(data + "appended.npz").at("a/x"), Equals(tensor({0, 1, 2})));
}

TEST(Npz, ReadsZip64ArchivesBehindOtherBytes) {
  const Folder folder;
  {
    stave_detail::OutputFile file("test", folder / "x.zip");
    stave_detail::ZipWriter zip(file, 30, 2);
    for (const char* name : {"a", "b"}) {
      const std::span<const char> pieces[] = {std::string_view("0123456789")};
      zip.add(name, pieces, false);
    }
    zip.finish();
    file.finish();
  }
  with_bytes(folder / "y.zip", "before" + bytes_of(folder / "x.zip"));
  const stave_detail::InputFile in("test", folder / "y.zip");
  const stave_detail::ZipReader read(in);
  ASSERT_EQ(read.entries().size(), 2u);
  for (const auto& entry : read.entries()) {
    std::string got(10, ' ');
    const auto stream = read.open(entry);
    stream->read(got.data(), got.size());
    stream->finish();
    EXPECT_EQ(got, "0123456789");
  }
}

TEST(Npz, SkipsFolderEntries) {
  const Named read = load_npz<Named>(data + "folders.npz");
  EXPECT_EQ(read.size(), 2u);
  EXPECT_THAT(read.at("a/x"), Equals(tensor({0, 1, 2})));
  EXPECT_THAT(read.at("y"), Equals(tensor({0, 1, 2})));
}

// The archive equals the output of numpy.savez(file, x=..., s=structured, o=objects).
TEST(Npz, ArrayOfUnsupportedDtypeDoesNotBlockOthers) {
  const Folder folder;
  const std::string path = folder / "x.npz", start = "load_npz: " + path + ": ";
  {
    stave_detail::OutputFile file("test", path);
    stave_detail::ZipWriter zip(file);
    for (const auto& [name, from] :
         {std::pair("x", "version_2"), std::pair("o", "objects"), std::pair("s", "structured")}) {
      const std::string bytes = bytes_of(data + from + ".npy");
      const std::span<const char> pieces[] = {bytes};
      zip.add(name + std::string(".npy"), pieces, true);
    }
    zip.finish();
    file.finish();
  }
  const Named rest = load_npz<Named>(path);
  EXPECT_EQ(rest.size(), 1u);
  EXPECT_THAT(rest.at("x"), Equals(tensor({0, 1, 2})));
  EXPECT_THAT(load_npz(path, Named{{"x", zeros({3}, int32)}}).at("x"), Equals(tensor({0, 1, 2})));
  const auto fault = [&](const char* name) {
    return message_of<DtypeError>([&] { load_npz(path, Named{{"x", zeros({3}, int32)}, {name, zeros({3})}}); });
  };
  const std::string end =
      ", which Stave does not have: convert it in NumPy with astype, to bool, integers, floats of at most 64 bits "
      "or complex numbers of at most 128 bits";
  EXPECT_EQ(fault("o"), start + "'o' holds elements of dtype '|O' (Python objects)" + end);
  EXPECT_EQ(fault("s"),
            start + "'s' holds elements of a structured dtype, which Stave does not have: save its fields one by one");
}

// ---- trees that do not fit ----------------------------------------------------------------------

TEST(Npz, ErrorsNameMismatches) {
  const Folder folder;
  const std::string path = folder / "x.npz", start = "load_npz: " + path + ": ";
  save_npz(path, Named{{"a", ones({2})}, {"b", tensor({1, 2})}});
  using Pair = std::pair<Tensor, Tensor>;
  EXPECT_EQ(message_of<FileError>([&] { load_npz<Pair>(path); }), start + "has no array '0', but 'a', 'b'");
  EXPECT_EQ(message_of<FileError>([&] {
              load_npz(path, Named{{"a", ones({2})}});
            }),
            start + "has an array 'b', which the tree does not have");
  EXPECT_EQ(message_of<FileError>([&] { load_npz<std::vector<Tensor>>(path); }),
            start +
                "does not fit the tree:\n"
                "  has an array 'a', which the tree does not have\n"
                "  has an array 'b', which the tree does not have");
  EXPECT_EQ(message_of<ShapeError>([&] {
              load_npz(path, Named{{"a", ones({3})}, {"b", tensor({1, 2})}});
            }),
            start + "'a' has shape [2], but [3] is expected");
  EXPECT_EQ(message_of<DtypeError>([&] {
              load_npz(path, Named{{"a", ones({2})}, {"b", ones({2})}});
            }),
            start + "'b' is int32, but float32 is expected: load it without `like` and convert it with astype");
  EXPECT_EQ(message_of<FileError>([&] { load_npz<std::map<int, Tensor>>(path); }),
            start + "'a' is not a key of a map with these integer keys");
  save_npz(path, std::vector<Tensor>{});
  EXPECT_EQ(message_of<FileError>([&] { load_npz<Tensor>(path); }), start + "has no array '0', but none at all");
}

TEST(Npz, RefusesAmbiguousKeys) {
  const Folder folder;
  const std::string path = folder / "x.npz";
  EXPECT_EQ(message_of<FileError>([&] {
              save_npz(path, Named{{"", ones({2})}});
            }),
            "save_npz: the key '' of a map is empty");
  EXPECT_EQ(message_of<FileError>([&] {
              save_npz(path, std::map<std::string, Layer>{{"a/b", {ones({2}), "", {}}}});
            }),
            "save_npz: the key 'a/b' of a map holds '/', which separates the parts of names");
  EXPECT_THAT(message_of<FileError>([&] {
                save_npz(path, Named{{std::string("a\0", 2), ones({2})}});
              }),
              EndsWith("of a map holds a zero byte"));
  EXPECT_THAT(message_of<TransformError>([&] {
                save_npz(path, Named{{"a", Tensor()}});
              }),
              StartsWith("save_npz: " + path + ": 'a' is an empty Tensor"));
  EXPECT_THAT(folder.names(), IsEmpty());
}

// ---- under transforms ---------------------------------------------------------------------------

TEST(Files, MayBeWrittenAndReadUnderGradAndVmap) {
  const Folder folder;
  const auto f = [&](T x) {
    save_npz(folder / "x.npz", x * 2);
    return sum(x * load_npz<Tensor>(folder / "x.npz"));
  };
  // The array that was read is a constant.
  EXPECT_THAT(grad(f)(tensor({1., 2.})), Equals(tensor({2., 4.})));
  fs::remove(folder / "x.npz");
  // The lanes write and read the file one after another.
  EXPECT_THAT(vmap(f)(tensor({{1., 2.}, {3., 4.}})), Equals(tensor({10., 50.})));
  fs::remove(folder / "x.npz");
  EXPECT_THAT(folder.names(), IsEmpty());
}

// ---- writing that fails -------------------------------------------------------------------------

TEST(Files, UnwritablePathsAreErrors) {
  const Folder folder;
  const auto fault = [](const std::string& path) { return message_of<FileError>([&] { save_npy(path, ones({2})); }); };
  const std::string nowhere = folder / "no/such/x.npy";
  EXPECT_EQ(fault(nowhere), "save_npy: " + nowhere + ": cannot be written: No such file or directory");
  EXPECT_EQ(fault(folder.path), "save_npy: " + folder.path + ": is a folder, and is not overwritten by a file");
  EXPECT_EQ(fault("/dev/null"), "save_npy: /dev/null: is not a regular file, and is not overwritten by a file");
  fs::create_symlink("nothing", folder / "link");
  EXPECT_EQ(fault(folder / "link"),
            "save_npy: " + folder / "link" + ": is a symbolic link to a file that does not exist");
  EXPECT_THAT(folder.names(), ElementsAre("link"));
}

// Writing fails in the middle of the file, as on a full disk.
TEST(Files, FailedWriteKeepsOnlyThePreviousFile) {
  const Folder folder;
  save_npz(folder / "x.npz", tensor({1, 2}));
  const std::string before = bytes_of(folder / "x.npz");
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{5000, old.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string fault = message_of<FileError>([&] { save_npz(folder / "x.npz", ones({1000, 10})); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(fault, "save_npz: " + folder / "x.npz" + ": cannot be written: File too large");
  EXPECT_EQ(bytes_of(folder / "x.npz"), before);
  EXPECT_THAT(folder.names(), ElementsAre("x.npz"));
}

TEST(Files, LinksAreFollowedAndPermissionsKept) {
  const Folder folder;
  save_npy(folder / "x.npy", tensor({1}));
  fs::permissions(folder / "x.npy", fs::perms(0640));
  fs::create_symlink("x.npy", folder / "link.npy");
  save_npy(folder / "link.npy", tensor({2}));
  EXPECT_TRUE(fs::is_symlink(folder / "link.npy"));
  EXPECT_THAT(load_npy(folder / "x.npy"), Equals(tensor({2})));
  EXPECT_EQ(fs::status(folder / "x.npy").permissions(), fs::perms(0640));
  EXPECT_THAT(folder.names(), UnorderedElementsAre("x.npy", "link.npy"));
}

}  // namespace npy_test
