// Tests the bodies of the kernels of convolutions and pooling, executed on the host,
// against the CPU backend.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/backends/cuda/kernels/convolution.cuh>

#include "cuda/on_host.h"

namespace stave_cuda {
namespace {

using stave::ConvolutionAttributes, stave::OpId, stave::PoolAttributes, stave::Shape, stave::Strides;

void run_on_cpu(OpId op, const stave::Attributes& attributes, const std::vector<View>& in, const Buffer& out) {
  const View view = out.view();
  stave::cpu_backend().run(record_of(op), &attributes, in, {&view, 1});
}

struct Case {
  Shape x, w, stride, low, high, dilation, apart;
  Strides x_strides = contiguous_strides(x);
};
Index results(Index length, Index window, Index stride, Index low, Index high, Index dilation, Index apart) {
  return ((length - 1) * apart + 1 + low + high - (window - 1) * dilation - 1) / stride + 1;
}
const std::vector<Case> cases = {
    {{3, 2, 2, 9}, {2, 3, 2, 3}, {2}, {1}, {2}, {2}, {1}},
    {{3, 2, 2, 9}, {2, 3, 2, 3}, {1}, {-2}, {3}, {1}, {3}},
    {{2, 1, 3, 7, 8}, {1, 5, 3, 3, 2}, {1, 2}, {1, 0}, {1, 0}, {1, 2}, {1, 1}},
    {{2, 1, 3, 7, 8}, {1, 5, 3, 3, 2}, {1, 1}, {1, 2}, {0, 2}, {1, 1}, {2, 2}},
    {{40, 1, 2, 4, 4}, {1, 3, 2, 3, 3}, {1, 1}, {0, 1}, {0, 1}, {1, 1}, {1, 1}},
    {{2, 1, 2, 3, 4, 5}, {1, 2, 2, 2, 2, 3}, {1, 2, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 2}, {2, 1, 1}},
    {{2, 2, 2, 6, 5}, {2, 1, 2, 2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, {1, 1}, {2, 4, 8, 80, -16}}};

TEST(Convolution, WindowMatrixTimesWeightsEqualsTheCpu) {
  std::mt19937_64 random(1);
  int inside = 0;
  for (const Case& c : cases) {
    const std::size_t axes = c.stride.size();
    Shape shape{c.x[0], c.x[1], c.w[1]};
    for (std::size_t i = 0; i < axes; ++i)
      shape.push_back(results(c.x[3 + i], c.w[3 + i], c.stride[i], c.low[i], c.high[i], c.dilation[i], c.apart[i]));
    const ConvolutionAttributes attributes(c.stride, c.low, c.high, c.dilation, c.apart);
    Buffer x(stave::int64, c.x, c.x_strides), w(stave::int64, c.w), expected(stave::int64, shape);
    for (Buffer* buffer : {&x, &w})
      for (std::size_t i = 0; i < buffer->elements(); ++i)
        buffer->data<std::int64_t>()[i] = static_cast<std::int64_t>(random() % 19) - 9;
    run_on_cpu(OpId::convolution, attributes, {x.view(), w.view()}, expected);

    const ConvolutionPlan plan(attributes, x.view(), w.view(), expected.view());
    const Index k = plan.terms(), places = plan.places(), groups = plan.groups(), o = plan.results();
    for (const Index count : {plan.n(), Index{1}})
      for (Index first = 0; first < plan.n(); first += count) {
        Buffer panel(stave::int64, {count, groups, k, places});
        const WindowLoop loop = plan.loop(panel.view().data, first, count);
        ASSERT_EQ(loop.elements, panel.elements());
        for_each_thread(blocks_for(loop.elements), [&](Position p) { im2col<std::uint64_t>(loop, p); });
        EXPECT_TRUE(panel.guards_are_whole());
        inside += plan.images_inside();
        for (Index n = 0; n < count; ++n)
          for (Index g = 0; g < groups; ++g)
            for (Index r = 0; r < o; ++r)
              for (Index p = 0; p < places; ++p) {
                std::int64_t sum = 0;
                for (Index t = 0; t < k; ++t) {
                  const Index at = plan.images_inside() ? ((g * k + t) * count + n) * places + p
                                                        : ((n * groups + g) * k + t) * places + p;
                  sum += w.at<std::int64_t>((g * o + r) * k + t) * panel.at<std::int64_t>(at);
                }
                const Index at = (((first + n) * groups + g) * o + r) * places + p;
                ASSERT_EQ(sum, expected.at<std::int64_t>(at)) << c.x.str() << c.w.str() << " at " << at;
              }
      }
  }
  EXPECT_GT(inside, 0);
}

TEST(ArgmaxPool, EqualsTheCpu) {
  std::mt19937_64 random(1);
  struct PoolCase {
    Shape x, window, stride, low, high, dilation;
  };
  for (const auto& [shape, window, stride, low, high, dilation] :
       {PoolCase{{3, 19}, {3}, {2}, {1}, {1}, {1}}, PoolCase{{2, 3, 9, 8}, {3, 2}, {1, 2}, {1, 0}, {1, 1}, {2, 1}},
        PoolCase{{5, 4, 6}, {2, 3, 2}, {1, 1, 2}, {0, 1, -1}, {1, 0, 0}, {1, 1, 1}}})
    for (int d = 0; d < stave::real_dtype_count; ++d)
      for (const stave::Dtype position : {stave::int32, stave::int64}) {
        const auto dtype = static_cast<stave::Dtype>(d);
        Buffer x(dtype, shape);
        stave::visit_real_dtype(dtype, [&](auto zero) { fill_with_values<decltype(zero)>(x, random); });
        Shape result = shape;
        for (std::size_t i = 0; i < window.size(); ++i) {
          const std::size_t axis = shape.size() - window.size() + i;
          result[axis] = results(shape[axis], window[i], stride[i], low[i], high[i], dilation[i], 1);
        }
        const PoolAttributes attributes(window, stride, low, high, dilation);
        Buffer got(position, result), expected(position, result);
        run_on_cpu(OpId::argmax_pool, attributes, {x.view()}, expected);
        const PoolLoop loop = pool_loop(attributes, x.view(), got.view());
        stave::visit_real_dtype(dtype, [&](auto zero) {
          for_each_thread(blocks_for(loop.elements), [&](Position p) { find_largest<decltype(zero)>(loop, p); });
        });
        EXPECT_TRUE(got.guards_are_whole());
        EXPECT_EQ(std::memcmp(got.view().data, expected.view().data, got.elements() * stave::size_of(position)), 0)
            << name_of(dtype) << shape.str();
      }
}

}  // namespace
}  // namespace stave_cuda
