// The kernel of softmax, log_softmax and logsumexp, as a body that runs on the device and on
// the host (see softmax_plan.h).
//
// The accuracy is that of the CPU backend. The weight exp(x - max) is computed in T. Weights of
// float32 are summed in double, and weights of float64 with the accumulated rounding errors. The
// logarithm of a sum is computed as log1p(sum - 1). sum - 1 is summed separately, because it alone
// determines the result if the sum is near 1. If all elements are -inf, 0 is subtracted instead of
// the maximum, so that the sum of a part is 0 and not NaN. In logsumexp, elements that equal the
// maximum have weight 1, so that the result is infinite if the maximum is. E is the type of an
// element in memory and T the type of the arithmetic, which is float32 for float16 and bfloat16.
#pragma once

#include <stave/backends/cuda/softmax_plan.h>
#include <stave/backends/cuda/kernels/block.cuh>
#include <stave/backends/cuda/kernels/fold.cuh>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

// ---- sums of weights --------------------------------------------------------------------------

/// A sum of weights in two parts, so that small weights beside a weight of 1 are not rounded away.
/// For float, the parts are the sum of the weights that are 1 and the sum of the others. For
/// double, they are the sum and its accumulated rounding error.
template <class T>
struct WeightSum {
  double ones, others;
  STAVE_BOTH static WeightSum none() { return {0, 0}; }
  STAVE_BOTH void add(T weight) { (weight == T(1) ? ones : others) += static_cast<double>(weight); }
  STAVE_BOTH void add(WeightSum other) {
    ones += other.ones;
    others += other.others;
  }
  STAVE_BOTH WeightSum times(double factor) const {
    return factor == 1 ? *this : WeightSum{0, (ones + others) * factor};
  }
  STAVE_BOTH double value() const { return ones + others; }
  /// Returns the value minus 1.
  STAVE_BOTH double rest() const { return (ones - 1) + others; }
};
template <>
struct WeightSum<double> {
  WithLost sum;
  STAVE_BOTH static WeightSum none() { return {{0, 0}}; }
  STAVE_BOTH void add(double weight) { sum.add(weight); }
  STAVE_BOTH void add(WeightSum other) { sum.add(other.sum); }
  STAVE_BOTH WeightSum times(double factor) const { return {{sum.sum * factor, sum.lost * factor}}; }
  STAVE_BOTH double value() const { return sum.value(); }
  STAVE_BOTH double rest() const { return sum.sum - sum.sum == 0 ? (sum.sum - 1) + sum.lost : sum.sum; }
};

/// The total of a part of a row: its largest element and the sum of exp(x - max).
template <class T>
struct SoftmaxTotal {
  T max;
  WeightSum<T> sum;
};

template <class T>
STAVE_BOTH T exponential(T x) {
  return exp(Lane<T>(x)).value;
}
/// Returns the larger of x and max, or max if x is NaN. The exponential of NaN makes the sum NaN
/// anyway.
template <class T>
STAVE_BOTH T larger_of(T x, T max) {
  return x > max ? x : max;
}
template <class T>
STAVE_BOTH T subtracted_for(T max) {
  return max == lowest_of_all<T>() ? T(0) : max;
}
/// Returns exp(x - max).
template <class T>
STAVE_BOTH T weight_of(T x, T max, bool reduces) {
  if (reduces) return x == max ? T(1) : exponential(x - max);
  return exponential(x - subtracted_for(max));
}
/// Returns the factor that turns a sum of exp(x - from) into one of exp(x - max).
template <class T>
STAVE_BOTH double rescaling(T from, T max) {
  if (from == max) return 1;
  return exponential(static_cast<double>(from) - static_cast<double>(subtracted_for(max)));
}

// ---- the result -------------------------------------------------------------------------------

/// Computes results from weights or, with `logarithm`, from elements. For float the inverse of the
/// sum is stored in two parts, `first` and `second`, because the rounding error of one float would
/// change all results of a row in the same direction.
template <class T>
struct SoftmaxFinisher {
  T subtracted, first, second;
  bool logarithm;

  STAVE_BOTH SoftmaxFinisher(T max, WeightSum<T> sum, bool logarithm)
      : subtracted(subtracted_for(max)), second(0), logarithm(logarithm) {
    if (logarithm) {
      first = static_cast<T>(log1p(Lane<double>(sum.rest())).value);
    } else if constexpr (sizeof(T) == 8) {
      first = sum.value();
    } else {
      const double inverse = 1 / sum.value();
      first = static_cast<T>(inverse);
      second = static_cast<T>(inverse - static_cast<double>(first));
    }
  }
  /// Returns the result for a number that a resident tile holds: a weight, or an element with
  /// `logarithm`.
  STAVE_BOTH T finished(T kept) const {
    if (logarithm) return (kept - subtracted) - first;
    if constexpr (sizeof(T) == 8) return kept / first;
    else return fma(Lane<T>(kept), Lane<T>(first), Lane<T>(kept * second)).value;
  }
  STAVE_BOTH T of(T x) const { return finished(logarithm ? x : exponential(x - subtracted)); }
};

