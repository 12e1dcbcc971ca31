// The list of the bars (bars.h).
#include "bars.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "numbers.h"
#include "operations.h"

namespace stave_bench {
namespace {

double first(Times t) { return t[0]; }
double ratio(Times t) { return t[0] / t[1]; }
double fastest(Times t) { return *std::min_element(t.begin(), t.end()); }

/// Takes the times of a benchmark, and of the same in PyTorch, JAX or SciPy.
double over_fastest_peer(Times t) { return t[0] / fastest(t.subspan(1)); }
/// Takes the times of many benchmarks, each followed by those of its peers.
template <std::size_t peers>
double geometric_mean_over_peers(Times t) {
  double logarithms = 0;
  for (std::size_t i = 0; i < t.size(); i += peers + 1)
    logarithms += std::log(over_fastest_peer(t.subspan(i, peers + 1)));
  return std::exp(logarithms / (static_cast<double>(t.size()) / (peers + 1)));
}

double slowest_over_peer(Times t) {
  double most = 0;
  for (std::size_t i = 0; i < t.size(); i += 2) most = std::max(most, t[i] / t[i + 1]);
  return most;
}
/// The benchmarks of inference.cpp with these ends of names, each followed by that of onnxruntime.
std::vector<std::string> onnx_models(std::initializer_list<const char*> ends) {
  std::vector<std::string> names;
  for (const std::string model : {"mlp", "resnet", "encoder"})
    for (const char* const end : ends)
      for (const char* const of : {"onnx_", "onnxruntime_"}) names.push_back(of + model + end);
  return names;
}

/// Takes the time of a kernel on 2^16 elements, and a peer's times on 2^16 and on 2^12. The peer's
/// cost of a call cancels in the difference.
double over_kernel(Times t) { return t[0] / ((t[1] - t[2]) * 16 / 15); }

// ---- operations as fast as memory, or as their arithmetic ---------------------------------------
// The benchmarks of these bars are, in this order: the operation; the same on a 128th of the
// elements, which the caches hold; a clock cycle; and several ways to move the same bytes.

double moved(Times t) { return fastest(t.subspan(3)); }
double moved_by_add(Times t) { return 1.5 * moved(t); }  // add moves three arrays, a copy two
template <double (*memory)(Times)>
double bound_over_time(Times t) {
  return std::max(memory(t), arithmetic(t)) / t[0];
}
template <double (*memory)(Times)>
double time_over_bound(Times t) {
  return 1 / bound_over_time<memory>(t);
}

/// Returns the limit for the kernels that Stave chooses on this machine.
double of_isa(double avx512, double avx2, double others = no_limit) {
  std::string_view isa = "sse2";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) isa = "avx2";
  if (__builtin_cpu_supports("avx512f")) isa = "avx512";
#endif
  if (const char* wanted = std::getenv("STAVE_CPU_ISA"); wanted && *wanted) isa = wanted;
  return isa == "avx512" ? avx512 : isa == "avx2" ? avx2 : others;
}

/// Returns the limit of an operation beside the fastest peer. XLA multiplies matrices of half
/// floats by instructions of AVX-512, even where it is told to use AVX2.
double limit_beside_peers(std::string_view operation) {
  return operation == "matmul_float16" || operation == "matmul_bfloat16" ? of_isa(1.5, 2, 4) : 1.5;
}

}  // namespace

