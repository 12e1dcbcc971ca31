// The assembler for aarch64, on any processor: its encodings are those of the GNU assembler.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stave/backends/cpu/native/aarch64_assembler.h>

namespace native {
namespace {

using namespace stave_cpu::aarch64;

// An instruction as text, and the call that writes it.
struct Example {
  std::string text;
  std::function<void(Assembler&)> write;
};

constexpr const char* conditions[] = {"eq", "ne", "hs", "lo", "mi", "pl", "vs",
                                      "vc", "hi", "ls", "ge", "lt", "gt", "le"};

// Returns an example of each instruction, with random operands.
class Examples {
 public:
  explicit Examples(unsigned seed) : random_(seed) {}

  std::vector<Example> run() {
    integers();
    memory();
    branches();
    floats();
    bits();
    return std::move(examples_);
  }

 private:
  int pick(int first, int last) {
    return first + static_cast<int>(random_() % static_cast<unsigned>(last - first + 1));
  }
  void add(std::string text, std::function<void(Assembler&)> write) {
    examples_.push_back({std::move(text), std::move(write)});
  }
  void next() {
    a_ = pick(0, 30), b_ = pick(0, 30), c_ = pick(0, 30), d_ = pick(0, 30);
    condition_ = pick(0, 13);
  }

  template <class F>
  void three(const char* name, F f) {
    next();
    add(fmt::format("{} x{}, x{}, x{}", name, a_, b_, c_),
        [f, a = x(a_), b = x(b_), c = x(c_)](Assembler& code) { f(code, a, b, c); });
  }

