// Files that have another format, are truncated, or contain false sizes. Each gives an error that
// names the file and the fault. The reader never reads past the end and allocates no memory for
// contents that the file cannot hold. fuzz/files.cpp damages files at random.

#include <sys/stat.h>

#include <cstring>
#include <functional>

#include <stave/core/io/zip_records.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace io_damage_test {

using namespace stave;
using namespace stave_test;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

using Named = std::map<std::string, Tensor>;

const std::string data = STAVE_SOURCE_DIR "/tests/data/";

/// Returns the message of the error that reading a file with these bytes throws, without the text
/// up to the file's name. Also checks that reading allocates no memory for tensors.
template <class E = FileError, class Load>
std::string fault_of(const std::string& bytes, const char* name, Load load) {
  const Folder folder;
  const std::string path = with_bytes(folder / name, bytes);
  reset_peak_memory();
  const std::size_t before = memory_stats().peak_bytes;
  const std::string message = message_of<E>([&] { load(path); });
  EXPECT_LT(memory_stats().peak_bytes, before + 4096) << message;
  const std::size_t at = message.find(path);
  return at == message.npos ? message : message.substr(at + path.size());
}
template <class E = FileError>
std::string npy_fault(const std::string& bytes) {
  return fault_of<E>(bytes, "x.npy", load_npy);
}
std::string npz_fault(const std::string& bytes) {
  return fault_of(bytes, "x.npz", [](const std::string& path) { load_npz<Named>(path); });
}

std::string header(const std::string& shape, const std::string& descr = "'<f4'", const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

// ---- files --------------------------------------------------------------------------------------

TEST(DamagedFiles, FilesThatCannotBeOpenedAreErrors) {
  const Folder folder;
  const auto fault = [](const std::string& path) { return message_of<FileError>([&] { load_npy(path); }); };
  EXPECT_EQ(fault("no/such.npy"), "load_npy: no/such.npy: cannot be opened: No such file or directory");
  EXPECT_EQ(fault(folder.path), "load_npy: " + folder.path + ": is a folder");
  EXPECT_EQ(fault("/dev/null"), "load_npy: /dev/null: is not a regular file");
  EXPECT_EQ(message_of<FileError>([] { load_npz<Tensor>("no/such.npz"); }),
            "load_npz: no/such.npz: cannot be opened: No such file or directory");
}

// A reader does not wait for a pipe that has no writer, and does not read a device that never ends.
TEST(DamagedFiles, PipesAndDevicesAreErrors) {
  const Folder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link");
  fs::create_symlink("link of itself", folder / "link of itself");
  const std::pair<const char*, std::function<void(const std::string&)>> readers[] = {
      {"load_npy", [](const std::string& path) { load_npy(path); }},
      {"load_npz", [](const std::string& path) { load_npz<Named>(path); }},
      {"load_npz", [](const std::string& path) { load_npz(path, ones({1})); }},
      {"load_safetensors", [](const std::string& path) { load_safetensors<Named>(path); }},
      {"load_safetensors", [](const std::string& path) { load_safetensors<Named>(path, {.copy = true}); }},
      {"safetensors_metadata", [](const std::string& path) { safetensors_metadata(path); }},
      {"list_safetensors", [](const std::string& path) { list_safetensors(path); }},
      {"load_checkpoint", [](const std::string& path) { load_checkpoint(path, ones({1})); }},
      {"read_csv", [](const std::string& path) { read_csv(path); }}};
  for (const auto& [name, read] : readers) {
    const auto fault = [&, &read = read](const std::string& path) {
      return message_of<FileError>([&] { read(path); });
    };
    const std::string start = std::string(name) + ": ";
    for (const std::string& path :
         {folder / "pipe", folder / "link", std::string("/dev/zero"), std::string("/dev/null")})
      EXPECT_EQ(fault(path), start + path + ": is not a regular file");
    EXPECT_EQ(fault(folder.path), start + folder.path + ": is a folder");
    EXPECT_EQ(fault(folder / "none"), start + folder / "none" + ": cannot be opened: No such file or directory");
    EXPECT_THAT(fault(folder / "link of itself"), HasSubstr(": cannot be opened: "));
    EXPECT_THAT(fault(with_bytes(folder / "empty", "")), StartsWith(start + folder / "empty" + ": "));
  }
}

// Reading a line without an end would fill all memory. This file is sparse.
TEST(DamagedFiles, BinaryCsvIsAnErrorBeforeItIsReadWhole) {
  const Folder folder;
  const std::string path = with_bytes(folder / "x.csv", "1,2\n3");
  fs::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT(message_of<FileError>([&] { read_csv(path); }),
              StartsWith("read_csv: " + path + ":2: is not text: it contains zero bytes, and no end of line within "));
}

TEST(DamagedFiles, FilesWithoutReadPermissionAreErrors) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const Folder folder;
  fs::permissions(with_bytes(folder / "x.npy", ""), fs::perms::none);
  EXPECT_EQ(message_of<FileError>([&] { load_npy(folder / "x.npy"); }),
            "load_npy: " + folder / "x.npy" + ": cannot be opened: Permission denied");
}