// A limit in nanoseconds is the largest ratio to the reference in several runs on a busy machine,
// plus a tenth.
std::vector<Bar> all_bars() {
  using enum Bar::Side;
  // A median that no bar judges is printed with the bar that names it.
  const auto inverse_ratio = [](Times t) { return t[1] / t[0]; };
  // A copy reads as much and writes as much.
  const auto half_a_copy = [](Times t) { return t[1] / t[0] / 2; };
  const auto least_product_speed = [](Times t) { return std::min(t[1] / t[0], fastest(t.subspan(3)) / t[2]); };
  const auto worse_of_two = [](Times t) { return std::max(t[0] / t[1], t[2] / t[3]); };
  const char* reference = "reference";
  return {
      // overhead.cpp, controllers.cpp
      {"scalar_add_ns", at_most, 5.2, {"scalar_add"}, first, reference},
      {"scalar_add_literal_ns", at_most, 5.2, {"scalar_add_literal"}, first, reference},
      {"broadcast_add_ns", at_most, 20, {"broadcast_add"}, first, reference},
      {"first_forwarder_ns", at_most, 2.6, {"forwarders/1", "plain"}, [](Times t) { return t[0] - t[1]; }, reference},
      {"forwarder_ns",
       at_most,
       0.6,
       {"forwarders/10", "forwarders/1"},
       [](Times t) { return (t[0] - t[1]) / 9; },
       reference},
      {"grad_chain_ns", at_most, 21.5, {"grad_chain"}, first, reference},
      {"grad_chain_100k_ns", at_most, 1.3, {"grad_chain_100k"}, first, "grad_chain"},
      {"jvp_chain_ns", at_most, 18.5, {"jvp_chain"}, first, reference},
      {"vmap_chain_ns", at_most, 17.5, {"vmap_chain"}, first, reference},
      {"vmap_grad_chain_ns", at_most, 39, {"vmap_grad_chain"}, first, reference},
      {"grad_grad_chain_ns", at_most, 49, {"grad_grad_chain", "grad_grad_power"}, first, reference},
      {"perform_ns", at_most, 0.26, {"perform_in_place/0"}, first, reference},
      {"perform_past_idle_ns", at_most, 0.65, {"perform_in_place/9"}, first, reference},
      {"suspend_resume_ns", at_most, 1.63, {"suspend_resume"}, first, reference},
      {"create_run_end_ns", at_most, 2.94, {"create_run_end"}, first, reference},
      {"idle_handlers_ns", at_most, 0.7, {"idle_handlers/9", "plain"}, [](Times t) { return t[0] - t[1]; }, reference},
      {"install_ns", at_most, 0.16, {"install"}, first, reference},
      {"drop_ns", at_most, 187, {"drop"}, first, reference},
      // effect_programs.cpp
      {"fibonacci_recursive_vs_recursion", at_most, 1.1, {"effects_fibonacci_recursive", "effects_recursion"}, ratio},
      {"countdown_vs_recursion", at_most, 5.3, {"effects_countdown", "effects_recursion"}, ratio},
      {"iterator_vs_recursion", at_most, 0.46, {"effects_iterator", "effects_recursion"}, ratio},
      {"handler_sieve_vs_recursion", at_most, 7, {"effects_handler_sieve", "effects_recursion"}, ratio},
      {"product_early_vs_recursion", at_most, 71, {"effects_product_early", "effects_recursion"}, ratio},
      {"parsing_dollars_vs_recursion", at_most, 3.3, {"effects_parsing_dollars", "effects_recursion"}, ratio},
      {"generator_vs_recursion", at_most, 5, {"effects_generator", "effects_recursion"}, ratio},
      {"resume_nontail_vs_recursion", at_most, 3.7, {"effects_resume_nontail", "effects_recursion"}, ratio},
      // bandwidth.cpp
      {"add_vs_copy",
       at_least,
       0.85,
       {"add_large", "add_cached", "clock_cycle", "copy_by_memcpy", "copy_by_loop", "copy_by_stream"},
       bound_over_time<moved_by_add>,
       nullptr,
       moved_by_add},
      {"exp_vs_copy",
       at_most,
       1.3,
       {"exp_large", "exp_cached", "clock_cycle", "copy_by_memcpy", "copy_by_loop", "copy_by_stream"},
       time_over_bound<moved>,
       nullptr,
       moved},
      {"exp_cycles",
       at_most,
       of_isa(2.5, 4),  // on one thread, for each element
       {"exp_one_thread", "clock_cycle"},
       [](Times t) { return t[0] / t[1] / 4096; }},
      {"mask_kernels_vs_add",
       at_most,
       2,
       {"greater_one_thread", "where_one_thread", "add_one_thread"},
       [](Times t) { return std::max(t[0], t[1]) / t[2]; }},
      {"sum_vs_read",
       at_least,
       0.85,
       {"sum_large", "sum_cached", "clock_cycle", "read_by_loop", "read_by_prefetch"},
       bound_over_time<moved>,
       nullptr,
       moved},
      // matmul.cpp
      {"matmul_vs_openblas",
       at_least,
       0.95,
       {"matmul_1024", "sgemm_1024", "matmul_batched", "sgemm_in_turn", "sgemm_at_a_time"},
       least_product_speed},
      // quantized.cpp: at least 1.5 times as fast as the faster product with floats
      {"quantized_4_vs_float",
       at_most,
       2. / 3,
       {"quantized_vector_4", "float_vector", "sgemv_8192"},
       over_fastest_peer},
      {"quantized_8_vs_float",
       at_most,
       2. / 3,
       {"quantized_vector_8", "float_vector", "sgemv_8192"},
       over_fastest_peer},
      {"quantized_rows_vs_float",
       at_most,
       1.15,
       {"quantized_rows_4", "float_rows", "quantized_rows_8", "float_rows"},
       worse_of_two},
      // programs.cpp
      {"mlp_step_vs_torch", at_most, 1.0, {"mlp_step", "torch_mlp_step"}, ratio},
      {"per_example_vs_hand", at_most, 1.3, {"per_example_vmap", "per_example_hand"}, ratio},
      {"elementwise_chain_vs_torch",
       at_most,
       0.8,
       {"elementwise_eager", "torch_elementwise_eager", "elementwise_grad", "torch_elementwise_grad"},
       worse_of_two},
      {"softmax_vs_torch", at_most, 1.0, {"softmax_rows", "torch_softmax"}, ratio},
      {"scalar_chain_vs_torch",
       at_most,
       0.1,
       {"plain", "torch_scalar_eager", "grad_chain", "torch_scalar_grad"},
       worse_of_two},
      // fused.cpp
      {"exp_vs_jax", at_most, 1.1, {"exp_kernel", "jax_exp_kernel", "jax_exp_kernel_few"}, over_kernel},
      {"log_vs_jax", at_most, 1.1, {"log_kernel", "jax_log_kernel", "jax_log_kernel_few"}, over_kernel},
      // JAX's tanh errs by more units in the last place, and is a single quotient of polynomials
      {"tanh_vs_jax",
       at_most,
       of_isa(1.1, 2, 2),
       {"tanh_kernel", "jax_tanh_kernel", "jax_tanh_kernel_few"},
       over_kernel},
      {"fused_cheap_vs_eager", at_least, 3, {"fused_cheap", "eager_cheap"}, inverse_ratio},
      {"fused_cheap_vs_jax", at_most, 0.5, {"fused_cheap", "jax_fused_cheap"}, ratio},
      {"fused_cheap_vs_jax_donated",
       at_most,
       of_isa(1.2, 1.5, 3),
       {"fused_cheap_donated", "jax_fused_cheap_donated"},
       ratio},
      {"fused_sum_vs_jax", at_most, of_isa(0.8, 1, 1.5), {"fused_sum", "jax_fused_sum"}, ratio},
      {"fused_few_vs_eager", at_most, 0.8, {"fused_few", "eager_few"}, ratio},
      {"fused_exp_vs_jax", at_most, 0.8, {"fused_exp", "jax_fused_exp"}, ratio},
      {"fused_exp_cached_vs_jax", at_most, 1.1, {"fused_exp_cached", "jax_fused_exp_cached"}, ratio},
      {"open_elementwise_vs_builtin",
       at_most,
       3,
       {"open_sigmoid", "builtin_sigmoid", "open_gelu", "builtin_gelu"},
       worse_of_two},
      {"open_elementwise_own_vs_builtin",
       at_most,
       1.2,
       {"own_sigmoid", "builtin_sigmoid", "own_gelu", "builtin_gelu"},
       worse_of_two},
      // compiled.cpp
      // XLA's products use AVX-512 even if XLA is held to AVX2
      {"mlp_step_compiled_vs_jax", at_most, of_isa(1.1, 1.8, 1.8), {"compiled_mlp_step", "jax_mlp_step"}, ratio},
      {"per_example_vs_jax", at_most, 1.0, {"compiled_per_example", "jax_per_example"}, ratio},
      {"lorenz_vs_jax", at_most, 1.2, {"compiled_lorenz", "jax_lorenz"}, ratio},
      {"lorenz_grad_vs_jax", at_most, 1.2, {"compiled_lorenz_grad", "jax_lorenz_grad"}, ratio},
      {"lorenz_compile_vs_jax", at_most, 0.1, {"compiling_lorenz", "jax_lorenz_compile"}, ratio},
      {"scan_vs_jax", at_most, 1.5, {"compiled_scan", "jax_scan"}, ratio},
      {"scan_grad_vs_jax", at_most, 1.5, {"compiled_scan_grad", "jax_scan_grad"}, ratio},
      // Four times the steps; the caches hold the tape of the shorter sequence alone, so each
      // operation of the longer one waits for memory
      {"scan_eager_grad_growth", at_most, 4.5, {"long_scan_grad", "short_scan_grad"}, ratio},
      {"softmax_written_out_vs_fused", at_most, 1.2, {"compiled_softmax", "softmax_rows"}, ratio},
      {"tape_memory_compiled_vs_torch", at_most, of_isa(0.15, 0.2, 0.35), {"compiled_squares", "torch_squares"}, ratio},
      {"replay_scalar_ns", at_most, 0.35, {"replay_scalar"}, first, reference},
      {"compile_overhead", at_most, 1.05, {"compiled_never_repeats", "never_repeats"}, ratio},
      {"compile_overhead_first", at_most, 1.5, {"compiled_first_calls", "first_calls"}, ratio},
      {"first_call_vs_eager", at_most, of_isa(7, 5, 5), {"first_call", "thirty_thousand_eager"}, ratio},
      {"second_call_vs_eager", at_most, 5, {"second_call", "thirty_thousand_eager"}, ratio},
      {"third_call_vs_eager", at_most, 1.0, {"third_call", "thirty_thousand_eager"}, ratio},
      // native.cpp
      {"compiled_call_us", at_most, 0.3, {"compiled_cubic"}, [](Times t) { return t[0] / 1000; }},
      {"arm_jacobian_vs_jax", at_most, 2, {"compiled_arm_jacobian", "jax_arm_jacobian"}, ratio},
      {"arm_jacobian_vs_kernels", at_most, 0.5, {"compiled_arm_jacobian", "arm_jacobian_by_kernels"}, ratio},
      // lanes of vectors: how many times faster than by kernels
      {"lorenz_64_grad_native_vs_kernels",
       at_least,
       10,
       {"lorenz_64_grad", "lorenz_64_grad_by_kernels"},
       inverse_ratio},
      {"hmc_64_native_vs_kernels", at_least, of_isa(5, 2.5, 0), {"hmc_64", "hmc_64_by_kernels"}, inverse_ratio},
      {"lorenz_64_grad_us", at_most, 1200, {"lorenz_64_grad"}, [](Times t) { return t[0] / 1000; }},
      {"hmc_vs_jax", at_most, 0.2, {"hmc_64", "jax_hmc"}, ratio},
      {"hmc_64_us", at_most, 12, {"hmc_64"}, [](Times t) { return t[0] / 1000; }},
      // where machine code pays least
      {"native_vs_interpreter",
       at_most,
       1.05,
       {"functions_of_few/2", "functions_of_few_by_kernels/2", "functions_of_few/16", "functions_of_few_by_kernels/16",
        "functions_of_few/64", "functions_of_few_by_kernels/64"},
       [](Times t) {
         return std::max({t[0] / t[1], t[2] / t[3], t[4] / t[5]});
       }},
      // milliseconds for a thousand operations
      {"native_compile_ms",
       at_most,
       1,
       {"planning_thousand", "planning_thousand_by_kernels"},
       [](Times t) { return (t[0] - t[1]) / 1e6; }},
      // microseconds for an instruction of a long program
      {"lower_us", at_most, 1, {"lowering"}, [](Times t) { return t[0] / 1000; }},
      // gradbench.cpp: a derivative beside the function in plain C++. The Jacobian has 26 columns,
      // for which finite differences need 27 calls.
      {"lstm_grad_vs_function", at_most, 5, {"lstm_gradient", "lstm_by_hand"}, ratio},
      {"ht_jacobian_vs_differences",
       at_most,
       2,
       {"ht_jacobian", "ht_by_hand"},
       [](Times t) { return t[0] / (27 * t[1]); }},
      // short_rows.cpp: rows of three elements beside one long axis; in float32 only printed
      {"short_rows",
       at_most,
       1.5,
       {"compiled_broadcast_rows", "compiled_flat_rows", "compiled_blocks_rows", "compiled_sliced_rows",
        "compiled_short_flat_rows", "compiled_broadcast_rows_float32", "compiled_flat_rows_float32",
        "compiled_blocks_rows_float32", "compiled_sliced_rows_float32", "compiled_short_flat_rows_float32"},
       [](Times t) {
         return std::max({t[0] / t[1], t[2] / t[1], t[3] / t[4]});
       }},
      {"short_rows_compiled_vs_plain",
       at_most,
       1.0,
       {"compiled_broadcast_rows", "plain_broadcast_rows", "compiled_blocks_rows", "plain_blocks_rows",
        "compiled_sliced_rows", "plain_sliced_rows", "compiled_columns", "plain_columns", "compiled_reprojection",
        "plain_reprojection"},
       [](Times t) {
         double worst = 0;
         for (std::size_t i = 0; i < t.size(); i += 2) worst = std::max(worst, t[i] / t[i + 1]);
         return worst;
       }},
      // compiled_models.cpp
      {"ekf_grad_vs_jax", at_most, 0.5, {"compiled_ekf_gradient", "jax_ekf_gradient"}, ratio},
      {"hmc_of_points_vs_jax", at_most, 0.5, {"hmc_of_points", "jax_hmc_of_points"}, ratio},
      {"transformer_step_vs_torch", at_most, 0.8, {"compiled_transformer_step", "torch_transformer_step"}, ratio},
      {"transformer_step_vs_jax", at_most, 0.8, {"compiled_transformer_step", "jax_transformer_step"}, ratio},
      // sentence_embeddings.cpp: eager and compiled; the time of the products with weights alone is
      // only printed
      {"sentence_embeddings_vs_torch",
       at_most,
       1.1,
       {"minilm_embeddings_compiled", "torch_minilm_embeddings", "minilm_products"},
       ratio},
      {"sentence_embeddings_eager_vs_torch", at_most, 1.25, {"minilm_embeddings", "torch_minilm_embeddings"}, ratio},
      // inference.cpp
      {"onnx_models_vs_onnxruntime", at_most, 1.0, onnx_models({"_1_1", "_1_2", "_32_1", "_32_2"}),
       geometric_mean_over_peers<1>},
      {"onnx_slowest_vs_onnxruntime", at_most, 1.3, onnx_models({"_1_1", "_1_2", "_32_1", "_32_2"}), slowest_over_peer},
      {"onnx_memory_vs_onnxruntime", at_most, 1.2, onnx_models({"_1_memory", "_32_memory"}), slowest_over_peer},
      // decoding.cpp: on as many threads; the time of the products alone is only printed
      {"decoding_step_vs_torch", at_most, 0.6, {"decoding_step", "torch_decoding_step", "decoding_products"}, ratio},
      {"decoding_step_one_thread_vs_torch",
       at_most,
       0.7,
       {"decoding_step_one_thread", "torch_decoding_step_one_thread"},
       ratio},
      // nuts.cpp: each model beside the fastest of three ways to run NumPyro's chains
      {"nuts_vs_numpyro",
       at_least,
       1.0,
       {"nuts_schools", "jax_nuts_schools", "jax_nuts_schools_cores_parallel", "jax_nuts_schools_chains_parallel",
        "nuts_logistic", "jax_nuts_logistic", "jax_nuts_logistic_cores_parallel", "jax_nuts_logistic_chains_parallel",
        "nuts_funnel", "jax_nuts_funnel", "jax_nuts_funnel_cores_parallel", "jax_nuts_funnel_chains_parallel"},
       [](Times t) {
         const auto peer_over_ours = [&](std::size_t model) {
           return fastest(t.subspan(4 * model + 1, 3)) / t[4 * model];
         };
         return std::min({peer_over_ours(0), peer_over_ours(1), peer_over_ours(2)});
       }},
      // paths.cpp
      {"paths_newton_vs_loop", at_most, 0.1, {"newton_paths", "newton_loop"}, ratio},
      {"paths_fixed_point_vs_masked", at_most, 1, {"fixed_point_paths", "fixed_point_masked"}, ratio},
      {"paths_fixed_point_gradient_vs_loop",
       at_most,
       0.35,
       {"fixed_point_gradient_paths", "fixed_point_gradient_loop"},
       ratio},
      {"paths_no_split_vs_vmap",
       at_most,
       1.2,
       {"vmap_with_reads/16", "vmap_without_reads/16", "vmap_with_reads/128", "vmap_without_reads/128",
        "vmap_with_reads/4096", "vmap_without_reads/4096"},
       [](Times t) {
         return std::max({t[0] / t[1], t[2] / t[3], t[4] / t[5]});
       }},
      {"paths_every_lane_alone_vs_loop", at_most, 2, {"collatz_paths", "collatz_loop"}, ratio},
      {"gather_rows_ns", at_most, 0.16, {"gather_scalar_rows"}, first, reference},
      // taylor.cpp
      {"jet_vs_jax", at_most, 1, {"jet_network", "jax_jet_network"}, ratio},
      {"jet_elementwise_vs_jax", at_most, 1, {"jet_elementwise", "jax_jet_elementwise"}, ratio},
      {"jet_vs_nested_jvp", at_most, 1, {"jet_order_4", "nested_jvp_order_4"}, ratio},
      // sparsity.cpp: a pattern, and the entries, beside the function itself; both compiled, too
      {"sparsity_chain_pattern", at_most, 50, {"sparsity_chain_pattern", "sparsity_chain"}, ratio},
      {"sparsity_chain_values", at_most, 8, {"sparsity_chain_values", "sparsity_chain"}, ratio},
      {"sparsity_chain_values_compiled",
       at_most,
       8,
       {"sparsity_chain_values_compiled", "sparsity_chain_compiled"},
       ratio},
      {"sparsity_laplacian_pattern", at_most, 50, {"sparsity_laplacian_pattern", "sparsity_laplacian"}, ratio},
      {"sparsity_laplacian_values", at_most, 17, {"sparsity_laplacian_values", "sparsity_laplacian"}, ratio},
      {"sparsity_laplacian_values_compiled",
       at_most,
       17,
       {"sparsity_laplacian_values_compiled", "sparsity_laplacian_compiled"},
       ratio},
      // tape.cpp: the figures of two benchmarks are no times
      {"tape_memory_mib", at_most, 16, {"tape_peak"}, first},
      {"tape_memory_vs_save_all", at_most, 0.6, {"tape_recomputed", "tape_save_all"}, ratio},
      {"tape_memory_vs_torch", at_most, of_isa(0.35, 0.6, 1), {"tape_recomputed", "torch_squares"}, ratio},
      {"tape_never_more", at_most, 1, {"tape_kept_share"}, first},
  // operations.cpp
#define X(name) \
  {#name "_vs_peer", at_most, limit_beside_peers(#name), {#name, "torch_" #name, "jax_" #name}, over_fastest_peer},
      STAVE_COMPARED_OPERATIONS(X)
#undef X
#define X(name) #name, "torch_" #name, "jax_" #name,
          {"operations_vs_peers", at_most, 1.0, {STAVE_COMPARED_OPERATIONS(X)}, geometric_mean_over_peers<2>},
#undef X
  // numbers.cpp
#define X(name) \
  {#name "_vs_peer", at_most, 1.2, {#name, "torch_" #name, "jax_" #name, "scipy_" #name}, over_fastest_peer},
      STAVE_COMPARED_TRANSFORMS(X)
#undef X
#define X(name) #name, "torch_" #name, "jax_" #name, "scipy_" #name,
          {"ffts_vs_peers", at_most, 1.0, {STAVE_COMPARED_TRANSFORMS(X)}, geometric_mean_over_peers<3>},
#undef X
      {"complex_matmul_512_vs_blas", at_most, 1.1, {"complex_matmul_512", "cgemm_512"}, ratio},
#define X(name, ...) {"special_" #name "_vs_scipy", at_most, 1.0, {"special_" #name, "scipy_special_" #name}, ratio},
      STAVE_COMPARED_SPECIAL_FUNCTIONS(X)
#undef X
#define X(name, ...) "special_" #name, "scipy_special_" #name,
          {"specials_vs_scipy", at_most, 1.0, {STAVE_COMPARED_SPECIAL_FUNCTIONS(X)}, geometric_mean_over_peers<1>},
#undef X
      // ranks/ranks_bench.cpp: skipped without MPI. Sums of two processes; steps of one, two and
      // four processes. Benchmarks without a limit are only printed.
      {"ranks_psum_vs_mpi",
       at_least,
       0.9,
       {"ranks_psum_1m", "ranks_mpi_1m", "ranks_psum_16m", "ranks_mpi_16m", "ranks_psum_64m", "ranks_mpi_64m",
        "ranks_psum_1k", "ranks_mpi_1k"},
       [](Times t) {
         return std::min({t[1] / t[0], t[3] / t[2], t[5] / t[4]});
       }},
      {"ranks_step_vs_one",
       at_most,
       1.25,
       {"ranks_step_2", "ranks_step_1", "ranks_step_4", "ranks_step_meanwhile_2", "ranks_step_meanwhile_4"},
       ratio},
      // gpu.cpp: skipped without a device. The further medians of the first bar are only printed.
      {"gpu_host_op_ns",
       at_most,
       150,
       {"gpu_host_op", "gpu_host_grad", "gpu_host_vmap", "gpu_host_vmap_grad"},
       first,
       reference},
      {"gpu_add_vs_copy", at_least, 0.9, {"gpu_add_large", "gpu_copy"}, [](Times t) { return 1.5 * t[1] / t[0]; }},
      {"gpu_broadcast_vs_copy", at_least, 0.9, {"gpu_broadcast_large", "gpu_copy"}, inverse_ratio},
      {"gpu_sum_full_vs_copy", at_least, 0.9, {"gpu_sum_full", "gpu_copy"}, half_a_copy},
      {"gpu_sum_inner_vs_copy", at_least, 0.9, {"gpu_sum_inner", "gpu_copy"}, half_a_copy},
      {"gpu_sum_outer_vs_copy", at_least, 0.9, {"gpu_sum_outer", "gpu_copy"}, half_a_copy},
      {"gpu_softmax_vs_copy", at_least, 0.8, {"gpu_softmax", "gpu_copy"}, inverse_ratio},
      {"gpu_matmul_vs_cublaslt", at_least, 0.97, {"gpu_matmul", "gpu_cublaslt"}, inverse_ratio},
      {"gpu_matmul_tf32_vs_cublaslt", at_least, 0.97, {"gpu_matmul_tf32", "gpu_cublaslt_tf32"}, inverse_ratio},
      {"gpu_mlp_step_vs_torch", at_most, 1.0, {"gpu_mlp_step", "torch_gpu_mlp_step"}, ratio},
      {"gpu_per_example_vs_torch", at_most, 1.0, {"gpu_per_example", "torch_gpu_per_example"}, ratio},
      {"gpu_scalar_chain_vs_torch",
       at_most,
       1.0,
       {"gpu_scalar_chain", "torch_gpu_scalar_eager", "gpu_scalar_chain_grad", "torch_gpu_scalar_grad"},
       worse_of_two},
  };
}

}  // namespace stave_bench
