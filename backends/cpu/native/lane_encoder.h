// The encoder of native code for lanes: it runs lowered code for several lanes at once.
//
// Lowered code describes one lane. A value that differs between lanes is held as a vector with an
// element for each lane of a block; so is each float. The other values (positions, numbers of
// steps, conditions on them) are single numbers in general registers, as in X86Encoder.
//
//   a block               has `lanes` lanes: as many as a vector of the kernels has elements of the
//                         largest dtype of the vectors
//   vectors               have lanes * size bytes: a zmm, ymm or xmm register
//   bools                 are masks with elements of the largest dtype: all bits set, or none. With
//                         AVX-512, those that are read soon are in the mask registers k2 to k7.
//   memory                element e of lane l is element e * lanes + l of a buffer, and a bool is a
//                         byte. Inputs that are the same for all lanes, and constants, are as in
//                         Lowered; vectors of their elements are made when they are read.
//   xmm13, xmm14, xmm15   scratch registers; k1 likewise
//   slots 0 to 3          operands and results of the functions that the code calls
//
// A conversion to the dtype of its operand makes a vector of a single number.
//
// The file lane_encoder.cpp has constants, moves and memory; lane_masks.cpp has bools and choices;
// lane_floats.cpp, lane_integers.cpp and lane_conversions.cpp have other operations; lane_calls.cpp
// calls functions.
#pragma once

#include <stave/backends/cpu/native/x86_64.h>

namespace stave_cpu {

/// Lowered code for lanes, and which of its values are vectors.
struct LaneValues {
  Lowered code;
  std::vector<bool> vectors;  // for each value
  int element_bytes = 4;      // the size of the largest dtype of the vectors
};

/// Finds the vectors of code for one lane, and inserts the conversions that make vectors of single
/// numbers where a loop carries a vector. `is_uniform[i]` is true if input i is the same for all
/// lanes. Throws std::runtime_error if the number of steps of a loop differs between lanes, or if a
/// vector would have a dtype that lanes do not support: integers of 8 or 16 bits. Replaces shifts
/// by rotations if `has_rotations` is set.
LaneValues find_lane_values(Lowered code, const std::vector<bool>& is_uniform, bool has_rotations);
/// True for a rotation of operand 0 by a number of places, operand 1: a shift_left with a third
/// operand, which only find_lane_values makes.
bool is_rotation(const Lowered::Instruction& it);

/// The instruction sets for lanes: vectors of 32 or 64 bytes.
struct LaneFeatures {
  int vector_bytes;
  bool avx512;
};

class LaneEncoder final : public X86Encoder {
 public:
  LaneEncoder(const LaneValues& values, const std::vector<bool>& is_uniform, const LiveRanges& ranges,
              LaneFeatures features);

  int lanes() const { return lanes_; }

 private:
  using Vector = Xbyak::Xmm;
  /// The vectors at the beginning of the table of constants. Each is repeated to a whole vector.
  enum class Fixed { sign_64, other_bits_64, sign_32, other_bits_32, one_f64, one_f32, one_i64, one_i32, all_bits };

  // ---- lane_encoder.cpp
  void write_constants() override;
  void operation(const Instruction& it) override;
  void load(const Instruction& it) override;
  void store(const Instruction& it) override;
  void check(const Instruction& it) override;
  void move(Location to, Location from) override;
  Location save(Location from) override;
  int vector_call_length() const override { return 0; }
  void write_repeated(std::uint64_t element, int bytes);
  Xbyak::Address fixed(Fixed which) { return ptr[rip + table_ + vector_bytes_ * static_cast<int>(which)]; }
  /// The slots for operands and results of functions.
  Xbyak::Address area(int k, int offset = 0) { return ptr[r15 - slot_size_ * (k + 1) + offset]; }

  bool is_vector(int value) const { return ranges_.bank(value) == Bank::floating; }
  bool is_uniform(const Lowered::Buffer& buffer) const;
  Vector vector(int id, int bytes) const;
  Vector scratch_vector(int k, int bytes) const { return vector(first_floating + 15 - k, bytes); }
  int width(Dtype dtype) const;
  int width_of(int value) const { return width(dtype(value)); }
  /// The value as a vector, which is made in scratch register k if the value is a single number.
  Vector read_vector(int value, int k);
  /// The same, or its place in memory.
  Operand vector_operand(int value, int k);
  Vector vector_result(const Instruction& it);
  void copy_vector(const Vector& to, const Vector& from);
  void repeat_general(const Vector& to, const Xbyak::Reg64& from, int bytes);
  void repeat_number(const Vector& to, std::uint64_t number);
  Xbyak::Address lane_address(const Instruction& it);
  void load_vector(const Vector& to, const Xbyak::Address& from, Dtype dtype);
  void store_vector(const Xbyak::Address& to, const Vector& from, Dtype dtype);
  /// Computes the address of each lane's element, and calls f(lane, address). It uses rax and rcx.
  template <class F>
  void each_lane(const Instruction& it, F f);
  void store_each(const Instruction& it, Dtype dtype);