// ---- .npy ---------------------------------------------------------------------------------------

TEST(DamagedNpy, OtherFormatsAreErrors) {
  EXPECT_EQ(npy_fault(""), ": is not a .npy file: it is too short");
  EXPECT_EQ(npy_fault("\x93NUMPY\x1"), ": is not a .npy file: it is too short");
  EXPECT_EQ(npy_fault("PK\3\4 and so on"), ": is not a .npy file: it begins with other bytes");
  EXPECT_EQ(npy_fault(std::string("\x93NUMPY\4\0\0\0", 10)), ": is of .npy format 4.0: 1.0, 2.0 and 3.0 can be read");
}

TEST(DamagedNpy, TruncationAtAnyByteIsAnError) {
  const std::string whole = npy(header("(3,)"), std::string(12, 'x'));
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THAT(npy_fault(whole.substr(0, n)), AnyOf(HasSubstr("too short"), HasSubstr("ends too early"),
                                                     HasSubstr("header should have"), HasSubstr("has 12 bytes, but")))
        << n;
  EXPECT_EQ(npy_fault(whole.substr(0, whole.size() - 1)), ": its array, float32 [3], has 12 bytes, but 11 are left");
  EXPECT_EQ(npy_fault(whole.substr(0, 20)), ": its header should have 57 bytes, but 10 are left");
}

TEST(DamagedNpy, FalseShapesAreErrors) {
  EXPECT_EQ(npy_fault(npy(header("(1000000000000,)"))),
            ": its array, float32 [1000000000000], has 4000000000000 bytes, but 0 are left");
  for (const char* shape :
       {"(9223372036854775807,)", "(4294967296, 4294967296)", "(0, 4294967296, 4294967296)", "(2305843009213693952,)"})
    EXPECT_THAT(npy_fault(npy(header(shape))), testing::EndsWith("is too large")) << shape;
  EXPECT_THAT(npy_fault(npy(header("(" + std::string(65 * 2, '1') + ")"))), HasSubstr("the header is not"));
  std::string ones;
  for (int i = 0; i < 65; ++i) ones += "1,";
  EXPECT_EQ(npy_fault(npy(header("(" + ones + ")"))), ": its array has more than 64 axes");
}

TEST(DamagedNpy, MalformedHeadersAreErrors) {
  const std::string start = ": the header is not that of a .npy file: ";
  for (const std::string shape : {"(-1,)", "(2.5,)", "(3)", "3", "[3]", "(3,,)", "(,)", "(3 4)", "(x,)", "(", "(3,",
                                  "(99999999999999999999,)", "None", "''"})
    EXPECT_EQ(npy_fault(npy(header(shape))), start + header(shape));
  for (const std::string& dictionary :
       {std::string("{}"), std::string(), std::string("{'descr': '<f4', 'shape': (3,)}"), header("(3,)") + "x",
        header("(3,)", "'<f4'", "true"), header("(3,)", "f4"),
        std::string("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}"),
        std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}"),
        std::string("{'descr': '<f4' 'fortran_order': False, 'shape': ()}")})
    EXPECT_EQ(npy_fault(npy(dictionary)), start + dictionary);
  EXPECT_EQ(npy_fault(npy("\x1b[31m")), start + "\\x1b[31m");
}

