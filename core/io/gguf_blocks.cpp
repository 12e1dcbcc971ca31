// Each decoder follows the function dequantize_blocks of its type in quants.py (gguf.h), and gives
// the same floats. All numbers are little-endian.
#include <stave/core/io/gguf_blocks.h>

#include <cstddef>

#include <stave/core/tensor/half.h>

namespace stave_detail {

namespace {

using Byte = std::uint8_t;

float half_at(const Byte* at) {
  Float16 half;
  half.bits = static_cast<std::uint16_t>(at[0] | at[1] << 8);
  return half;
}

// ---- blocks of 32 elements ------------------------------------------------------------------

// Halves of 16 bytes: the low halves first.
void decode_halves(const Byte* from, Byte* codes) {
  for (int j = 0; j < 16; ++j) {
    codes[j] = from[j] & 15;
    codes[j + 16] = from[j] >> 4;
  }
}
// The fifth bits, element j in bit j.
void add_fifth_bits(const Byte* from, Byte* codes) {
  for (int j = 0; j < 32; ++j) codes[j] = static_cast<Byte>(codes[j] | (from[j / 8] >> j % 8 & 1) << 4);
}

void decode_q4_0(const Byte* from, GgufBlock& block) {
  block.scales[0] = half_at(from);
  decode_halves(from + 2, block.codes);
}
void decode_q4_1(const Byte* from, GgufBlock& block) {
  block.scales[0] = half_at(from);
  block.biases[0] = half_at(from + 2);
  decode_halves(from + 4, block.codes);
}
void decode_q5_0(const Byte* from, GgufBlock& block) {
  block.scales[0] = half_at(from);
  decode_halves(from + 6, block.codes);
  add_fifth_bits(from + 2, block.codes);
}
void decode_q5_1(const Byte* from, GgufBlock& block) {
  block.scales[0] = half_at(from);
  block.biases[0] = half_at(from + 2);
  decode_halves(from + 8, block.codes);
  add_fifth_bits(from + 4, block.codes);
}
void decode_q8_0(const Byte* from, GgufBlock& block) {
  block.scales[0] = half_at(from);
  for (int j = 0; j < 32; ++j) block.codes[j] = from[2 + j] ^ 0x80;
}

// ---- blocks of 256 elements -----------------------------------------------------------------

// Writes bits first, ..., first + width - 1 of each of `count` bytes.
void decode_bits(const Byte* from, int count, int first, int width, Byte* codes) {
  for (int l = 0; l < count; ++l) codes[l] = static_cast<Byte>(from[l] >> first & ((1 << width) - 1));
}
// Adds such bits to the codes, at the place `to`.
void add_bits(const Byte* from, int count, int first, int width, int to, Byte* codes) {
  for (int l = 0; l < count; ++l)
    codes[l] = static_cast<Byte>(codes[l] | (from[l] >> first & ((1 << width) - 1)) << to);
}
// Codes of 2 bits: 32 bytes hold the codes of 128 elements, in four runs of 32.
void decode_pairs(const Byte* from, Byte* codes) {
  for (int run = 0; run < 8; ++run) decode_bits(from + run / 4 * 32, 32, 2 * (run % 4), 2, codes + run * 32);
}
// Codes of 4 bits: 32 bytes hold the codes of 64 elements, in two runs of 32.
void decode_nibbles(const Byte* from, Byte* codes) {
  for (int run = 0; run < 8; ++run) decode_bits(from + run / 2 * 32, 32, 4 * (run % 2), 4, codes + run * 32);
}

void decode_q2_k(const Byte* from, GgufBlock& block) {
  const float d = half_at(from + 80), least = half_at(from + 82);
  for (int g = 0; g < 16; ++g) {
    block.scales[g] = d * static_cast<float>(from[g] & 15);
    block.biases[g] = -(least * static_cast<float>(from[g] >> 4));
  }
  decode_pairs(from + 16, block.codes);
}

// The scales have six bits: four in bytes 0 to 7, whose low halves come first, and two in bytes 8
// to 11, whose lowest bits come first.
void decode_q3_k(const Byte* from, GgufBlock& block) {
  const Byte* const scales = from + 96;
  const float d = half_at(from + 108);
  for (int g = 0; g < 16; ++g) {
    const int low = scales[g % 8] >> g / 8 * 4 & 15, high = scales[8 + g % 4] >> g / 4 * 2 & 3;
    block.scales[g] = d * static_cast<float>((low | high << 4) - 32);
  }
  decode_pairs(from + 32, block.codes);
  for (int run = 0; run < 8; ++run) add_bits(from, 32, run, 1, 2, block.codes + run * 32);
}

// The scales and biases of Q4_K and Q5_K have six bits: those of the first four groups are in bytes
// 0 to 3 and 4 to 7; those of the others have four bits in bytes 8 to 11, and two in the first
// eight bytes.
void decode_scales(const Byte* from, GgufBlock& block) {
  const float d = half_at(from), least = half_at(from + 2);
  const Byte* const s = from + 4;
  for (int g = 0; g < 8; ++g) {
    const int j = g % 4;
    const int scale = g < 4 ? s[j] & 63 : (s[8 + j] & 15) | (s[j] >> 2 & 0x30);
    const int bias = g < 4 ? s[4 + j] & 63 : s[8 + j] >> 4 | (s[4 + j] >> 2 & 0x30);
    block.scales[g] = d * static_cast<float>(scale);
    block.biases[g] = -(least * static_cast<float>(bias));
  }
}
void decode_q4_k(const Byte* from, GgufBlock& block) {
  decode_scales(from, block);
  decode_nibbles(from + 16, block.codes);
}
void decode_q5_k(const Byte* from, GgufBlock& block) {
  decode_scales(from, block);
  decode_nibbles(from + 48, block.codes);
  for (int run = 0; run < 8; ++run) add_bits(from + 16, 32, run, 1, 4, block.codes + run * 32);
}

// 64 bytes hold the low four bits of 128 elements, in two runs of 64, and 32 bytes their high two
// bits, in four runs of 32.
void decode_q6_k(const Byte* from, GgufBlock& block) {
  const float d = half_at(from + 208);
  for (int g = 0; g < 16; ++g) block.scales[g] = d * static_cast<float>(static_cast<std::int8_t>(from[192 + g]));
  for (int run = 0; run < 4; ++run) decode_bits(from + run / 2 * 64, 64, 4 * (run % 2), 4, block.codes + run * 64);
  for (int run = 0; run < 8; ++run)
    add_bits(from + 128 + run / 4 * 32, 32, 2 * (run % 4), 2, 4, block.codes + run * 32);
}

constexpr GgufFormat formats[] = {
    {2, "Q4_0", 32, 18, 32, 4, 8, true, decode_q4_0},      {3, "Q4_1", 32, 20, 32, 4, -1, true, decode_q4_1},
    {6, "Q5_0", 32, 22, 32, 8, 16, true, decode_q5_0},     {7, "Q5_1", 32, 24, 32, 8, -1, true, decode_q5_1},
    {8, "Q8_0", 32, 34, 32, 8, 128, true, decode_q8_0},    {10, "Q2_K", 256, 84, 16, 4, -1, false, decode_q2_k},
    {11, "Q3_K", 256, 110, 16, 4, 4, false, decode_q3_k},  {12, "Q4_K", 256, 144, 32, 4, -1, false, decode_q4_k},
    {13, "Q5_K", 256, 176, 32, 8, -1, false, decode_q5_k}, {14, "Q6_K", 256, 210, 16, 8, 32, false, decode_q6_k},
};

constexpr GgufNumbers numbers[] = {{0, "F32", float32},  {1, "F16", float16},   {24, "I8", int8},
                                   {25, "I16", int16},   {26, "I32", int32},    {27, "I64", int64},
                                   {28, "F64", float64}, {30, "BF16", bfloat16}};

}  // namespace

const GgufFormat* find_gguf_format(std::uint32_t type) {
  for (const GgufFormat& format : formats)
    if (format.number == type) return &format;
  return nullptr;
}

const GgufNumbers* find_gguf_numbers(std::uint32_t type) {
  for (const GgufNumbers& known : numbers)
    if (known.number == type) return &known;
  return nullptr;
}

}  // namespace stave_detail