  // ---- lane_masks.cpp
  void find_barriers();
  /// Returns a mask register for the result, a bool, or k0: there is none.
  Xbyak::Opmask mask_result(const Instruction& it);
  bool is_in_mask_register(int value) const { return mask_of_[static_cast<std::size_t>(value)] != 0; }
  Xbyak::Opmask mask_register(int value) const { return Xbyak::Opmask(mask_of_[static_cast<std::size_t>(value)]); }
  /// The bool in its mask register, or in k1.
  Xbyak::Opmask read_mask_register(int value);
  /// The bool as a mask with elements of `bytes` bytes, in scratch register k if necessary.
  Vector read_mask(int value, int bytes, int k);
  void mask_from_k(const Vector& to, const Xbyak::Opmask& from);
  void widen_mask(const Vector& to, const Vector& from, int bytes);
  /// Writes the result of a comparison: write(k) sets a mask register.
  template <class F>
  void compare_to_mask(const Instruction& it, F write);
  void select_vectors(const Instruction& it);
  void bools(const Instruction& it);
  bool bools_in_mask_registers(const Instruction& it);

  // ---- lane_floats.cpp
  bool vector_floats(const Instruction& it);
  /// Calls f(result, a, b) for the operands a and b, the second of which may be in memory.
  template <class F>
  void two(const Instruction& it, F f);
  /// Calls f(result, x) for the operand x.
  template <class F>
  void one(const Instruction& it, F f);
  void round_vector(const Instruction& it, bool wide, int mode);
  void multiply_add_vector(const Instruction& it, bool wide);
  void copysign_vector(const Instruction& it, bool wide);
  void sign_bit_vector(const Instruction& it, bool wide);
  void compare_vectors(const Instruction& it, bool wide);

  // ---- lane_integers.cpp
  bool vector_integers(const Instruction& it);
  void multiply_integers(const Instruction& it, bool wide);
  void negate(const Instruction& it, bool wide);
  void invert(const Instruction& it);
  void absolute_vector(const Instruction& it, bool wide);
  void shift_vector(const Instruction& it, bool wide);
  void shift_signs(const Vector& to, const Vector& x, const Operand& by);
  void compare_integer_vectors(const Instruction& it, bool wide);

  // ---- lane_conversions.cpp
  bool convert_vector(const Instruction& it);
  bool convert_to_float(const Instruction& it, Dtype from);
  void convert_from_bool(const Instruction& it);
  void convert_to_bool(const Instruction& it);
  void convert_size(const Instruction& it, Dtype from);
  void wide_to_double(const Vector& to, const Vector& x, bool is_signed);

  // ---- lane_calls.cpp
  void call_vector_function(const Instruction& it);
  void call_each_lane(const Instruction& it, const void* function);
  void call_vector_kernel(const Instruction& it, void (*kernel)(void*, const void* const*, std::int64_t));
  /// Writes the operands to the areas, and frees the registers that a call changes.
  void pass_operands(const Instruction& it, bool fills);

  const LaneValues& values_;
  const std::vector<bool>& is_uniform_;
  const int vector_bytes_, lanes_;
  const bool avx512_;
  std::vector<int> mask_of_;  // for each value, its mask register, or 0
  int in_mask_[8];            // the value in each mask register, or -1
  // For each position, the first one from there on that loses the contents of mask registers.
  std::vector<int> barrier_at_;
};

template <class F>
void LaneEncoder::two(const Instruction& it, F f) {
  const Vector a = read_vector(it.operands[0], 0);
  const Operand b = vector_operand(it.operands[1], 1);
  f(vector_result(it), a, b);
}
template <class F>
void LaneEncoder::compare_to_mask(const Instruction& it, F write) {
  const Xbyak::Opmask to = mask_result(it);
  if (to.getIdx() != 0) return write(to);
  write(k1);
  mask_from_k(vector_result(it), k1);
}
template <class F>
void LaneEncoder::one(const Instruction& it, F f) {
  const Vector x = read_vector(it.operands[0], 0);
  f(vector_result(it), x);
}

}  // namespace stave_cpu