  void integers() {
    three("add", [](Assembler& code, X a, X b, X c) { code.add(a, b, c); });
    three("sub", [](Assembler& code, X a, X b, X c) { code.sub(a, b, c); });
    three("mul", [](Assembler& code, X a, X b, X c) { code.mul(a, b, c); });
    three("and", [](Assembler& code, X a, X b, X c) { code.bit_and(a, b, c); });
    three("orr", [](Assembler& code, X a, X b, X c) { code.bit_or(a, b, c); });
    three("eor", [](Assembler& code, X a, X b, X c) { code.bit_xor(a, b, c); });
    three("lsl", [](Assembler& code, X a, X b, X c) { code.shift_left(a, b, c); });
    three("lsr", [](Assembler& code, X a, X b, X c) { code.shift_right(a, b, c); });
    three("asr", [](Assembler& code, X a, X b, X c) { code.shift_right_signed(a, b, c); });
    next();
    const X a = x(a_), b = x(b_), c = x(c_);
    const int places = pick(0, 63), number = pick(0, 4095), shift = pick(1, 3);
    const auto condition = static_cast<Condition>(condition_);
    const char* const name = conditions[condition_];
    add(fmt::format("mov x{}, x{}", a_, b_), [=](Assembler& code) { code.move(a, b); });
    add(fmt::format("add x{}, x{}, x{}, lsl #{}", a_, b_, c_, shift),
        [=](Assembler& code) { code.add_shifted(a, b, c, shift); });
    add(fmt::format("add x{}, x{}, #{}", a_, b_, number), [=](Assembler& code) { code.add(a, b, number); });
    add(fmt::format("sub x{}, x{}, #{}", a_, b_, number), [=](Assembler& code) { code.sub(a, b, number); });
    add(fmt::format("add x{}, sp, #{}", a_, number), [=](Assembler& code) { code.add(a, sp, number); });
    add(fmt::format("sub sp, sp, #{}", number), [=](Assembler& code) { code.sub(sp, sp, number); });
    add(fmt::format("mvn x{}, x{}", a_, b_), [=](Assembler& code) { code.bit_not(a, b); });
    add(fmt::format("neg x{}, x{}", a_, b_), [=](Assembler& code) { code.negate(a, b); });
    add(fmt::format("lsl x{}, x{}, #{}", a_, b_, places), [=](Assembler& code) { code.shift_left(a, b, places); });
    add(fmt::format("lsr x{}, x{}, #{}", a_, b_, places), [=](Assembler& code) { code.shift_right(a, b, places); });
    add(fmt::format("asr x{}, x{}, #{}", a_, b_, places),
        [=](Assembler& code) { code.shift_right_signed(a, b, places); });
    for (const int bytes : {1, 2, 4})
      for (const bool is_signed : {true, false})
        add(fmt::format("{}bfx x{}, x{}, #0, #{}", is_signed ? "s" : "u", a_, b_, 8 * bytes),
            [=](Assembler& code) { code.extend(a, b, static_cast<std::size_t>(bytes), is_signed); });
    add(fmt::format("eor w{}, w{}, #1", a_, b_), [=](Assembler& code) { code.invert_bool(a, b); });
    add(fmt::format("tst w{}, #0xff", a_), [=](Assembler& code) { code.test_byte(a); });
    for (const bool wide : {true, false}) {
      const char* const r = wide ? "x" : "w";
      add(fmt::format("cmp {}{}, {}{}", r, a_, r, b_), [=](Assembler& code) { code.compare(a, b, wide); });
      add(fmt::format("cmp {}{}, #{}", r, a_, number), [=](Assembler& code) { code.compare(a, number, wide); });
    }
    add(fmt::format("csel x{}, x{}, x{}, {}", a_, b_, c_, name),
        [=](Assembler& code) { code.select(a, b, c, condition); });
    add(fmt::format("cset x{}, {}", a_, name), [=](Assembler& code) { code.set(a, condition); });
    add(fmt::format("cneg x{}, x{}, {}", a_, b_, name), [=](Assembler& code) { code.negate_if(a, b, condition); });
    // Numbers: movz, movn and movk for the parts of 16 bits.
    const auto part = static_cast<std::uint32_t>(pick(1, 0xfffe)), other = static_cast<std::uint32_t>(pick(1, 0xfffe));
    const int at = pick(0, 3);
    add(fmt::format("movz x{}, #{}, lsl #{}", a_, part, 16 * at),
        [=](Assembler& code) { code.move(a, static_cast<std::int64_t>(std::uint64_t{part} << (16 * at))); });
    add(fmt::format("movn x{}, #{}, lsl #{}", a_, part, 16 * at),
        [=](Assembler& code) { code.move(a, static_cast<std::int64_t>(~(std::uint64_t{part} << (16 * at)))); });
    add(fmt::format("movz x{}, #{}; movk x{}, #{}, lsl #32", a_, part, a_, other),
        [=](Assembler& code) { code.move(a, static_cast<std::int64_t>(std::uint64_t{other} << 32 | part)); });
    add(fmt::format("movz x{}, #{}; movk x{}, #{}, lsl #16", a_, part, a_, other),
        [=](Assembler& code) { code.move_wide(a, other << 16 | part); });
  }

