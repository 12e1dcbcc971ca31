// Reductions, scans, sorting, searching, indexing,
// rearranging and products against NumPy, JAX and PyTorch.
#include "oracle.h"

namespace oracle_arrays_test {

using namespace oracle;

using Map = std::map<std::string, Function>;

Axes axes_of(const Options& o) { return o.has("axes") ? Axes(o.list("axes")) : all_axes; }
KeepDims keep_of(const Options& o) { return KeepDims(o.has("keepdims")); }

// A macro, because overloads and default arguments are resolved where
// the function is called by name.
#define REDUCTION(f)                                                                              \
  {                                                                                               \
    #f, [](Given x, const Options& o) { return Results{stave::f(x[0], axes_of(o), keep_of(o))}; } \
  }
#define VARIANCE(f)                                                                      \
  {                                                                                      \
    #f, [](Given x, const Options& o) {                                                  \
      return Results{stave::f(x[0], axes_of(o), keep_of(o), o.number("correction", 0))}; \
    }                                                                                    \
  }
#define SCAN(f)                                                                          \
  {                                                                                      \
    #f, [](Given x, const Options& o) {                                                  \
      return Results{stave::f(x[0], o.index("axis", 0), {.reverse = o.has("reverse")})}; \
    }                                                                                    \
  }
#define SUM_SCAN(f)                                                                                         \
  {                                                                                                         \
    #f, [](Given x, const Options& o) {                                                                     \
      return Results{stave::f(x[0], o.index("axis", 0),                                                     \
                              {.include_initial = o.has("include_initial"), .reverse = o.has("reverse")})}; \
    }                                                                                                       \
  }
#define ALONG(f)                                                                              \
  {                                                                                           \
    #f, [](Given x, const Options& o) { return Results{stave::f(x[0], o.index("axis", 0))}; } \
  }
#define SORT(f)                                                                                \
  {                                                                                            \
    #f, [](Given x, const Options& o) {                                                        \
      return Results{stave::f(x[0], o.index("axis", 0), {.descending = o.has("descending")})}; \
    }                                                                                          \
  }
#define OF_TWO(f)                                                             \
  {                                                                           \
    #f, [](Given x, const Options&) { return Results{stave::f(x[0], x[1])}; } \
  }
#define OF_THREE(f)                                                                 \
  {                                                                                 \
    #f, [](Given x, const Options&) { return Results{stave::f(x[0], x[1], x[2])}; } \
  }
#define SEGMENTS(f)                                                                                  \
  {                                                                                                  \
    #f, [](Given x, const Options& o) { return Results{stave::f(x[0], x[1], o.index("count", 0))}; } \
  }
#define TRIANGLE(f)                                                                        \
  {                                                                                        \
    #f, [](Given x, const Options& o) { return Results{stave::f(x[0], o.index("k", 0))}; } \
  }

template <class Pair>
Results both(const Pair& pair) {
  return {pair.first, pair.second};
}
Shape shape_of(const Options& o, const std::string& name) { return Shape(o.list(name)); }

Map reductions() {
  return {REDUCTION(sum), REDUCTION(prod), REDUCTION(mean),      REDUCTION(max),  REDUCTION(min),
          REDUCTION(all), REDUCTION(any),  REDUCTION(logsumexp), REDUCTION(norm), REDUCTION(count_nonzero),
          VARIANCE(var),  VARIANCE(std),   ALONG(argmax),        ALONG(argmin)};
}

Map scans() {
  return {SUM_SCAN(cumulative_sum), SUM_SCAN(cumulative_prod), SCAN(cummax), SCAN(cummin), SCAN(logcumsumexp)};
}

