// Strided loops: functions that merge axes, visit tiles and copy them.
#include <stave/backends/cpu/strided.h>

#include <algorithm>
#include <cstring>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>

namespace stave_cpu {

bool is_contiguous(std::span<const Index> shape, std::span<const Index> strides) {
  Index expected = 1;
  bool dense = true;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    dense &= shape[i] == 1 || strides[i] == expected;
    expected *= shape[i];
  }
  return dense;
}

stave::Shape without(std::span<const Index> all, std::size_t axis) {
  stave::Shape rest;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != axis) rest.push_back(all[i]);
  return rest;
}

Index element_count(std::span<const Index> shape) {
  Index n = 1;
  for (Index length : shape) n *= length;
  return n;
}

Axes merged_axes(std::span<const Index> shape, std::span<const Index* const> strides, const Index* sizes) {
  Axes axes;
  int operands = static_cast<int>(strides.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    Axis axis;
    axis.length = shape[i];
    for (int k = 0; k < operands; ++k) axis.step[k] = strides[static_cast<std::size_t>(k)][i] * sizes[k];
    if (axis.length == 0) return Axes(1, axis);
    bool merges = !axes.empty();
    for (int k = 0; merges && k < operands; ++k) merges = axes.back().step[k] == axis.step[k] * axis.length;
    if (merges) {
      axis.length *= axes.back().length;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

int dense_axis(const Axes& axes, int first, int operands, const Index* sizes) {
  int inner = static_cast<int>(axes.size()) - 1;
  for (int k = first; k < operands; ++k) {
    Index along = axes.back().step[k];
    if (along == 0 || along == sizes[k]) continue;
    int densest = inner;
    auto distance = [&](int axis) {
      Index step = axes[static_cast<std::size_t>(axis)].step[k];
      return step < 0 ? -step : step;
    };
    for (int a = 0; a < inner; ++a)
      if (distance(a) != 0 && distance(a) < distance(densest)) densest = a;
    if (densest != inner) return densest;
  }
  return -1;
}

// ---- TileWalk -----------------------------------------------------------------------------------

void TileWalk::push(const Axis& axis, Index tile) {
  Digit digit;
  digit.position = 0;
  digit.count = (axis.length + tile - 1) / tile;
  digit.tile = tile;
  digit.length = axis.length;
  for (int k = 0; k < most_operands; ++k) digit.step[k] = axis.step[k] * tile;
  count_ *= digit.count;
  digits_.push_back(digit);
}

TileWalk::TileWalk(const Axes& axes, int operands, int row_axis, Index rows, Index columns, bool down)
    : operands_(operands) {
  int inner = static_cast<int>(axes.size()) - 1;
  for (int a = 0; a < inner; ++a)
    if (a != row_axis) push(axes[static_cast<std::size_t>(a)], 1);
  int next = static_cast<int>(digits_.size());
  row_digit_ = next + down;
  column_digit_ = next + !down;
  Axis row = row_axis < 0 ? Axis{} : axes[static_cast<std::size_t>(row_axis)],
       column = inner < 0 ? Axis{} : axes.back();
  if (down) push(column, columns);
  push(row, rows);
  if (!down) push(column, columns);
}

void TileWalk::seek(Index tile) {
  for (int k = 0; k < operands_; ++k) offset_[k] = 0;
  for (std::size_t d = digits_.size(); d-- > 0;) {
    Digit& digit = digits_[d];
    digit.position = tile % digit.count;
    tile /= digit.count;
    for (int k = 0; k < operands_; ++k) offset_[k] += digit.position * digit.step[k];
  }
}

void TileWalk::next() {
  for (std::size_t d = digits_.size(); d-- > 0;) {
    Digit& digit = digits_[d];
    if (++digit.position < digit.count) {
      for (int k = 0; k < operands_; ++k) offset_[k] += digit.step[k];
      return;
    }
    for (int k = 0; k < operands_; ++k) offset_[k] -= (digit.count - 1) * digit.step[k];
    digit.position = 0;
  }
}

// ---- copying ------------------------------------------------------------------------------------

namespace {

// Fills by doubling: the part that is filled already is copied to the elements after it.
// memcpy uses the widest instructions available.
template <class T>
void fill_with(void* dst, const void* value, Index n) {
  T v, *to = static_cast<T*>(dst);
  std::memcpy(&v, value, sizeof v);
  const Index first = std::min<Index>(n, 256 / sizeof(T));
  for (Index i = 0; i < first; ++i) to[i] = v;
  for (Index filled = first; filled < n; filled *= 2)
    std::memcpy(to + filled, to, static_cast<std::size_t>(std::min(filled, n - filled)) * sizeof(T));
}

template <class T>
T& at(char* p, Index offset) {
  return *reinterpret_cast<T*>(p + offset);
}
template <class T>
const T& at(const char* p, Index offset) {
  return *reinterpret_cast<const T*>(p + offset);
}

/// Transposes a 4 x 4 block in registers.
template <class T>
void transpose_four(char* dst, Index dst_row, const char* src, Index src_column) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T))));
  Four c[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&c[i], src + i * src_column, sizeof(Four));
  Four low01 = __builtin_shufflevector(c[0], c[1], 0, 4, 1, 5), low23 = __builtin_shufflevector(c[2], c[3], 0, 4, 1, 5);
  Four high01 = __builtin_shufflevector(c[0], c[1], 2, 6, 3, 7),
       high23 = __builtin_shufflevector(c[2], c[3], 2, 6, 3, 7);
  Four rows[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                  __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                  __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(dst + i * dst_row, &rows[i], sizeof(Four));
}