  void memory() {
    for (const int bytes : {1, 2, 4, 8})
      for (const bool is_load : {true, false}) {
        next();
        const X a = x(a_), base = x(b_);
        const int scaled = bytes * pick(0, 4095), unscaled = pick(-256, -1), index = c_;
        const auto size = static_cast<std::size_t>(bytes);
        const std::string name = std::string(is_load ? "ldr" : "str") + (bytes == 1   ? "b"
                                                                         : bytes == 2 ? "h"
                                                                                      : ""),
                          wide = bytes == 8 ? "x" : "w";
        const auto put = [&](const std::string& text, const Memory& at) {
          add(text, [=](Assembler& code) { is_load ? code.load(a, at, size) : code.store(a, at, size); });
        };
        put(fmt::format("{} {}{}, [x{}, #{}]", name, wide, a_, b_, scaled), {base, scaled});
        put(fmt::format("{}u{} {}{}, [x{}, #{}]", name.substr(0, 2), name.substr(2), wide, a_, b_, unscaled),
            {base, unscaled});
        const std::string shift = bytes == 1 ? "" : fmt::format(", lsl #{}", bytes == 2 ? 1 : bytes == 4 ? 2 : 3);
        put(fmt::format("{} {}{}, [x{}, x{}{}]", name, wide, a_, b_, c_, shift), {base, 0, index});
        if (bytes < 4) continue;
        const V value = v(d_);
        const auto put_float = [&](const std::string& text, const Memory& at) {
          add(text, [=](Assembler& code) { is_load ? code.load(value, at, size) : code.store(value, at, size); });
        };
        const std::string letter = bytes == 8 ? "d" : "s";
        put_float(fmt::format("{} {}{}, [x{}, #{}]", name, letter, d_, b_, scaled), {base, scaled});
        put_float(fmt::format("{}ur {}{}, [x{}, #{}]", is_load ? "ld" : "st", letter, d_, b_, unscaled),
                  {base, unscaled});
        put_float(fmt::format("{} {}{}, [x{}, x{}{}]", name, letter, d_, b_, c_, shift), {base, 0, index});
      }
    next();
    const int offset = 8 * pick(-64, 63), ab[] = {a_, a_ == 30 ? 0 : a_ + 1};
    const X base = x(b_);
    for (const bool is_load : {true, false}) {
      add(fmt::format("{} x{}, x{}, [x{}, #{}]", is_load ? "ldp" : "stp", ab[0], ab[1], b_, offset),
          [=, a = ab[0], b = ab[1]](Assembler& code) {
            is_load ? code.load_pair(x(a), x(b), base, offset) : code.store_pair(x(a), x(b), base, offset);
          });
      add(fmt::format("{} d{}, d{}, [sp, #{}]", is_load ? "ldp" : "stp", ab[0], ab[1], offset),
          [=, a = ab[0], b = ab[1]](Assembler& code) {
            is_load ? code.load_pair(v(a), v(b), sp, offset) : code.store_pair(v(a), v(b), sp, offset);
          });
    }
    add(fmt::format("adr x{}, .", a_), [a = x(a_)](Assembler& code) { code.here(a); });
  }

  void branches() {
    next();
    const auto condition = static_cast<Condition>(condition_);
    const auto opposite = static_cast<std::size_t>(inverse(condition));
    add("b .+8; nop", [](Assembler& code) {
      Label label;
      code.branch(label);
      nop(code);
      code.bind(label);
    });
    add("nop; b .-4", [](Assembler& code) {
      Label label;
      code.bind(label);
      nop(code);
      code.branch(label);
    });
    add(fmt::format("nop; b.{} .-4", conditions[condition_]), [=](Assembler& code) {
      Label label;
      code.bind(label);
      nop(code);
      code.branch(condition, label);
    });
    add(fmt::format("b.{} .+8; b .+8; nop", conditions[opposite]), [=](Assembler& code) {
      Label label;
      code.branch(condition, label);
      nop(code);
      code.bind(label);
    });
    add(fmt::format("blr x{}", a_), [a = x(a_)](Assembler& code) { code.call(a); });
    add("ret", [](Assembler& code) { code.ret(); });
    add("bti c", [](Assembler& code) { code.mark_entry(); });
  }
  static void nop(Assembler& code) { code.data_word(0xd503201f); }

  template <class F>
  void two_floats(const char* name, F f) {
    for (const bool wide : {true, false}) {
      next();
      const char* const r = wide ? "d" : "s";
      add(fmt::format("{} {}{}, {}{}", name, r, a_, r, b_),
          [f, wide, a = v(a_), b = v(b_)](Assembler& code) { f(code, a, b, wide); });
    }
  }
  template <class F>
  void three_floats(const char* name, F f) {
    for (const bool wide : {true, false}) {
      next();
      const char* const r = wide ? "d" : "s";
      add(fmt::format("{} {}{}, {}{}, {}{}", name, r, a_, r, b_, r, c_),
          [f, wide, a = v(a_), b = v(b_), c = v(c_)](Assembler& code) { f(code, a, b, c, wide); });
    }
  }