TEST(DamagedNpy, UnsupportedDtypesAreErrors) {
  const auto text = [](const std::string& descr, const std::string& name) {
    return ": holds elements of dtype '" + descr + "' (" + name +
           "), which Stave does not have: convert it in NumPy with astype, to bool, integers, "
           "floats of at most 64 bits or complex numbers of at most 128 bits";
  };
  const std::pair<const char*, const char*> types[] = {
      {"<f16", "longdouble"},
      {"|O", "Python objects"},
      {"|S3", "byte strings"},
      {"<U5", "strings"},
      {"|V4", "raw bytes"},
      {"<M8[ns]", "dates"},
      {"<m8", "time spans"},
      {"", "an unknown type"},
      {"<f44", "an unknown type"},
      {"<V2", "raw bytes, as which NumPy writes bfloat16"},  // x.astype(ml_dtypes.bfloat16)
      {"|V2", "raw bytes, as which NumPy writes bfloat16"},
      {"<V1", "raw bytes, as which NumPy writes floats of 8 bits"}};
  for (const auto& [descr, name] : types)
    EXPECT_EQ(npy_fault<DtypeError>(npy(header("(0,)", "'" + std::string(descr) + "'"))), text(descr, name));
  EXPECT_EQ(message_of<DtypeError>([] { load_npy(data + "objects.npy"); }),
            "load_npy: " + data + "objects.npy" + text("|O", "Python objects"));
  EXPECT_EQ(message_of<DtypeError>([] { load_npy(data + "structured.npy"); }),
            "load_npy: " + data +
                "structured.npy: holds elements of a structured dtype, which Stave does not have: save its fields one "
                "by one");
}

// ---- .npz ---------------------------------------------------------------------------------------

/// The bytes of a valid archive of two arrays, "a" and "b".
std::string archive(bool compressed) {
  const Folder folder;
  save_npz(folder / "x.npz", Named{{"a", arange(40.)}, {"b", tensor({true, false})}}, {.compressed = compressed});
  return bytes_of(folder / "x.npz");
}

/// The offsets of the archive's directory and of its end record.
std::size_t directory_of(const std::string& bytes) { return bytes.find(std::string("PK\1\2", 4)); }
std::size_t end_of(const std::string& bytes) { return bytes.size() - stave_detail::end_length; }

/// The archive with `width` bytes at offset `at` replaced by the number `value`.
std::string with(std::string bytes, std::size_t at, std::uint64_t value, int width) {
  return bytes.replace(at, static_cast<std::size_t>(width), stave_detail::Record().put(value, width).bytes);
}

TEST(DamagedNpz, OtherFormatsAndTruncationsAreErrors) {
  const std::string no_directory = ": is not a .npz file: a zip archive ends with a directory, and this file has none";
  EXPECT_EQ(npz_fault(""), no_directory);
  EXPECT_EQ(npz_fault(npy(header("(0,)"))), no_directory);
  const std::string whole = archive(false);
  for (std::size_t n = 0; n < whole.size(); n += 7) EXPECT_EQ(npz_fault(whole.substr(0, n)), no_directory) << n;
  // A self-extracting archive also has other bytes before it.
  EXPECT_EQ(npz_fault("0123456789" + whole), "nothing was thrown");
}

TEST(DamagedNpz, WrongChecksumsAreErrors) {
  for (const bool compressed : {false, true}) {
    std::string bytes = archive(compressed);
    bytes = with(bytes, directory_of(bytes) + 16, 0x12345678, 4);
    EXPECT_THAT(npz_fault(bytes),
                testing::MatchesRegex(": entry 'a.npy': is damaged: its checksum is ........, not 12345678"));
  }
  std::string flipped = archive(false);
  flipped[170] ^= 1;
  EXPECT_THAT(npz_fault(flipped), HasSubstr("entry 'a.npy': is damaged: its checksum is"));
}

