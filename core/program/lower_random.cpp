// Lowering of random numbers: see RandomAttributes for the formulas.
#include <stave/core/program/lower.h>

namespace stave_detail {

namespace {

struct Words {
  int w0, w1;
};

class Threefry {
 public:
  Threefry(Lowering& l, int k0, int k1) : l_(l), k_{k0, k1, bit_xor(bit_xor(k0, k1), number(0x1BD11BDAu))} {}

  Words operator()(int x0, int x1) {
    constexpr unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    x0 = add(x0, k_[0]);
    x1 = add(x1, k_[1]);
    for (unsigned group = 0; group < 5; ++group) {
      for (const unsigned by : rotations[group % 2]) {
        x0 = add(x0, x1);
        const int left = l_.add(ScalarOp::shift_left, x1, number(by));
        x1 = bit_xor(l_.add(ScalarOp::bit_or, left, l_.add(ScalarOp::shift_right, x1, number(32 - by))), x0);
      }
      x0 = add(x0, k_[(group + 1) % 3]);
      x1 = add(add(x1, k_[(group + 2) % 3]), number(group + 1));
    }
    return {x0, x1};
  }
  /// The two random words for counter i.
  Words at(Position i) {
    const int counter = l_.convert(l_.value_of(i), uint64);
    const int high = l_.add(ScalarOp::shift_right, counter, l_.number(32, uint64));
    return (*this)(l_.convert(high, uint32), l_.convert(counter, uint32));
  }

 private:
  int number(std::uint32_t value) { return l_.number(value, uint32); }
  int add(int a, int b) { return l_.add(ScalarOp::add, a, b); }
  int bit_xor(int a, int b) { return l_.add(ScalarOp::bit_xor, a, b); }

  Lowering& l_;
  int k_[3];
};

int key_word(Lowering& l, const Array& keys, Positions at, Index word) {
  PositionList place(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(keys.shape.size()) - 1);
  place.push_back(Position(word));
  return l.element(keys, place);
}
Threefry generator(Lowering& l, const Array& keys, Positions at) {
  return {l, key_word(l, keys, at, 0), key_word(l, keys, at, 1)};
}

// The counter of an element: its row-major position along the axes after the batch axes of the
// keys.
Position counter(Lowering& l, const Array& keys, const Shape& shape, Positions at) {
  Position place(0);
  for (std::size_t axis = keys.shape.size() - 1; axis < at.size(); ++axis)
    place = l.sum(l.shifted(place, 0, shape[axis]), at[axis]);
  return place;
}

Arrays fold_in(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array &keys = c.in(0), &data = c.in(1);
  const std::size_t last = c.shape().size() - 1;
  const Shape outer = axes_of(c.shape(), 0, last);
  const Dtype both[] = {uint32, uint32};
  const Arrays words = l.compute(
      outer, both,
      [&](Positions at, std::span<int> results) {
        PositionList in_keys(at);
        in_keys.push_back(Position(0));
        const Words found = generator(l, keys, in_keys)(l.number(0, uint32), l.element(data, at));
        results[0] = found.w0;
        results[1] = found.w1;
      },
      1);
  const Array out = l.allocate(c.shape(), uint32);
  for (Index k = 0; k < 2; ++k) {
    Strides strides = axes_of(out.strides, 0, last);
    l.copy(words[static_cast<std::size_t>(k)], Lowering::view(out, outer, std::move(strides), k));
  }
  return {l.preloaded(out)};
}

Arrays random_bits(const LoweringContext& c) {
  return {c.l.compute(
      c.shape(), uint32,
      [&](Positions at) {
        const Words words = generator(c.l, c.in(0), at).at(counter(c.l, c.in(0), c.shape(), at));
        return c.l.add(ScalarOp::bit_xor, words.w0, words.w1);
      },
      16)};
}

Arrays random_uniform(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<UniformAttributes>();
  const Dtype dtype = c.dtype();
  const int low = l.number(a.low, dtype);
  const int width = dtype == float32 ? l.number(static_cast<float>(a.high) - static_cast<float>(a.low), dtype)
                                     : l.number(a.high - a.low, dtype);
  return {l.compute(
      c.shape(), dtype,
      [&](Positions at) {
        const Words words = generator(l, c.in(0), at).at(counter(l, c.in(0), c.shape(), at));
        int u;
        if (dtype == float32) {
          const int bits =
              l.add(ScalarOp::shift_right, l.add(ScalarOp::bit_xor, words.w0, words.w1), l.number(9, uint32));
          u = l.add(ScalarOp::multiply, l.convert(bits, float32), l.number(0x1p-23, float32));
        } else {
          const int high = l.add(ScalarOp::shift_left, l.convert(words.w0, uint64), l.number(32, uint64));
          const int word = l.add(ScalarOp::bit_or, high, l.convert(words.w1, uint64));
          const int bits = l.add(ScalarOp::shift_right, word, l.number(12, uint64));
          u = l.add(ScalarOp::multiply, l.convert(bits, float64), l.number(0x1p-52, float64));
        }
        const int x = l.builder().add(ScalarOp::fma, u, width, low);
        return l.add(ScalarOp::select, l.add(ScalarOp::less, x, low), low, x);
      },
      16)};
}

}  // namespace

LoweringRule lowering_of_random(OpId id) {
  switch (id) {
    case OpId::fold_in: return fold_in;
    case OpId::random_bits: return random_bits;
    case OpId::random_uniform: return random_uniform;
    default: return nullptr;
  }
}

}  // namespace stave_detail