  void floats() {
    three_floats("fadd", [](Assembler& code, V a, V b, V c, bool wide) { code.add(a, b, c, wide); });
    three_floats("fsub", [](Assembler& code, V a, V b, V c, bool wide) { code.sub(a, b, c, wide); });
    three_floats("fmul", [](Assembler& code, V a, V b, V c, bool wide) { code.mul(a, b, c, wide); });
    three_floats("fdiv", [](Assembler& code, V a, V b, V c, bool wide) { code.div(a, b, c, wide); });
    three_floats("fcmeq", [](Assembler& code, V a, V b, V c, bool wide) { code.mask_equal(a, b, c, wide); });
    three_floats("fcmgt", [](Assembler& code, V a, V b, V c, bool wide) { code.mask_greater(a, b, c, wide); });
    three_floats("fcmge", [](Assembler& code, V a, V b, V c, bool wide) { code.mask_greater_equal(a, b, c, wide); });
    two_floats("fneg", [](Assembler& code, V a, V b, bool wide) { code.negate(a, b, wide); });
    two_floats("fabs", [](Assembler& code, V a, V b, bool wide) { code.abs(a, b, wide); });
    two_floats("fsqrt", [](Assembler& code, V a, V b, bool wide) { code.sqrt(a, b, wide); });
    two_floats("frintm", [](Assembler& code, V a, V b, bool wide) { code.floor(a, b, wide); });
    two_floats("frintp", [](Assembler& code, V a, V b, bool wide) { code.ceil(a, b, wide); });
    two_floats("frintz", [](Assembler& code, V a, V b, bool wide) { code.trunc(a, b, wide); });
    two_floats("frintn", [](Assembler& code, V a, V b, bool wide) { code.rint(a, b, wide); });
    two_floats("fcmp", [](Assembler& code, V a, V b, bool wide) { code.compare(a, b, wide); });
    for (const bool wide : {true, false}) {
      next();
      const char* const r = wide ? "d" : "s";
      const V a = v(a_), b = v(b_), c = v(c_), d = v(d_);
      const auto condition = static_cast<Condition>(condition_);
      add(fmt::format("fmadd {}{}, {}{}, {}{}, {}{}", r, a_, r, b_, r, c_, r, d_),
          [=](Assembler& code) { code.fma(a, b, c, d, wide); });
      add(fmt::format("fcsel {}{}, {}{}, {}{}, {}", r, a_, r, b_, r, c_, conditions[condition_]),
          [=](Assembler& code) { code.select(a, b, c, condition, wide); });
      for (const bool is_signed : {true, false}) {
        const char* const s = is_signed ? "s" : "u";
        add(fmt::format("{}cvtf {}{}, x{}", s, r, a_, b_),
            [=, from = x(b_)](Assembler& code) { code.from_integer(a, from, is_signed, wide); });
        for (const std::size_t bytes : {4, 8})
          add(fmt::format("fcvtz{} {}{}, {}{}", s, bytes == 8 ? "x" : "w", a_, r, b_),
              [=, to = x(a_)](Assembler& code) { code.to_integer(to, b, bytes, is_signed, wide); });
      }
      add(fmt::format("fmov {}{}, {}{}", wide ? "x" : "w", a_, r, b_),
          [=, to = x(a_)](Assembler& code) { code.move(to, b, wide); });
      add(fmt::format("fmov {}{}, {}{}", r, a_, wide ? "x" : "w", b_),
          [=, from = x(b_)](Assembler& code) { code.move(a, from, wide); });
      const int sign = pick(0, 1) ? 1 : -1, sixteenths = pick(16, 31), exponent = pick(-3, 4);
      const double number = sign * std::ldexp(sixteenths / 16.0, exponent);
      add(fmt::format("fmov {}{}, #{}", r, a_, number), [=](Assembler& code) { code.move(a, number, wide); });
    }
    next();
    const V a = v(a_), b = v(b_);
    add(fmt::format("fcvt d{}, s{}", a_, b_), [=](Assembler& code) { code.widen(a, b); });
    add(fmt::format("fcvt s{}, d{}", a_, b_), [=](Assembler& code) { code.narrow(a, b); });
    add(fmt::format("fmov d{}, d{}", a_, b_), [=](Assembler& code) { code.move(a, b); });
    add(fmt::format("movi d{}, #0", a_), [=](Assembler& code) { code.clear(a); });
  }

