// Arrays of lowered code, and the loops that compute them.
#include <algorithm>
#include <limits>

#include <stave/core/program/lower.h>

namespace stave_detail {

namespace {

// The most operations of the code that computes one array without a loop.
constexpr Index most_operations = 256;

}  // namespace

// ---- positions ----------------------------------------------------------------------------------

Position Lowering::position_of(int value) const {
  if (const std::int64_t* const known = builder_.number_of(value)) return Position(*known);
  return Position::of(value);
}

Position Lowering::shifted(Position place, Index offset, Index factor) {
  if (place.value < 0) return Position(place.number * factor + offset);
  return position_of(add(ScalarOp::add, add(ScalarOp::multiply, place.value, index(factor)), index(offset)));
}

Position Lowering::sum(Position a, Position b) {
  if (b.value < 0) return shifted(a, b.number);
  if (a.value < 0) return shifted(b, a.number);
  return position_of(add(ScalarOp::add, a.value, b.value));
}

int Lowering::is_finite(int value) {
  const int infinity = number(std::numeric_limits<double>::infinity(), builder_.dtype(value));
  return add(ScalarOp::less, add(ScalarOp::abs, value), infinity);
}

// ---- arrays -------------------------------------------------------------------------------------

bool Lowering::is_unrolled(const Shape& shape, Index cost) {
  const Index elements = shape.elements();
  return elements <= most_elements && elements * cost <= most_operations;
}

// Returns true if the source has a buffer that holds its elements at this point of the code. The
// buffer does not if they were written to it in a loop that has ended.
bool Lowering::has_valid_buffer(const ArraySource& source) const {
  const std::vector<int>& open = builder_.open_loops();
  return source.buffer >= 0 && (source.loop == 0 || std::find(open.begin(), open.end(), source.loop) != open.end());
}

Lowering::Address Lowering::address(const Array& x, Positions at) {
  Index offset = x.offset;
  int computed = x.base;
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    const Index stride = x.strides[axis];
    if (at[axis].value < 0) {
      offset += stride * at[axis].number;
    } else if (stride != 0) {
      const int term = add(ScalarOp::multiply, at[axis].value, index(stride));
      computed = computed < 0 ? term : add(ScalarOp::add, computed, term);
    }
  }
  if (computed >= 0)
    if (const std::int64_t* const known = builder_.number_of(computed)) return {-1, offset + *known};
  return {computed, offset};
}

int Lowering::element(const Array& x, Positions at) {
  ArraySource& source = *x.source;
  const auto [computed, offset] = address(x, at);
  if (computed < 0 && !source.values.empty()) return source.values[static_cast<std::size_t>(offset)];
  if (!has_valid_buffer(source)) {
    source.buffer =
        builder_.add_buffer({Lowered::Buffer::Kind::work, x.dtype, static_cast<Index>(source.values.size())});
    source.loop = builder_.open_loops().empty() ? 0 : builder_.open_loops().back();
    for (std::size_t i = 0; i < source.values.size(); ++i)
      builder_.store(source.buffer, -1, static_cast<Index>(i), source.values[i]);
  }
  return builder_.load(source.buffer, computed, offset);
}

Array Lowering::of_values(const Shape& shape, Dtype dtype, Elements values) {
  const auto source = std::make_shared<ArraySource>();
  source->values = std::move(values);
  return {source, dtype, shape, contiguous_strides(shape)};
}

Array Lowering::allocate(const Shape& shape, Dtype dtype) {
  const auto source = std::make_shared<ArraySource>();
  source->buffer = builder_.add_buffer({Lowered::Buffer::Kind::work, dtype, shape.elements()});
  return {source, dtype, shape, contiguous_strides(shape)};
}

void Lowering::store(const Array& x, Positions at, int value) {
  const auto [computed, offset] = address(x, at);
  builder_.store(x.source->buffer, computed, offset, value);
}

Array Lowering::view(const Array& x, Shape shape, Strides strides, Index offset) {
  Array y = x;
  y.shape = std::move(shape);
  y.strides = std::move(strides);
  y.offset += offset;
  return y;
}