Map ordering() {
  return {SORT(sort),
          SORT(argsort),
          {"topk", [](Given x, const Options& o) { return both(topk(x[0], o.index("k", 0))); }},
          {"searchsorted",
           [](Given x, const Options& o) { return Results{searchsorted(x[0], x[1], {.right = o.has("right")})}; }},
          OF_TWO(isin),
          {"unique_values", [](Given x, const Options&) { return Results{unique_values(x[0])}; }},
          {"unique_counts", [](Given x, const Options&) { return both(unique_counts(x[0])); }},
          {"unique_inverse", [](Given x, const Options&) { return both(unique_inverse(x[0])); }},
          {"bincount",
           [](Given x, const Options& o) {
             const Index length = o.index("length", 0);
             return Results{x.size() == 1 ? bincount(x[0], length) : bincount(x[0], length, x[1])};
           }},
          OF_TWO(histogram),
          {"nonzero", [](Given x, const Options&) { return nonzero(x[0]); }},
          OF_THREE(interp),
          {"trapezoid", [](Given x, const Options&) { return Results{trapezoid(x[0], x[1])}; }},
          {"diff", [](Given x, const Options& o) { return Results{diff(x[0], o.index("n", 1))}; }}};
}

Map indices() {
  return {{"take", [](Given x, const Options& o) { return Results{take(x[0], x[1], o.index("axis", 0))}; }},
          {"take_along_axis",
           [](Given x, const Options& o) { return Results{take_along_axis(x[0], x[1], o.index("axis", 0))}; }},
          {"put_along_axis",
           [](Given x, const Options& o) { return Results{put_along_axis(x[0], x[1], x[2], o.index("axis", 0))}; }},
          SEGMENTS(segment_sum),
          SEGMENTS(segment_prod),
          SEGMENTS(segment_max),
          SEGMENTS(segment_min),
          OF_TWO(gather),
          OF_THREE(scatter_add),
          OF_THREE(scatter_multiply),
          OF_THREE(scatter_min),
          OF_THREE(scatter_max),
          {"one_hot", [](Given x, const Options& o) { return Results{one_hot(x[0], o.index("n", 0))}; }},
          {"dynamic_slice",
           [](Given x, const Options& o) { return Results{dynamic_slice(x[0], x[1], shape_of(o, "sizes"))}; }}};
}

Map layouts() {
  return {
      TRIANGLE(tril),
      TRIANGLE(triu),
      TRIANGLE(diagonal),
      TRIANGLE(trace),
      TRIANGLE(diag),
      {"roll",
       [](Given x, const Options& o) { return Results{roll(x[0], shape_of(o, "shifts"), shape_of(o, "axes"))}; }},
      {"flip", [](Given x, const Options& o) { return Results{flip(x[0], axes_of(o))}; }},
      {"tile", [](Given x, const Options& o) { return Results{tile(x[0], shape_of(o, "counts"))}; }},
      {"repeat", [](Given x, const Options& o) { return Results{repeat(x[0], o.list("counts"), o.index("axis", 0))}; }},
      {"moveaxis",
       [](Given x, const Options& o) {
         return Results{moveaxis(x[0], shape_of(o, "sources"), shape_of(o, "destinations"))};
       }},
      {"pad",
       [](Given x, const Options& o) {
         const std::vector<Index> w = o.list("widths");
         return Results{pad(x[0], {{w[0], w[1]}, {w[2], w[3]}}, 7)};
       }},
      {"meshgrid", [](Given x, const Options&) {
         return meshgrid({x[0], x[1]});
       }}};
}

Map products() {
  return {OF_TWO(matmul),
          {"tensordot",
           [](Given x, const Options&) {
             return Results{tensordot(x[0], x[1], {0, 2}, {1, 0})};
           }},
          {"einsum",
           [](Given x, const Options& o) {
             return Results{einsum(o.word("subscripts"), std::vector<Tensor>(x.begin(), x.end()))};
           }},
          OF_TWO(outer)};
}

TEST(Oracle, Arrays) {
  Map all;
  for (const Map& family : {reductions(), scans(), ordering(), indices(), layouts(), products()})
    all.insert(family.begin(), family.end());
  check_oracle("oracle_arrays.txt", all, 4);
}

}  // namespace oracle_arrays_test