TEST(DamagedNpz, FalseDirectoriesAreErrors) {
  const std::string start = ": is a damaged zip archive: ";
  for (const bool compressed : {false, true}) {
    const std::string good = archive(compressed);
    const std::size_t directory = directory_of(good), end = end_of(good);
    const auto fault = [&](std::size_t at, std::uint64_t value, int width) {
      return npz_fault(with(good, at, value, width));
    };
    EXPECT_EQ(fault(end + 16, 0xfffffffe, 4), start + "its directory does not lie within the file");
    EXPECT_EQ(fault(end + 12, 0xfffffffe, 4), start + "its directory does not lie within the file");
    EXPECT_EQ(fault(end + 16, directory - 1, 4), start + "entry 'a.npy' is not where the directory says");
    EXPECT_EQ(fault(end + 16, directory + 1, 4), start + "its directory does not lie within the file");
    EXPECT_EQ(fault(end + 12, end - directory - 1, 4),
              start + "an entry of its directory does not begin where it should");
    EXPECT_EQ(fault(end + 10, 3, 2), start + "it is part of an archive of several files");
    EXPECT_EQ(fault(end + 4, 1, 2), start + "it is part of an archive of several files");
    EXPECT_EQ(npz_fault(with(with(good, end + 8, 1000, 2), end + 10, 1000, 2)),
              start + "its directory is too short for all its entries");
    EXPECT_EQ(npz_fault(with(with(good, end + 8, 1, 2), end + 10, 1, 2)),
              start + "its directory does not have as many entries as it says");
    EXPECT_EQ(fault(directory + 20, 0xfffffff0, 4), start + "an entry does not lie within the file");
    EXPECT_EQ(fault(directory + 24, 0xfffffff0, 4), start + "an entry has an impossible size");
    EXPECT_EQ(fault(directory + 20, 0xffffffff, 4), start + "an entry does not lie within the file");
    EXPECT_EQ(fault(directory + 42, 0xfffffff0, 4), start + "an entry does not lie within the file");
    EXPECT_EQ(fault(directory + 42, 1, 4), start + "entry 'a.npy' is not where the directory says");
    EXPECT_EQ(fault(directory + 28, 0xffff, 2), start + "an entry of its directory is cut off");
    EXPECT_EQ(fault(28, 0xffff, 2), start + "entry 'a.npy' does not lie within the file");
    EXPECT_EQ(fault(28, 10, 2), start + "entry 'a.npy' overlaps another one");
  }
}

TEST(DamagedNpz, FalseEntrySizesAreErrors) {
  const std::string good = archive(true);
  const std::size_t directory = directory_of(good);
  const std::uint64_t size = stave_detail::read32(&good[directory + 24]);
  EXPECT_THAT(npz_fault(with(good, directory + 24, size + 1, 4)),
              HasSubstr("it unpacks to fewer bytes than it should"));
  EXPECT_THAT(npz_fault(with(good, directory + 24, size - 1, 4)), HasSubstr("has 160 bytes, but 159 are left"));
  EXPECT_THAT(npz_fault(with(good, 40, 0xffffffffffff, 6)), HasSubstr("entry 'a.npy': is damaged: invalid"));
  const std::uint64_t packed = stave_detail::read32(&good[directory + 20]);
  EXPECT_THAT(npz_fault(with(good, directory + 20, packed - 1, 4)), HasSubstr("its packed bytes end too early"));
}

TEST(DamagedNpz, UnusableEntriesAreErrors) {
  std::string bytes = archive(false);
  const std::size_t directory = directory_of(bytes);
  EXPECT_EQ(npz_fault(with(bytes, directory + 8, 1, 2)), ": entry 'a.npy': is encrypted");
  for (std::size_t at; (at = bytes.find("a.npy")) != bytes.npos;) bytes.replace(at, 5, "a.txt");
  EXPECT_EQ(npz_fault(bytes), ": entry 'a.txt' is not an array: its name does not end with .npy");
  for (std::size_t at; (at = bytes.find("a.txt")) != bytes.npos;) bytes.replace(at, 5, "\x1b]\xff\xc2\x9b");
  EXPECT_EQ(npz_fault(bytes), ": entry '\\x1b]\\xff\\xc2\\x9b' is not an array: its name does not end with .npy");
  for (std::size_t at; (at = bytes.find("\x1b]\xff\xc2\x9b")) != bytes.npos;) bytes.replace(at, 5, "b.npy");
  EXPECT_EQ(npz_fault(bytes), ": has two entries 'b.npy'");
  EXPECT_EQ(
      message_of<FileError>([] { load_npz<Named>(data + "bzip2.npz"); }),
      "load_npz: " + data +
          "bzip2.npz: entry 'x.npy': is packed by method 12: only stored (0) and deflated (8) entries can be read");
}

