#include <stave/backends/cpu/panel_products.h>

#include <algorithm>
#include <cstring>

#include <stave/backends/cpu/allocator.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

namespace {

// The L2 cache holds this many bytes of the left matrix. A caller gets results in blocks of the
// second size.
constexpr Index left_bytes = 240 * panel_pitch * 4, finished_bytes = Index{1} << 17;

}  // namespace

template <class T>
void PanelProducts<T>::pack_block(T* to, const Matrix& b) const {
  constexpr Index size = sizeof(T);
  for (Index column = 0; column < b.columns; column += panel(), to += b.rows * panel()) {
    const Index columns = std::min(panel(), b.columns - column);
    const Matrix part = b.part(0, b.rows, column, columns, size);
    if (columns < panel()) std::memset(to, 0, static_cast<std::size_t>(b.rows * panel() * size));
    if (part.column_step == 1 && columns == panel()) {
      for (Index p = 0; p < b.rows; ++p)
        std::memcpy(to + p * panel(), part.data + p * part.row_step * size, static_cast<std::size_t>(panel() * size));
    } else {
      copy_tile(reinterpret_cast<char*>(to), panel() * size, size, part.data, part.row_step * size,
                part.column_step * size, b.rows, columns, size);
    }
  }
}

template <class T>
void PanelProducts<T>::pack(T* to, const Matrix& b) const {
  const Index each = terms_of_block(b.rows);
  for (Index first = 0; first < b.rows; first += each) {
    const Index terms = std::min(each, b.rows - first);
    pack_block(to, b.part(first, terms, 0, b.columns, sizeof(T)));
    to += terms * padded(b.columns);
  }
}

template <class T>
void PanelProducts<T>::multiply_block(T* out, Index out_step, const T* a, Index a_step, Index rows, const T* x,
                                      const Index* offsets, Index terms, Index columns, bool accumulate) const {
  const Index blocks = (rows + kernel_.rows - 1) / kernel_.rows;
  for (Index block = 0; block < blocks; ++block) {
    const Index first = rows * block / blocks, count = rows * (block + 1) / blocks - first;
    multiply_[count - 1](out + first * out_step, out_step, a + first * a_step, a_step, x, offsets, terms, columns,
                         accumulate);
  }
}

template <class T>
void PanelProducts<T>::multiply(T* out, Index out_step, const Matrix& a, const Matrix& b, const Packed& packed,
                                const Finished* finished, Index index) const {
  constexpr Index size = sizeof(T), rows_at_once = left_bytes / (panel_pitch * size);
  const Index each = terms_of_block(b.rows), columns = padded(b.columns);
  Index offsets[panel_terms];
  for (Index p = 0; p < each; ++p) offsets[p] = p * panel();
  const Index held = std::min(rows_at_once, a.rows);
  const bool in_place = reads_rows(a.row_step, a.column_step);
  const Index of_copy = in_place ? 0 : held * panel_pitch, of_right = packed.data ? 0 : each * columns;
  T* const copy = static_cast<T*>(thread_workspace(static_cast<std::size_t>((of_copy + of_right) * size)));
  T* const right = copy + of_copy;
  for (Index first = 0; first < b.rows; first += each) {
    const Index terms = std::min(each, b.rows - first);
    const T* x = right;
    if (packed.data) x = packed.data + first * packed.padded + packed.column * terms;
    else pack_block(right, b.part(first, terms, 0, b.columns, size));
    for (Index row = 0; row < a.rows; row += held) {
      const Index rows = std::min(held, a.rows - row);
      const Matrix part = a.part(row, rows, first, terms, size);
      if (!in_place)
        copy_tile(reinterpret_cast<char*>(copy), panel_pitch * size, size, part.data, part.row_step * size,
                  part.column_step * size, rows, terms, size);
      const T* const left = in_place ? reinterpret_cast<const T*>(part.data) : copy;
      const Index most = std::max<Index>(1, finished_bytes / (rows * panel() * size)) * panel();
      for (Index done = 0; done < b.columns; done += most) {
        const Index end = std::min(done + most, b.columns);
        for (Index column = done; column < end; column += panel())
          multiply_block(out + row * out_step + column, out_step, left, in_place ? a.row_step : panel_pitch, rows,
                         x + column * terms, offsets, terms, std::min(panel(), end - column), first > 0);
        if (finished && first + terms == b.rows) (*finished)(index + row * out_step + done, rows, out_step, end - done);
      }
    }
  }
}

template class PanelProducts<float>;
template class PanelProducts<double>;

}  // namespace stave_cpu