// ---- the elements of a thread -----------------------------------------------------------------

template <class T>
struct SoftmaxShared {
  // The number of items of a thread.
  static constexpr unsigned items = softmax_tile_bytes / sizeof(T) / block_threads;
  // Item k of thread t is kept[k * block_threads + t]. Neighbouring threads access neighbouring
  // numbers, which avoids bank conflicts.
  T kept[items * block_threads];
  T own[block_threads];  // the maximum of a thread's own elements
  T max[block_threads];
  WeightSum<T> sum[block_threads];
};

/// The number of elements that a thread loads before it uses the first of them.
inline constexpr unsigned softmax_loads = 8;

/// The elements of a row, or of a part of a row, that one thread processes.
template <class E>
struct SoftmaxLane {
  using T = stave::Computed<E>;
  const E* in;
  E* out;
  Index in_step, out_step;
  Index first, last, stride;  // The thread has elements first, first + stride, ... before last.

  STAVE_BOTH SoftmaxLane(const SoftmaxArgs& args, Index row, Index part, unsigned lane)
      : in_step(args.in_step), out_step(args.out_step), stride(args.lanes()) {
    const Offsets<2> at = args.rows(static_cast<std::uint64_t>(row));
    in = static_cast<const E*>(args.in) + at[0];
    out = static_cast<E*>(args.out) + at[1];
    first = part * args.per_part + lane;
    last = least_of((part + 1) * args.per_part, args.length);
  }

  /// Calls f(loaded, number) for each softmax_loads successive elements of the thread, where
  /// `number` counts the elements of the thread before them. Past the last element, -inf is loaded.
  template <class F>
  STAVE_BOTH void read(F f) const {
    unsigned number = 0;
    STAVE_UNROLL(1)
    for (Index i = first; i < last; i += softmax_loads * stride, number += softmax_loads) {
      T loaded[softmax_loads];
      STAVE_UNROLL(softmax_loads)
      for (unsigned k = 0; k < softmax_loads; ++k)
        loaded[k] = i + k * stride < last ? computed(in[(i + k * stride) * in_step]) : lowest_of_all<T>();
      f(loaded, number);
    }
  }
  STAVE_BOTH void write(unsigned number, T y) const {
    const Index i = first + number * stride;
    if (i < last) out[i * out_step] = element_of<E>(y);
  }
  STAVE_BOTH unsigned count() const {
    return first < last ? static_cast<unsigned>((last - first + stride - 1) / stride) : 0;
  }
};

template <class T>
STAVE_BOTH T largest_of(const T (&x)[softmax_loads]) {
  T max = x[0];
  STAVE_UNROLL(softmax_loads)
  for (unsigned k = 1; k < softmax_loads; ++k) max = larger_of(x[k], max);
  return larger_of(max, lowest_of_all<T>());  // x[0] may be NaN
}

/// Computes the total of a thread's elements in one pass. During the pass the sum is that of
/// exp(x - max) for the maximum so far.
template <class E>
STAVE_BOTH SoftmaxTotal<stave::Computed<E>> online_total(const SoftmaxLane<E>& lane, bool reduces) {
  using T = stave::Computed<E>;
  SoftmaxTotal<T> total{lowest_of_all<T>(), WeightSum<T>::none()};
  lane.read([&](const T(&x)[softmax_loads], unsigned) {
    const T max = larger_of(largest_of(x), total.max);
    if (max > total.max) total.sum = total.sum.times(rescaling(total.max, max));
    total.max = max;
    STAVE_UNROLL(softmax_loads)
    for (unsigned k = 0; k < softmax_loads; ++k) total.sum.add(weight_of(x[k], max, reduces));
  });
  return total;
}

// ---- the body ---------------------------------------------------------------------------------

/// The work on one tile of rows, or on one part of these rows.
template <class E, class Block>
struct SoftmaxTile {
  using T = stave::Computed<E>;
  const Block& block;
  const SoftmaxArgs& args;
  SoftmaxStage stage;
  SoftmaxShared<T>& shared;
  Lanes lanes;
  Index first_row, part;

  STAVE_BOTH Index row(unsigned t) const { return first_row + lanes.output(t); }
  STAVE_BOTH bool resident() const { return args.resident; }
  STAVE_BOTH SoftmaxTotal<T>* partials(unsigned t) const {
    return static_cast<SoftmaxTotal<T>*>(args.partials) + row(t);
  }
  STAVE_BOTH SoftmaxLane<E> lane(unsigned t) const { return {args, row(t), part, lanes.lane(t)}; }

