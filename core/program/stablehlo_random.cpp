// Random numbers as StableHLO: see RandomAttributes. Their bits are those of the library, on every
// processor.
#include <stave/core/program/stablehlo_rules.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

HloWords hlo_threefry(HloBuilder& b, const HloWords& key, const HloWords& counter) {
  constexpr unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const auto full_like = [&](std::uint32_t value) { return b.number(value, uint32, key.w0.shape); };
  const HloValue keys[] = {key.w0, key.w1, b.binary("xor", b.binary("xor", key.w0, key.w1), full_like(0x1BD11BDAu))};
  HloValue x0 = b.add(counter.w0, keys[0]), x1 = b.add(counter.w1, keys[1]);
  for (unsigned group = 0; group < 5; ++group) {
    for (const unsigned by : rotations[group % 2]) {
      x0 = b.add(x0, x1);
      const HloValue left = b.binary("shift_left", x1, full_like(by));
      x1 = b.binary("xor", b.either(left, b.binary("shift_right_logical", x1, full_like(32 - by))), x0);
    }
    x0 = b.add(x0, keys[(group + 1) % 3]);
    x1 = b.add(b.add(x1, keys[(group + 2) % 3]), full_like(group + 1));
  }
  return {x0, x1};
}

namespace {

// The words of keys [batch..., 2], each [batch...].
HloWords words_of(HloBuilder& b, const HloValue& keys) {
  const std::size_t last = keys.shape.size() - 1;
  const Shape batch(std::span<const Index>(keys.shape.begin(), last));
  return {b.reshape(b.slice(keys, last, 0, 1), batch), b.reshape(b.slice(keys, last, 1, 1), batch)};
}
HloValue keys_of(HloBuilder& b, const HloWords& words) {
  Shape shape = words.w0.shape;
  shape.push_back(1);
  const HloValue parts[] = {b.reshape(words.w0, shape), b.reshape(words.w1, shape)};
  return b.concatenate(parts, shape.size() - 1);
}

HloValue folded_in(HloBuilder& b, const HloValue& keys, const HloValue& data) {
  return keys_of(b, hlo_threefry(b, words_of(b, keys), {b.full_like(data, 0), data}));
}

// The two random words for each counter 0, 1, ... of `shape`, in an array [batch..., shape...].
HloWords random_words(HloBuilder& b, const HloValue& keys, const Shape& shape) {
  const std::size_t batch = keys.shape.size() - 1;
  Shape all(std::span<const Index>(keys.shape.begin(), batch));
  all.append(shape.begin(), shape.end());
  const HloWords key = words_of(b, keys);
  const auto spread = [&](const HloValue& x) { return b.broadcast_in_dim(x, all, hlo_range(0, batch)); };
  const auto counters = [&](const HloValue& flat) { return b.broadcast(b.reshape(flat, shape), all); };
  const Index count = shape.elements();
  if (count <= 0xFFFFFFFF)
    return hlo_threefry(b, {spread(key.w0), spread(key.w1)},
                        {b.number(0, uint32, all), counters(b.iota(uint32, {count}, 0))});
  const HloValue wide = b.iota(uint64, {count}, 0);
  const HloValue high = b.convert(b.binary("shift_right_logical", wide, b.full_like(wide, 32)), uint32);
  const HloValue low = b.convert(b.both(wide, b.full_like(wide, std::int64_t{0xFFFFFFFF})), uint32);
  return hlo_threefry(b, {spread(key.w0), spread(key.w1)}, {counters(high), counters(low)});
}
HloValue random_bits_of(HloBuilder& b, const HloValue& keys, const Shape& shape) {
  const HloWords words = random_words(b, keys, shape);
  return b.binary("xor", words.w0, words.w1);
}

HloValues fold_in(const HloContext& c) { return {folded_in(c.b, c.in(0), c.in(1))}; }
HloValues random_bits(const HloContext& c) { return {random_bits_of(c.b, c.in(), c.as<RandomAttributes>().shape)}; }

double rounded(double value, Dtype dtype) {
  return visit_real_dtype(dtype, [&](auto zero) { return static_cast<double>(static_cast<decltype(zero)>(value)); });
}

// max(low, u (high - low) + low), where u has as many random bits as a significand.
HloValues random_uniform(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<UniformAttributes>();
  const Dtype dtype = c.dtype();
  const HloWords words = random_words(b, c.in(), a.shape);
  const auto times = [&](const HloValue& bits, double unit) {
    const HloValue x = b.convert(bits, dtype == float64 ? float64 : float32);
    return b.multiply(x, b.full_like(x, unit));
  };
  HloValue u;
  if (dtype == float64) {
    const HloValue high = b.convert(words.w0, uint64), low = b.convert(words.w1, uint64);
    const HloValue word = b.either(b.binary("shift_left", high, b.full_like(high, 32)), low);
    u = times(b.binary("shift_right_logical", word, b.full_like(word, 12)), 0x1p-52);
  } else {
    const HloValue bits = b.binary("xor", words.w0, words.w1);
    // Sixteen-bit floats take the highest bits of the low sixteen or eight.
    const auto highest = [&](int mask, int dropped) {
      return b.binary("shift_right_logical", b.both(bits, b.full_like(bits, mask)), b.full_like(bits, dropped));
    };
    if (dtype == float16) u = times(highest(0xFFFF, 6), 0x1p-10);
    else if (dtype == bfloat16) u = times(highest(0xFF, 1), 0x1p-7);
    else u = times(b.binary("shift_right_logical", bits, b.full_like(bits, 9)), 0x1p-23);
  }
  if (a.low == 0 && a.high == 1) return {b.convert(u, dtype)};
  const auto in_dtype = [&](double value) { return rounded(value, dtype); };
  const double least = in_dtype(a.low), width = in_dtype(in_dtype(a.high) - least);
  HloValue product = b.multiply(u, b.full_like(u, width));
  if (is_half_float(dtype))
    product = b.emit("reduce_precision", {product}, dtype == float16 ? ", format = e5m10" : ", format = e8m7",
                     product.type());
  const HloValue low = b.full_like(u, least);
  return {b.convert(b.binary("maximum", b.add(product, low), low), dtype)};
}

HloValues random_permutation(const HloContext& c) {
  HloBuilder& b = c.b;
  const auto& a = c.as<RandomAttributes>();
  const Index n = a.shape[0];
  const std::size_t axis = c.shape().size() - 1;
  HloValue keys = c.in(), order = b.iota(int32, c.shape(), axis);
  const Shape batch(std::span<const Index>(keys.shape.begin(), keys.shape.size() - 1));
  for (int round = 0; round < permutation_rounds(n); ++round) {
    const HloValue subkeys = folded_in(b, keys, b.number(1, uint32, batch));
    keys = folded_in(b, keys, b.number(0, uint32, batch));
    const HloValue operands[] = {random_bits_of(b, subkeys, a.shape), order};
    const auto before = [&](HloSpan pairs) { return HloValues{b.compare("LT", pairs[0], pairs[1])}; };
    order =
        b.emit_with("sort", operands, {{{{uint32, {}}, {uint32, {}}, {int32, {}}, {int32, {}}}, before}},
                    fmt::format("dimension = {} : i64, is_stable = true", axis), {operands[0].type(), order.type()})[1];
  }
  return {order};
}

}  // namespace

HloRule hlo_rule_of_random(OpId id) {
  switch (id) {
    case OpId::fold_in: return fold_in;
    case OpId::random_bits: return random_bits;
    case OpId::random_uniform: return random_uniform;
    case OpId::random_permutation: return random_permutation;
    default: return nullptr;
  }
}

}  // namespace stave_detail