void copy_bytes(char* dst, const char* src, Index bytes, bool stream) {
  if (stream) kernels().stream_bytes(dst, src, bytes);
  else std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

/// Transposes side x side elements through a buffer, so that each cache line of source and
/// destination is accessed once. If the distance of rows is a power of two, all these lines map to
/// one set of the cache, which holds about a dozen lines, so a second access to a line would miss.
template <class T, Index side>
void transpose_square(char* dst, Index dst_row, const char* src, Index src_column, bool stream) {
  constexpr Index size = sizeof(T), row = side * size;
  alignas(64) char buffer[side * row];
  for (Index c = 0; c < side; c += 4)
    for (Index r = 0; r < side; r += 4)
      transpose_four<T>(buffer + r * row + c * size, row, src + c * src_column + r * size, src_column);
  for (Index r = 0; r < side; ++r) copy_bytes(dst + r * dst_row, buffer + r * row, row, stream);
}

/// Transposes a tile whose source columns and destination rows are dense (src_row == size).
template <class T>
void transpose_tile(char* dst, Index dst_row, const char* src, Index src_column, Index rows, Index columns,
                    bool stream) {
  constexpr Index size = sizeof(T), side = size == 8 ? 8 : 16;
  Index square_rows = rows - rows % side, square_columns = columns - columns % side;
  for (Index c = 0; c < square_columns; c += side)
    for (Index r = 0; r < square_rows; r += side)
      transpose_square<T, side>(dst + r * dst_row + c * size, dst_row, src + c * src_column + r * size, src_column,
                                stream);
  Index whole_rows = rows & ~Index{3}, whole_columns = columns & ~Index{3};
  for (Index c = 0; c < whole_columns; c += 4)
    for (Index r = c < square_columns ? square_rows : 0; r < whole_rows; r += 4)
      transpose_four<T>(dst + r * dst_row + c * size, dst_row, src + c * src_column + r * size, src_column);
  for (Index c = 0; c < columns; ++c)
    for (Index r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      at<T>(dst, r * dst_row + c * size) = at<T>(src, c * src_column + r * size);
}

// ---- rows ---------------------------------------------------------------------------------------
// A row of at most 64 bytes is copied as one, two or four words. The later words end where the row
// ends, so they may overlap the earlier ones. Rows of one length are thus copied by the same few
// instructions, without a call or a loop for each row.

typedef std::uint64_t SixteenBytes __attribute__((vector_size(16)));

template <class Word>
Word word_at(const char* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// A row whose elements follow each other in memory.
struct DenseRow {
  static constexpr std::size_t least_word = 1;
  template <class Word>
  static Word word(const char* row, Index offset) {
    return word_at<Word>(row + offset);
  }
};
/// A row that repeats one element.
template <class T>
struct RepeatedRow {
  static constexpr std::size_t least_word = sizeof(T);
  template <class Word>
  static Word word(const char* row, Index) {
    if constexpr (sizeof(Word) == sizeof(T)) {
      return word_at<Word>(row);
    } else if constexpr (sizeof(Word) <= 8) {
      constexpr Word ones = static_cast<Word>(~Word{}) / static_cast<T>(~T{});
      return static_cast<Word>(ones * word_at<T>(row));
    } else {
      typedef T Elements __attribute__((vector_size(sizeof(Word))));
      return __builtin_bit_cast(Word, Elements{} + word_at<T>(row));
    }
  }
};

template <class Row, class Word, int count>
struct RowOfWords {
  Index bytes;
  // Inlined into the loop over rows, which makes the offsets constants of that loop.
  [[gnu::always_inline]] void operator()(char* to, const char* from) const {
    constexpr Index size = sizeof(Word);
    const Index offsets[] = {0, count == 4 ? size : bytes - size, bytes - 2 * size, bytes - size};
    Word words[count];
    for (int i = 0; i < count; ++i) words[i] = Row::template word<Word>(from, offsets[i]);
    for (int i = 0; i < count; ++i) std::memcpy(to + offsets[i], &words[i], sizeof(Word));
  }
};
constexpr Index most_row_bytes = 64;

/// Calls f(copy), where copy(to, from) copies a row of `bytes` bytes, at most most_row_bytes.
template <class Row, class F>
void with_row_of_words(Index bytes, const F& f) {
  const auto with_words = [&]<class Word>(Word) {
    if constexpr (sizeof(Word) >= Row::least_word) {
      if (bytes == sizeof(Word)) f(RowOfWords<Row, Word, 1>{bytes});
      else f(RowOfWords<Row, Word, 2>{bytes});
    }
  };
  if (bytes > 32) f(RowOfWords<Row, SixteenBytes, 4>{bytes});
  else if (bytes >= 16) with_words(SixteenBytes{});
  else if (bytes >= 8) with_words(std::uint64_t{});
  else if (bytes >= 4) with_words(std::uint32_t{});
  else if (bytes >= 2) with_words(std::uint16_t{});
  else with_words(std::uint8_t{});
}

/// Calls f(copy), where copy(to, from) copies a row of `columns` elements of type T, whose distance
/// is `step` bytes, to dense memory.
template <class T, class F>
void with_row_copy(Index columns, Index step, const F& f) {
  constexpr Index size = sizeof(T);
  const Index bytes = columns * size;
  if (bytes == 0) return;
  if (step == size && bytes <= most_row_bytes) return with_row_of_words<DenseRow>(bytes, f);
  if (step == 0 && bytes <= most_row_bytes) return with_row_of_words<RepeatedRow<T>>(bytes, f);
  if (step == size)
    return f([=](char* to, const char* from) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  if (step == 0) return f([=](char* to, const char* from) { fill_with<T>(to, from, columns); });
  f([=](char* to, const char* from) {
    for (Index c = 0; c < columns; ++c) at<T>(to, c * size) = at<T>(from, c * step);
  });
}

RepeatKernel repeat_kernel(Index size, Index copies) {
  if ((size != 4 && size != 8) || copies > most_repeats) return nullptr;
  return kernels().repeat[size == 8][copies];
}

template <class T>
void copy_elements(char* dst, Index dst_row, Index dst_column, const char* src, Index src_row, Index src_column,
                   Index rows, Index columns, bool stream) {
  constexpr Index size = sizeof(T);
  // Larger elements use cache lines well even without a blocked transpose.
  if constexpr (size <= 8) {
    const bool large = rows >= 4 && columns >= 4;
    if (large && dst_column == size && src_row == size && src_column != size && src_column != 0)
      return transpose_tile<T>(dst, dst_row, src, src_column, rows, columns, stream);
    if (large && dst_row == size && src_column == size && dst_column != size && src_row != 0)
      return transpose_tile<T>(dst, dst_column, src, src_row, columns, rows, stream);
  }
  if (dst_row == columns * size && dst_column == size && src_row == size && src_column == 0)
    if (const RepeatKernel kernel = repeat_kernel(size, columns)) return kernel(dst, src, rows);
  const auto copy_rows = [=](auto copy_row) {
    // The compiler can keep these copies of captured variables in registers, because writes to
    // the rows cannot change them.
    const Index count = rows, to_step = dst_row, from_step = src_row;
    char* to = dst;
    const char* from = src;
    for (Index r = 0; r < count; ++r, to += to_step, from += from_step) copy_row(to, from);
  };
  if (stream && dst_column == size && src_column == size && columns >= 16)
    copy_rows([=](char* to, const char* from) { kernels().stream_bytes(to, from, columns * size); });
  else if (dst_column == size) with_row_copy<T>(columns, src_column, copy_rows);
  else
    copy_rows([=](char* to, const char* from) {
      for (Index c = 0; c < columns; ++c) at<T>(to, c * dst_column) = at<T>(from, c * src_column);
    });
}

}  // namespace

void fill_elements(void* dst, const void* value, Index n, Index size) {
  stave::visit_size(static_cast<std::size_t>(size), [&](auto element) { fill_with<decltype(element)>(dst, value, n); });
}

void copy_tile(char* dst, Index dst_row, Index dst_column, const char* src, Index src_row, Index src_column, Index rows,
               Index columns, Index size, bool stream) {
  stave::visit_size(static_cast<std::size_t>(size), [&](auto element) {
    copy_elements<decltype(element)>(dst, dst_row, dst_column, src, src_row, src_column, rows, columns, stream);
  });
}

bool streams(Index bytes, Index from) { return bytes >= from && kernels().stream_bytes; }

void copy_strided(Placed dst, Placed src, std::span<const Index> shape, Index size) {
  const Index* strides[] = {dst.strides.data(), src.strides.data()};
  Index sizes[] = {size, size};
  Axes axes = merged_axes(shape, strides, sizes);
  if (axes.empty()) return void(std::memcpy(dst.data, src.data, static_cast<std::size_t>(size)));
  if (axes.back().length == 0) return;
  constexpr Index few_bytes = 16384;
  const Axis& only = axes.back();
  if (axes.size() == 1 && only.step[0] == size && only.step[1] == size && only.length * size <= few_bytes)
    return void(std::memcpy(dst.data, src.data, static_cast<std::size_t>(only.length * size)));

  int inner = static_cast<int>(axes.size()) - 1;
  int row_axis = dense_axis(axes, 0, 2, sizes);
  bool transposing = row_axis >= 0;
  Index columns = axes.back().length, rows = 1;
  // A tile to transpose covers whole cache lines of both operands and fits into the L1 cache.
  if (transposing) {
    columns = std::min<Index>(columns, 64);
    rows = std::min<Index>(axes[static_cast<std::size_t>(row_axis)].length, 64);
  } else {
    columns = std::min<Index>(columns, 16384);
    row_axis = inner - 1;
    if (row_axis >= 0)
      rows = std::min(axes[static_cast<std::size_t>(row_axis)].length, std::max<Index>(1, 16384 / columns));
  }
  auto step = [&](int axis, int k) { return axis < 0 ? 0 : axes[static_cast<std::size_t>(axis)].step[k]; };
  const bool stream = streams(element_count(shape) * size, transposing ? stream_scattered : stream_contiguous);
  TileWalk tiles(axes, 2, row_axis, rows, columns, transposing);
  parallel_for(tiles.count(), std::max<Index>(1, cheap_grain / (rows * columns)), [&](Index first, Index last) {
    TileWalk walk = tiles;
    walk.seek(first);
    for (Index t = first; t < last; ++t, walk.next())
      copy_tile(dst.data + walk.offset(0), step(row_axis, 0), step(inner, 0), src.data + walk.offset(1),
                step(row_axis, 1), step(inner, 1), walk.rows(), walk.columns(), size, stream);
    if (stream) kernels().end_streams();
  });
}

// ---- StridedReader ------------------------------------------------------------------------------

StridedReader::StridedReader(const char* data, const Axes& axes, int operand, Index size)
    : data_(data), start_(data), size_(size), length_(axes.back().length), step_(axes.back().step[operand]) {
  for (std::size_t a = axes.size() - 1; a-- > 0;) outer_.push_back({0, axes[a].length, axes[a].step[operand]});
  if (outer_.empty()) outer_.push_back({0, 1, 0});
  offsets_.push_back(0);
  const auto is_short = [&] {
    const Index length = outer_[0].length;
    return length < many_rows && length * static_cast<Index>(offsets_.size()) <= most_offsets;
  };
  while (outer_.size() > 1 && is_short()) {
    repeat_offsets(outer_[0].length, outer_[0].step);
    outer_.erase(outer_.begin());
  }
  block_ = static_cast<Index>(offsets_.size());
  if (block_ > 1) repeat_offsets(std::min(outer_[0].length, most_offsets / block_), outer_[0].step);
}

// Appends copies of the offsets, so that there are `count` copies in total. Each copy is `step`
// bytes after the one before.
void StridedReader::repeat_offsets(Index count, Index step) {
  const std::size_t block = offsets_.size();
  for (std::size_t i = block; i < static_cast<std::size_t>(count) * block; ++i)
    offsets_.push_back(offsets_[i - block] + step);
}

const char* StridedReader::element(Index position) const {
  Index row = position / length_;
  const char* at = data_ + position % length_ * step_ + offsets_[static_cast<std::size_t>(row % block_)];
  row /= block_;
  for (const Digit& digit : outer_) {
    at += row % digit.length * digit.step;
    row /= digit.length;
  }
  return at;
}

void StridedReader::seek(Index first) {
  next_ = first;
  column_ = first % length_;
  Index row = first / length_;
  row_ = row % block_;
  start_ = element((row - row_) * length_);
  row /= block_;
  for (Digit& digit : outer_) {
    digit.position = row % digit.length;
    row /= digit.length;
  }
}

// Advances by some rows, at most to the end of the innermost outer axis.
void StridedReader::pass(Index rows) {
  row_ += rows;
  if (row_ < block_) return;
  const Index blocks = row_ / block_;
  row_ -= blocks * block_;
  start_ += blocks * outer_[0].step;
  outer_[0].position += blocks;
  for (std::size_t d = 0; d + 1 < outer_.size() && outer_[d].position == outer_[d].length; ++d) {
    start_ += outer_[d + 1].step - outer_[d].length * outer_[d].step;
    outer_[d].position = 0;
    ++outer_[d + 1].position;
  }
}

// Copies elements of the current row, at most to its end.
template <class T>
char* StridedReader::read_columns(char* to, Index count) {
  const Index bytes = count * Index{sizeof(T)};
  copy_elements<T>(to, bytes, sizeof(T), row() + column_ * step_, 0, step_, 1, count, false);
  column_ += count;
  if (column_ == length_) {
    column_ = 0;
    pass(1);
  }
  return to + bytes;
}

// Copies whole rows.
template <class T>
char* StridedReader::read_rows(char* to, Index rows) {
  const Index bytes = length_ * Index{sizeof(T)};
  // The number of rows to the end of the innermost outer axis.
  const auto left = [&] { return (outer_[0].length - outer_[0].position) * block_ - row_; };
  if (block_ == 1) {
    for (Index run; rows > 0; rows -= run, to += run * bytes) {
      run = std::min(rows, left());
      copy_elements<T>(to, bytes, sizeof(T), start_, outer_[0].step, step_, run, length_, false);
      pass(run);
    }
    return to;
  }
  with_row_copy<T>(length_, step_, [&](auto copy_row) {
    for (Index run; rows > 0; rows -= run, to += run * bytes) {
      run = std::min({rows, left(), static_cast<Index>(offsets_.size()) - row_});
      const Index* const offsets = &offsets_[static_cast<std::size_t>(row_)];
      const char* const from = start_;
      char* const begin = to;
      for (Index r = 0; r < run; ++r) copy_row(begin + r * bytes, from + offsets[r]);
      pass(run);
    }
  });
  return to;
}

const char* StridedReader::read(Index first, Index count, char* buffer) {
  if (first != next_) seek(first);
  next_ += count;
  if (step_ == size_ && column_ + count < length_) {
    const char* const there = row() + column_ * step_;
    column_ += count;
    return there;
  }
  stave::visit_size(static_cast<std::size_t>(size_), [&](auto element) {
    using T = decltype(element);
    char* to = buffer;
    if (column_ > 0) {
      const Index part = std::min(count, length_ - column_);
      to = read_columns<T>(to, part);
      count -= part;
    }
    if (count >= length_) to = read_rows<T>(to, count / length_);
    if (count % length_ > 0) read_columns<T>(to, count % length_);
  });
  return buffer;
}

Dense::Dense(const View& x) : view_(x) {
  if (is_contiguous(x.shape, x.strides)) return;
  const auto size = static_cast<Index>(stave::size_of(x.dtype));
  copy_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(element_count(x.shape) * size));
  strides_ = stave::contiguous_strides(stave::Shape(x.shape));
  copy_strided({copy_.get(), strides_}, {static_cast<char*>(x.data), x.strides}, x.shape, size);
  view_ = {copy_.get(), x.dtype, x.shape, strides_};
}

}  // namespace stave_cpu