Array Lowering::broadcast(const Array& x, const Shape& shape) {
  Strides strides = all_equal(shape.size(), 0);
  const std::size_t added = shape.size() - x.shape.size();
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis)
    strides[added + axis] = x.shape[axis] == 1 ? 0 : x.strides[axis];
  return view(x, shape, std::move(strides));
}

Array Lowering::row(const Array& x, Position at) {
  Array y = view(x, axes_of(x.shape, 1, x.shape.size()), axes_of(x.strides, 1, x.shape.size()));
  const auto [computed, offset] = address(x, std::span(&at, 1));
  y.base = computed;
  y.offset = offset;
  return y;
}

void Lowering::copy(const Array& from, const Array& to) {
  for_each(
      to.shape, [&](Positions at) { store(to, at, element(from, at)); }, is_unrolled(to.shape, 1));
}

Array Lowering::contiguous(const Array& x) {
  if (is_contiguous(x.shape, x.strides)) return x;
  return compute(x.shape, x.dtype, [&](Positions at) { return element(x, at); });
}

Array Lowering::reshaped(const Array& x, const Shape& shape) {
  return view(contiguous(x), shape, contiguous_strides(shape));
}

bool Lowering::is_whole_buffer(const Array& x) const {
  return x.source->buffer >= 0 && x.base < 0 && x.offset == 0 && is_contiguous(x.shape, x.strides) &&
         code_.buffers[static_cast<std::size_t>(x.source->buffer)].elements == x.shape.elements();
}

Array Lowering::writable(Array x) {
  const ArraySource& source = *x.source;
  if (source.values.empty() && x.source.use_count() == 1 && is_whole_buffer(x) &&
      code_.buffers[static_cast<std::size_t>(source.buffer)].kind == Lowered::Buffer::Kind::work)
    return x;
  Array copied = allocate(x.shape, x.dtype);
  copy(x, copied);
  return copied;
}

Array Lowering::preloaded(const Array& x) {
  if (!x.source->values.empty() || x.shape.elements() > most_elements) return x;
  const Array values = compute(x.shape, x.dtype, [&](Positions at) { return element(x, at); });
  const Lowered::Buffer::Kind kind = code_.buffers[static_cast<std::size_t>(x.source->buffer)].kind;
  const bool is_fixed = kind == Lowered::Buffer::Kind::input || kind == Lowered::Buffer::Kind::constant;
  if (is_fixed && is_whole_buffer(x)) values.source->buffer = x.source->buffer;
  return values;
}

// ---- loops --------------------------------------------------------------------------------------

void Lowering::for_each(const Shape& shape, FunctionRef<void(Positions)> body, bool unrolled) {
  const Index elements = shape.elements();
  if (elements == 0) return;
  PositionList at(shape.size());
  if (!unrolled) return fold_loops(shape, 0, at, {}, [&](Positions place, std::span<int>) { body(place); });
  for (Index i = 0; i < elements; ++i) {
    body(at);
    for (std::size_t axis = shape.size(); axis-- > 0; at[axis].number = 0)
      if (++at[axis].number < shape[axis]) break;
  }
}

void Lowering::for_range(Position first, Position end, FunctionRef<void(Position)> body, bool unrolled) {
  fold_range(
      first, end, {}, [&](Position i, std::span<int>) { body(i); }, unrolled);
}

void Lowering::fold_range(Position first, Position end, std::span<int> state,
                          FunctionRef<void(Position, std::span<int>)> step, bool unrolled) {
  if (unrolled) {
    for (Index i = first.number; i < end.number; ++i) step(Position(i), state);
    return;
  }
  const int start = value_of(first);
  const Position count = position_of(add(ScalarOp::subtract, value_of(end), start));
  std::vector<int> carried;
  for (const int value : state) carried.push_back(builder_.carried(value));
  const int i = count.value < 0 ? builder_.begin_loop(count.number) : builder_.begin_loop_of(count.value);
  for (std::size_t k = 0; k < state.size(); ++k) state[k] = carried[k];
  step(position_of(add(ScalarOp::add, i, start)), state);
  for (std::size_t k = 0; k < carried.size(); ++k) builder_.next(carried[k], state[k]);
  builder_.end_loop();
  for (std::size_t k = 0; k < state.size(); ++k) state[k] = carried[k];
}