  /// Calls f(total) for the totals of the parts, in thread t's row, that thread t merges.
  template <class F>
  STAVE_BOTH void for_partials(unsigned t, F f) const {
    STAVE_UNROLL(1)
    for (Index p = lanes.lane(t); p < args.parts; p += args.lanes()) f(partials(t)[p * args.row_count]);
  }

  /// Finds the maximum of each thread's elements and, if the tile is
  /// not resident, their sum as well.
  STAVE_BOTH void find_maxima() const {
    block.for_threads([&](unsigned t) {
      SoftmaxTotal<T> total{lowest_of_all<T>(), WeightSum<T>::none()};
      if (row(t) < args.row_count) {
        if (stage == SoftmaxStage::finish) {
          for_partials(t, [&](const SoftmaxTotal<T>& of) { total.max = larger_of(of.max, total.max); });
        } else if (!resident()) {
          total = online_total(lane(t), args.reduces);
        } else {
          lane(t).read([&](const T(&x)[softmax_loads], unsigned number) {
            STAVE_UNROLL(softmax_loads)
            for (unsigned k = 0; k < softmax_loads; ++k) shared.kept[(number + k) * block_threads + t] = x[k];
            total.max = larger_of(largest_of(x), total.max);
          });
        }
      }
      shared.own[t] = shared.max[t] = total.max;
      shared.sum[t] = total.sum;
    });
    merge_lanes(block, lanes,
                [&](unsigned t, unsigned other) { shared.max[t] = larger_of(shared.max[other], shared.max[t]); });
  }

  /// Computes the sum of exp(x - max) of each row, where max is the maximum of the row. In a
  /// resident tile the weights replace the elements, unless the logarithm is computed.
  STAVE_BOTH void find_sums() const {
    block.for_threads([&](unsigned t) {
      if (row(t) >= args.row_count) return;
      const T max = shared.max[lanes.first(t)];
      WeightSum<T> sum = WeightSum<T>::none();
      if (stage == SoftmaxStage::finish) {
        for_partials(t, [&](const SoftmaxTotal<T>& of) { sum.add(of.sum.times(rescaling(of.max, max))); });
      } else if (!resident()) {
        sum = shared.sum[t].times(rescaling(shared.own[t], max));
      } else {
        const unsigned count = lane(t).count();
        STAVE_UNROLL(softmax_loads)
        for (unsigned k = 0; k < count; ++k) {
          T& kept = shared.kept[k * block_threads + t];
          const T weight = weight_of(kept, max, args.reduces);
          if (!args.logarithm) kept = weight;
          sum.add(weight);
        }
      }
      shared.sum[t] = sum;
    });
    merge_lanes(block, lanes, [&](unsigned t, unsigned other) { shared.sum[t].add(shared.sum[other]); });
  }

  STAVE_BOTH void write() const {
    block.for_threads([&](unsigned t) {
      if (row(t) >= args.row_count) return;
      const T max = shared.max[lanes.first(t)];
      const WeightSum<T> sum = shared.sum[lanes.first(t)];
      if (stage == SoftmaxStage::partials) {
        if (lanes.lane(t) == 0) partials(t)[part * args.row_count] = {max, sum};
        return;
      }
      const SoftmaxLane<E> to = lane(t);
      if (args.reduces) {
        if (lanes.lane(t) == 0 && part == 0)
          *to.out = element_of<E>(static_cast<T>(static_cast<double>(max) + log1p(Lane<double>(sum.rest())).value));
        return;
      }
      const SoftmaxFinisher<T> result(max, sum, args.logarithm);
      if (resident()) {
        const unsigned count = to.count();
        STAVE_UNROLL(softmax_loads)
        for (unsigned k = 0; k < count; ++k) to.write(k, result.finished(shared.kept[k * block_threads + t]));
      } else {
        to.read([&](const T(&x)[softmax_loads], unsigned number) {
          STAVE_UNROLL(softmax_loads)
          for (unsigned k = 0; k < softmax_loads; ++k) to.write(number + k, result.of(x[k]));
        });
      }
    });
  }
};

template <class E, class Block>
STAVE_BOTH void softmax_body(const Block& block, const SoftmaxArgs& args, SoftmaxStage stage,
                             SoftmaxShared<stave::Computed<E>>& shared) {
  const Lanes lanes{args.lane_bits, args.columns};
  STAVE_UNROLL(1)
  for (Index task = block.index(); task < args.tasks(); task += block.count()) {
    // Tasks are numbered so that neighbouring tasks read neighbouring memory.
    const Index part = args.parts == 1 ? 0 : args.columns ? task / args.tiles : task % args.parts;
    const Index tile = args.parts == 1 ? task : args.columns ? task % args.tiles : task / args.parts;
    const SoftmaxTile<E, Block> on{block, args, stage, shared, lanes, tile * lanes.outputs(), part};
    on.find_maxima();
    on.find_sums();
    on.write();
  }
}

}  // namespace stave_cuda