  template <class F>
  void vectors(const char* name, F f) {
    next();
    add(fmt::format("{} v{}.8b, v{}.8b, v{}.8b", name, a_, b_, c_),
        [f, a = v(a_), b = v(b_), c = v(c_)](Assembler& code) { f(code, a, b, c); });
  }
  void bits() {
    vectors("and", [](Assembler& code, V a, V b, V c) { code.bit_and(a, b, c); });
    vectors("orr", [](Assembler& code, V a, V b, V c) { code.bit_or(a, b, c); });
    vectors("eor", [](Assembler& code, V a, V b, V c) { code.bit_xor(a, b, c); });
    vectors("bsl", [](Assembler& code, V a, V b, V c) { code.select_bits(a, b, c); });
    vectors("bit", [](Assembler& code, V a, V b, V c) { code.insert_if(a, b, c); });
    vectors("bif", [](Assembler& code, V a, V b, V c) { code.insert_unless(a, b, c); });
    next();
    add(fmt::format("mvn v{}.8b, v{}.8b", a_, b_), [a = v(a_), b = v(b_)](Assembler& code) { code.bit_not(a, b); });
  }

  std::mt19937 random_;
  std::vector<Example> examples_;
  int a_ = 0, b_ = 0, c_ = 0, d_ = 0, condition_ = 0;
};

std::vector<std::uint32_t> words_of(const Example& example) {
  Assembler code;
  example.write(code);
  std::vector<std::uint32_t> words(code.size() / 4);
  for (std::size_t k = 0; k < code.size(); ++k)
    words[k / 4] |= static_cast<std::uint32_t>(code.text()[k]) << (8 * (k % 4));
  return words;
}

// ---- encodings ----------------------------------------------------------------------------------

struct Encoding {
  const char* text;
  std::vector<std::uint32_t> words;
};
// The words that aarch64-linux-gnu-as 2.40 gives for the texts.
const std::vector<Encoding> known = {
#include "aarch64_encodings.inc"
};

TEST(NativeAarch64Assembler, HasTheKnownEncodings) {
  const std::vector<Example> examples = Examples(1).run();
  ASSERT_EQ(examples.size(), known.size());
  for (std::size_t k = 0; k < known.size(); ++k) {
    EXPECT_EQ(examples[k].text, known[k].text);
    EXPECT_EQ(words_of(examples[k]), known[k].words) << known[k].text;
  }
}

bool succeeds(const std::string& command) {
  return std::system(("{ " + command + "; } > /dev/null 2>&1").c_str()) == 0;
}

TEST(NativeAarch64Assembler, HasTheEncodingsOfTheGnuAssembler) {
  // A program for ARM may run under emulation, where `as` is that of another processor.
  std::string prefix = "aarch64-linux-gnu-";
  if (!succeeds(prefix + "as --version")) prefix = "";
  if (!succeeds("echo .arch armv8.5-a | " + prefix + "as -o /dev/null && " + prefix + "objcopy --version"))
    GTEST_SKIP() << "there is no assembler for aarch64";
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("stave-aarch64-{}", getpid())).string();
  std::vector<Example> examples;
  std::vector<std::size_t> example_of;  // for each word, its example
  std::vector<std::uint32_t> words;
  std::ofstream text(path + ".s");
  text << ".arch armv8.5-a\n";  // which has bti
  for (unsigned seed = 0; seed < 100; ++seed)
    for (Example& example : Examples(seed).run()) {
      text << example.text << '\n';
      for (const std::uint32_t word : words_of(example)) {
        words.push_back(word);
        example_of.push_back(examples.size());
      }
      examples.push_back(std::move(example));
    }
  text.close();
  ASSERT_TRUE(succeeds(prefix + "as -o " + path + ".o " + path + ".s"));
  ASSERT_TRUE(succeeds(prefix + "objcopy -O binary -j .text " + path + ".o " + path + ".bin"));
  std::ifstream file(path + ".bin", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  for (const char* const end : {".s", ".o", ".bin"}) std::filesystem::remove(path + end);
  ASSERT_EQ(bytes.size(), words.size() * 4);
  for (std::size_t k = 0; k < words.size(); ++k) {
    std::uint32_t expected = 0;
    for (std::size_t i = 4; i-- > 0;) expected = expected << 8 | static_cast<unsigned char>(bytes[4 * k + i]);
    ASSERT_EQ(words[k], expected) << examples[example_of[k]].text;
  }
}

// ---- numbers and branches -----------------------------------------------------------------------

// What movz, movn and movk leave in a register.
std::int64_t moved(const std::vector<std::uint32_t>& words) {
  std::uint64_t number = 0;
  for (const std::uint32_t word : words) {
    const int at = static_cast<int>(word >> 21 & 3) * 16;
    const std::uint64_t part = std::uint64_t{word >> 5 & 0xffff} << at;
    switch (word >> 23) {
      case 0x1a5: number = part; break;                                              // movz
      case 0x125: number = ~part; break;                                             // movn
      case 0x1e5: number = (number & ~(std::uint64_t{0xffff} << at)) | part; break;  // movk
      default: ADD_FAILURE() << fmt::format("{:x} is another instruction", word);
    }
  }
  return static_cast<std::int64_t>(number);
}

TEST(NativeAarch64Assembler, MovesEveryNumberInFewInstructions) {
  const auto words = [](std::int64_t number) {
    return words_of({"", [=](Assembler& code) { code.move(x(7), number); }});
  };
  const std::uint64_t parts[] = {0, 1, 0x8000, 0xfffe, 0xffff};
  for (const std::uint64_t a : parts)
    for (const std::uint64_t b : parts)
      for (const std::uint64_t c : parts)
        for (const std::uint64_t d : parts) {
          const auto number = static_cast<std::int64_t>(a << 48 | b << 32 | c << 16 | d);
          std::size_t zeros = 0, ones = 0;
          for (const std::uint64_t part : {a, b, c, d}) zeros += part == 0, ones += part == 0xffff;
          EXPECT_EQ(moved(words(number)), number);
          EXPECT_EQ(words(number).size(), std::max<std::size_t>(1, 4 - std::max(zeros, ones))) << number;
        }
}

TEST(NativeAarch64Assembler, KnowsTheNumbersOfAnInstruction) {
  int count = 0;
  for (double n = 16; n < 32; ++n)
    for (int e = -3; e <= 4; ++e)
      for (const double sign : {1.0, -1.0}) count += Assembler::can_hold(sign * std::ldexp(n / 16, e));
  EXPECT_EQ(count, 256);
  for (const double number : {0.0, -0.0, 0.1, 1.03125, 32.0, 0.0625, 1e300, HUGE_VAL, std::nan("")})
    EXPECT_FALSE(Assembler::can_hold(number)) << number;
}

TEST(NativeAarch64Assembler, ReachesFarPlaces) {
  Assembler code;
  Label begin, end;
  code.bind(begin);
  code.branch(end);
  for (int k = 0; k < 1 << 18; ++k) code.data_word(0xd503201f);
  const std::size_t at = code.size() / 4;
  code.branch(Condition::lt, begin);  // too far for one instruction
  code.bind(end);
  const auto word = [&](std::size_t k) {
    std::uint32_t bytes = 0;
    for (std::size_t i = 4; i-- > 0;) bytes = bytes << 8 | code.text()[4 * k + i];
    return bytes;
  };
  EXPECT_EQ(code.size() / 4, at + 2);
  EXPECT_EQ(word(at), 0x5400004au);                                                     // b.ge .+8
  EXPECT_EQ(word(at + 1), 0x14000000u | (0x4000000u - static_cast<unsigned>(at) - 1));  // b begin
  EXPECT_EQ(word(0), 0x14000000u | static_cast<unsigned>(at + 2));
  EXPECT_THROW(code.load(x(0), {x(1), 40000}, 8), std::logic_error);
  EXPECT_THROW(code.add(x(0), x(1), 4096), std::logic_error);
}

}  // namespace
}  // namespace native