Arrays Lowering::compute(const Shape& shape, std::span<const Dtype> dtypes,
                         FunctionRef<void(Positions, std::span<int>)> element, Index cost) {
  Elements results(dtypes.size());
  return compute_numbers(
      shape, dtypes,
      [&](Positions at, std::span<LoweredNumber> numbers) {
        element(at, results);
        for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = {results[k]};
      },
      cost);
}

Arrays Lowering::compute_numbers(const Shape& shape, std::span<const Dtype> dtypes,
                                 FunctionRef<void(Positions, std::span<LoweredNumber>)> element, Index cost) {
  const std::size_t count = dtypes.size();
  std::vector<LoweredNumber> results(count);
  Arrays arrays;
  if (is_unrolled(shape, cost)) {
    std::vector<Elements> values(count);
    for_each(
        shape,
        [&](Positions at) {
          element(at, results);
          for (std::size_t k = 0; k < count; ++k) {
            values[k].push_back(results[k].re);
            if (is_complex(dtypes[k])) values[k].push_back(results[k].im);
          }
        },
        true);
    for (std::size_t k = 0; k < count; ++k)
      arrays.push_back(of_values(lowered_shape(shape, dtypes[k]), real_of(dtypes[k]), std::move(values[k])));
    return arrays;
  }
  for (const Dtype dtype : dtypes) arrays.push_back(allocate(lowered_shape(shape, dtype), real_of(dtype)));
  for_each(
      shape,
      [&](Positions at) {
        element(at, results);
        PositionList place(at);
        place.push_back(Position(0));
        for (std::size_t k = 0; k < count; ++k) {
          if (!is_complex(dtypes[k])) {
            store(arrays[k], at, results[k].re);
            continue;
          }
          place.back() = Position(0);
          store(arrays[k], place, results[k].re);
          place.back() = Position(1);
          store(arrays[k], place, results[k].im);
        }
      },
      false);
  return arrays;
}

LoweredNumber Lowering::number_at(const Array& x, Dtype dtype, Positions at) {
  if (!is_complex(dtype)) return {element(x, at)};
  PositionList place(at);
  place.push_back(Position(0));
  const int re = element(x, place);
  place.back() = Position(1);
  return {re, element(x, place)};
}

Array Lowering::compute(const Shape& shape, Dtype dtype, FunctionRef<int(Positions)> element, Index cost) {
  if (!is_unrolled(shape, cost)) {
    const Array array = allocate(shape, dtype);
    for_each(
        shape, [&](Positions at) { store(array, at, element(at)); }, false);
    return array;
  }
  Elements values;
  for_each(
      shape, [&](Positions at) { values.push_back(element(at)); }, true);
  return of_values(shape, dtype, std::move(values));
}

void Lowering::fold(const Shape& shape, std::span<int> state, FunctionRef<void(Positions, std::span<int>)> step,
                    Index cost) {
  if (is_unrolled(shape, cost))
    return for_each(
        shape, [&](Positions at) { step(at, state); }, true);
  PositionList at(shape.size());
  fold_loops(shape, 0, at, state, step);
}

void Lowering::fold_loops(const Shape& shape, std::size_t axis, PositionList& at, std::span<int> state,
                          FunctionRef<void(Positions, std::span<int>)> step) {
  if (axis == shape.size()) return step(at, state);
  if (shape[axis] == 1) {
    at[axis] = Position(0);
    return fold_loops(shape, axis + 1, at, state, step);
  }
  fold_range(
      0, shape[axis], state,
      [&](Position i, std::span<int> now) {
        at[axis] = i;
        fold_loops(shape, axis + 1, at, now, step);
      },
      false);
}

}  // namespace stave_detail
