// Convolution, pooling, normalisation, losses and attention against PyTorch, JAX and Optax.
#include "oracle.h"

namespace oracle_network_test {

using namespace oracle;

using Map = std::map<std::string, Function>;

PerAxis per_axis(const Options& o, const std::string& name, PerAxis otherwise = 1) {
  const std::vector<Index> list = o.list(name);
  return list.empty() ? otherwise : list.size() == 1 ? PerAxis(list[0]) : PerAxis(Shape(list));
}
Padding padding_of(const Options& o) {
  if (o.has("low")) return Padding(Shape(o.list("low")), Shape(o.list("high")));
  const std::vector<Index> list = o.list("padding");
  return list.empty() ? Padding(0) : list.size() == 1 ? Padding(list[0]) : Padding(Shape(list), Shape(list));
}
Reduction reduction_of(const Options& o) {
  if (!o.has("reduction")) return Reduction::mean;
  return o.word("reduction") == "none"  ? Reduction::none
         : o.word("reduction") == "sum" ? Reduction::sum
                                        : Reduction::mean;
}
Axes axes_of(const Options& o) { return o.has("axes") ? Axes(o.list("axes")) : Axes(-1); }
Tensor at(Given x, std::size_t i) { return i < x.size() ? x[i] : Tensor(); }
Tensor class_weights(Given x, const Options& o) {
  return o.has("weighted") ? tensor({0.5, 2., 1.5}, x[0].dtype()) : Tensor();
}
PoolOptions pool_options(const Options& o) {
  return {.stride = per_axis(o, "stride", {}), .padding = padding_of(o), .dilation = per_axis(o, "dilation")};
}
std::optional<Index> index_of(const Options& o, const std::string& name) {
  return o.has(name) ? std::optional(o.index(name, 0)) : std::nullopt;
}

Map windows() {
  return {{"conv",
           [](Given x, const Options& o) {
             return Results{conv(x[0], x[1],
                                 {.stride = per_axis(o, "stride"),
                                  .padding = padding_of(o),
                                  .dilation = per_axis(o, "dilation"),
                                  .input_dilation = per_axis(o, "input_dilation"),
                                  .groups = o.index("groups", 1)})};
           }},
          {"conv_transpose",
           [](Given x, const Options& o) {
             return Results{conv_transpose(x[0], x[1],
                                           {.stride = per_axis(o, "stride"),
                                            .padding = padding_of(o),
                                            .output_padding = per_axis(o, "output_padding", 0),
                                            .dilation = per_axis(o, "dilation"),
                                            .groups = o.index("groups", 1)})};
           }},
          {"max_pool",
           [](Given x, const Options& o) { return Results{max_pool(x[0], per_axis(o, "window"), pool_options(o))}; }},
          {"avg_pool", [](Given x, const Options& o) {
             return Results{avg_pool(
                 x[0], per_axis(o, "window"),
                 {.stride = per_axis(o, "stride", {}), .padding = padding_of(o), .count_include_pad = !o.has("own")})};
           }}};
}

Map normalisation() {
  return {
      {"layer_norm",
       [](Given x, const Options& o) {
         return Results{layer_norm(
             x[0], {.weight = at(x, 1), .bias = at(x, 2), .epsilon = o.number("epsilon", 1e-5), .axes = axes_of(o)})};
       }},
      {"rms_norm", [](Given x, const Options&) { return Results{rms_norm(x[0], {.weight = x[1]})}; }},
      {"group_norm",
       [](Given x, const Options& o) {
         return Results{group_norm(x[0], o.index("groups", 1), {.weight = x[1], .bias = x[2]})};
       }},
      {"batch_statistics",
       [](Given x, const Options& o) {
         const BatchStatistics now = batch_norm(x[0], {x[1], x[2]}, {.momentum = o.number("momentum", 0)}).second;
         return Results{now.mean, now.variance};
       }},
      {"batch_norm",
       [](Given x, const Options&) {
         const BatchStatistics start{zeros_like(x[1]), ones_like(x[1])};
         return Results{batch_norm(x[0], start, {.weight = x[1], .bias = x[2]}).first};
       }},
      {"batch_norm_inference",
       [](Given x, const Options&) {
         return Results{batch_norm_inference(x[0], {x[1], x[2]}, {.weight = x[3], .bias = x[4]})};
       }},
      {"normalize", [](Given x, const Options& o) { return Results{normalize(x[0], {.axes = axes_of(o)})}; }},
      {"embedding",
       [](Given x, const Options& o) { return Results{embedding(x[0], x[1], {.padding = index_of(o, "padding")})}; }},
      {"softmax", [](Given x, const Options& o) { return Results{softmax(x[0], o.index("axis", -1))}; }},
      {"log_softmax", [](Given x, const Options& o) { return Results{log_softmax(x[0], o.index("axis", -1))}; }}};
}

Map losses() {
  return {
      {"cross_entropy",
       [](Given x, const Options& o) {
         return Results{cross_entropy(x[0], x[1],
                                      {.axis = o.index("axis", -1),
                                       .label_smoothing = o.number("smoothing", 0),
                                       .ignored = index_of(o, "ignored"),
                                       .weights = class_weights(x, o),
                                       .reduction = reduction_of(o)})};
       }},
      {"nll_loss",
       [](Given x, const Options& o) { return Results{nll_loss(x[0], x[1], {.weights = class_weights(x, o)})}; }},
      {"mse_loss", [](Given x, const Options&) { return Results{mse_loss(x[0], x[1])}; }},
      {"mae_loss", [](Given x, const Options&) { return Results{mae_loss(x[0], x[1])}; }},
      {"huber_loss",
       [](Given x, const Options& o) {
         return Results{huber_loss(x[0], x[1], {.delta = o.number("delta", 1), .reduction = reduction_of(o)})};
       }},
      {"smooth_l1_loss",
       [](Given x, const Options& o) { return Results{smooth_l1_loss(x[0], x[1], {.beta = o.number("beta", 1)})}; }},
      {"binary_cross_entropy", [](Given x, const Options&) { return Results{binary_cross_entropy(x[0], x[1])}; }},
      {"binary_cross_entropy_with_logits",
       [](Given x, const Options& o) {
         BinaryCrossEntropyOptions options;
         if (o.has("weighted")) {
           options.weights = tensor({0.5, 2., 1.}, x[0].dtype());
           options.positive_weight = tensor({3., 0.25, 1.}, x[0].dtype());
         }
         return Results{binary_cross_entropy_with_logits(x[0], x[1], options)};
       }},
      {"kl_divergence", [](Given x, const Options&) { return Results{kl_divergence(x[0], x[1])}; }},
      {"cosine_similarity", [](Given x, const Options&) { return Results{cosine_similarity(x[0], x[1])}; }},
      {"hinge_loss", [](Given x, const Options&) { return Results{hinge_loss(x[0], x[1])}; }}};
}

Results attention(Given x, const Options& o) {
  AttentionOptions options{.mask = at(x, 3), .causal = o.has("causal")};
  if (o.has("scale")) options.scale = o.number("scale", 1);
  return {scaled_dot_product_attention(x[0], x[1], x[2], options)};
}

TEST(Oracle, Network) {
  Map all = {{"attention", attention}};
  for (const Map& family : {windows(), normalisation(), losses()}) all.insert(family.begin(), family.end());
  check_oracle("oracle_network.txt", all, 8);
}

}  // namespace oracle_network_test