// ---- .safetensors -------------------------------------------------------------------------------

std::string safetensors(const std::string& header, const std::string& elements = "") {
  return stave_detail::Record().u64(header.size()).text(header).text(elements).bytes;
}
template <class E = FileError>
std::string safetensors_fault(const std::string& bytes) {
  return fault_of<E>(bytes, "x.safetensors", [](const std::string& path) { load_safetensors<Named>(path); });
}
std::string entry(const std::string& shape, const std::string& offsets, const std::string& dtype = "\"F32\"") {
  return "{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}
std::string entry_fault(const std::string& value) {
  return safetensors_fault(safetensors("{\"a\":" + value + "}", "1234"));
}

TEST(DamagedSafetensors, OtherFormatsAndTruncationsAreErrors) {
  EXPECT_EQ(safetensors_fault(""), ": is not a .safetensors file: it is too short");
  EXPECT_EQ(
      safetensors_fault("PK\3\4 and so on"),
      ": is not a .safetensors file, or is cut off: its header should have 7236828441365138256 bytes, but 6 are left, "
      "and no header has more than 100000000");
  EXPECT_EQ(safetensors_fault(safetensors("[]")), ": is not a .safetensors file: its header does not begin with {");
  EXPECT_EQ(safetensors_fault(safetensors(" {}")), ": is not a .safetensors file: its header does not begin with {");
  EXPECT_EQ(safetensors_fault(safetensors("")), ": is not a .safetensors file: its header does not begin with {");
  const std::string whole = safetensors("{\"a\":" + entry("[3]", "[0,12]") + "}", std::string(12, 'x'));
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_THAT(safetensors_fault(whole.substr(0, n)), HasSubstr(n < 8 ? "too short" : "cut off")) << n;
  EXPECT_EQ(safetensors_fault(whole.substr(0, whole.size() - 1)),
            ": its tensors have 12 bytes, but 11 follow the header: it is cut off");
  EXPECT_EQ(safetensors_fault(whole + "x"), ": its tensors have 12 bytes, but 13 follow the header");
}

// The length of a header is checked before the header is read. This file is sparse:
// only its first 10 bytes were written.
TEST(DamagedSafetensors, TooLongHeaderIsRefusedBeforeItIsRead) {
  const Folder folder;
  const std::string path = with_bytes(folder / "x", stave_detail::Record().u64(100'000'001).text("{}").bytes);
  fs::resize_file(path, 200'000'000);
  EXPECT_THAT(message_of<FileError>([&] { load_safetensors<Named>(path); }),
              HasSubstr("should have 100000001 bytes, but 199999992 are left, and no header has more than 100000000"));
}

TEST(DamagedSafetensors, HeadersThatAreNotJsonAreErrors) {
  for (const char* header :
       {"{", "{}x", "{} {}", "{\"a\"}", "{\"a\":}", "{'a':1}", "{\"a\":1,}", "{\"\xff\":1}", "{\"a\":NaN}",
        "{\"a\":\"\n\"}", "{\"a\":01}", "{\"a\":1e999}", "{\"a\":\"\\ud800\"}", "{}//"})
    EXPECT_THAT(safetensors_fault(safetensors(header)), StartsWith(": the header is not JSON: ")) << header;
  EXPECT_EQ(safetensors_fault(safetensors("{\"a\":" + std::string(1'000'000, '['))),
            ": the header nests more than 100 levels");
  const std::string good = entry("[1]", "[0,4]");
  EXPECT_EQ(safetensors_fault(safetensors("{\"a\":" + good + ",\"\\u0061\":" + good + "}", "1234")),
            ": the header has the name 'a' twice");
  EXPECT_EQ(entry_fault(good.substr(0, good.size() - 1) + ",\"shape\":[1]}"),
            ": the header has the name 'shape' twice");
  for (const char* metadata : {"1", "null", "[]", "{\"a\":1}", "{\"a\":{}}"})
    EXPECT_EQ(safetensors_fault(safetensors("{\"__metadata__\":" + std::string(metadata) + "}")),
              ": the header is damaged: its __metadata__ is not text under names");
}

TEST(DamagedSafetensors, MalformedEntriesAreErrors) {
  const std::string start = ": the header is damaged: 'a' ";
  for (const char* value : {"1", "null", "[]", "{}", "\"x\"", "{\"dtype\":\"F32\",\"shape\":[1]}"})
    EXPECT_EQ(entry_fault(value), start + "should have a dtype, a shape and data_offsets, and nothing else");
  for (const char* shape : {"1", "[-1]", "[1.0]", "[\"1\"]", "[null]", "[[1]]", "[1e0]", "{}", "[18446744073709551616]",
                            "[9223372036854775808]", "[-0]"})
    EXPECT_EQ(entry_fault(entry(shape, "[0,4]")), start + "has a shape that is not a list of lengths") << shape;
  for (const char* offsets : {"4", "[]", "[0]", "[0,2,4]", "[4,0]", "[-4,0]", "[0,4.0]", "[0,18446744073709551615]"})
    EXPECT_EQ(entry_fault(entry("[1]", offsets)), start + "has data_offsets that are not a beginning and an end")
        << offsets;
  EXPECT_EQ(entry_fault(entry("[1]", "[0,4]", "32")), start + "has a dtype that is not text");
  std::string ones = "1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_EQ(entry_fault(entry("[" + ones + "]", "[0,4]")), start + "has more than 64 axes");
}

TEST(DamagedSafetensors, FalseShapesAreErrors) {
  for (const char* shape : {"[4611686018427387904]", "[4294967296,4294967296]", "[0,4294967296,4294967296]"})
    EXPECT_THAT(entry_fault(entry(shape, "[0,4]")), testing::EndsWith("that is too large")) << shape;
  EXPECT_EQ(entry_fault(entry("[1000000000000]", "[0,4]")),
            ": 'a', float32 [1000000000000], has 4000000000000 bytes, but its data_offsets [0,4] are 4");
  EXPECT_EQ(entry_fault(entry("[1000000000000]", "[0,4000000000000]")),
            ": its tensors have 4000000000000 bytes, but 4 follow the header: it is cut off");
  EXPECT_EQ(entry_fault(entry("[0]", "[0,4]")), ": 'a', float32 [0], has 0 bytes, but its data_offsets [0,4] are 4");
}

TEST(DamagedSafetensors, GapsAndOverlapsAreErrors) {
  const auto fault = [](const std::string& a, const std::string& b) {
    return safetensors_fault(safetensors("{\"b\":" + entry("[1]", b) + ",\"a\":" + entry("[1]", a) + "}", "12345678"));
  };
  const std::string start = " should begin at byte 4 of the data, where what comes before it ends, but begins at ";
  EXPECT_EQ(fault("[0,4]", "[5,9]"), ": 'b'" + start + "5");
  EXPECT_EQ(fault("[0,4]", "[3,7]"), ": 'b'" + start + "3");
  EXPECT_EQ(fault("[0,4]", "[0,4]"), ": 'b'" + start + "0");
  EXPECT_EQ(fault("[1,5]", "[5,9]"),
            ": 'a' should begin at byte 0 of the data, where what comes before it ends, but begins at 1");
  EXPECT_EQ(fault("[0,4]", "[4,8]"), "nothing was thrown");
}

struct One {
  Tensor a;
  static constexpr const char* names[] = {"a"};
};

// The file can be read if the program needs no tensor of such a dtype (safetensors_test.cpp). The
// bytes of such a tensor count towards the file's size nevertheless.
TEST(DamagedSafetensors, UnsupportedDtypesAreErrors) {
  for (const std::string dtype : {"F8_E4M3", "F4", "C128", "", "f32", "F32\\u0000"}) {
    const std::string bytes = safetensors("{\"a\":" + entry("[1]", "[0,4]", '"' + dtype + '"') + "}", "1234");
    EXPECT_EQ(fault_of<DtypeError>(bytes, "x", [](const std::string& path) { load_safetensors<One>(path); }),
              ": 'a' has elements of dtype '" + (dtype.starts_with("F32") ? "F32\\x00" : dtype) +
                  "', which Stave does not have: convert it, with x.to(torch.float32) in PyTorch, say");
    EXPECT_EQ(safetensors_fault(bytes), "nothing was thrown");
    EXPECT_THAT(safetensors_fault(bytes + "5"), HasSubstr("its tensors have 4 bytes, but 5 follow the header"));
  }
}

}  // namespace io_damage_test
