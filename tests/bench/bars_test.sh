#!/usr/bin/env bash
# Tests stave_bars on samples: bash bars_test.sh path/of/stave_bars
set -euo pipefail
bars=$1
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT

# samples FILE NAME NANOSECONDS...: writes a file like Google Benchmark's, with an aggregate at its
# end.
samples() {
  local file=$folder/$1 name=$2 time
  shift 2
  {
    printf '{\n  "context": {\n    "date": "today",\n    "num_cpus": 2\n  },\n  "benchmarks": [\n'
    for time in "$@"; do
      printf '    {\n      "name": "%s",\n      "run_name": "%s",\n      "run_type": "iteration",\n' "$name" "$name"
      printf '      "iterations": 9,\n      "real_time": %s,\n      "cpu_time": 7e+99,\n      "time_unit": "ns"\n    },\n' "$time"
    done
    printf '    {\n      "name": "%s_mean",\n      "run_name": "%s",\n      "run_type": "aggregate",\n' "$name" "$name"
    printf '      "real_time": 7e+99,\n      "time_unit": "ns"\n    }\n  ]\n}\n'
  } >"$file"
}

# expect STATUS TEXT command...: expects the command's exit status, and its lines of judgement.
expect() {
  local status=0 output
  output=$("${@:3}" 2>&1 | grep -vE '^(median|ratio|bound|spread) ') || status=$?
  if [[ $status != "$1" || $output != "$2" ]]; then
    printf '%s\n  printed  %s\n  expected %s\n  status %s, expected %s\n' "${*:3}" "$output" "$2" "$status" "$1" >&2
    exit 1
  fi
}
# shows TEXT command...: expects that the command prints this line.
shows() {
  "${@:2}" | grep -qFx -- "$1" || { printf '%s\n  does not print %s\n' "${*:2}" "$1" >&2; exit 1; }
}

# Nearly all commands below are given this file, because every bar needs the reference.
samples reference reference/real_time 9 11 10
reference=$folder/reference

# The limit is 5.2 times the reference. The median is of an odd, then of an even number of samples.
# A bar holds at its limit.
samples add scalar_add/real_time 1000 53 51
expect 1 'bar scalar_add_ns 53.0 52 short' "$bars" '^scalar_add_ns$' "$reference" "$folder/add"
samples more scalar_add/real_time 50
expect 0 'bar scalar_add_ns 52.0 52 holds' "$bars" '^scalar_add_ns$' "$reference" "$folder/add" "$folder/more"
shows 'ratio scalar_add_ns 5.2 of reference, at most 5.2' "$bars" '^scalar_add_ns$' "$reference" "$folder/add" "$folder/more"

# A counter per_op, in seconds, replaces the time.
sed 's/"time_unit": "ns"/"time_unit": "ns",\n      "per_op": 4.5e-08/' "$folder/add" >"$folder/per_op"
expect 0 'bar scalar_add_ns 45.0 52 holds' "$bars" '^scalar_add_ns$' "$reference" "$folder/per_op"

# A machine that is ten times slower in one round, and twice as slow in another, slows both sides of
# the ratio.
for round in 1-10 2-100 3-20; do
  samples "reference-${round%-*}" reference "${round#*-}"
  samples "add-${round%-*}" scalar_add "$((5 * ${round#*-}))"
done
rounds=("$folder"/{reference,add}-[123])
expect 0 'bar scalar_add_ns 100.0 104 unsure' "$bars" '^scalar_add_ns$' "${rounds[@]}"
shows 'spread reference 225 %: this machine is too busy to judge' "$bars" '^scalar_add_ns$' "${rounds[@]}"
samples reference-2 reference 26
samples add-2 scalar_add 130
expect 0 'bar scalar_add_ns 100.0 104 unsure' "$bars" '^scalar_add_ns$' "${rounds[@]}"
samples reference-2 reference 22
samples reference-1 reference 18
samples add-1 scalar_add 300
samples add-2 scalar_add 100
expect 0 'bar scalar_add_ns 100.0 104 holds' "$bars" '^scalar_add_ns$' "${rounds[@]}"

# The limit is a multiple of another benchmark of the same run.
samples grad_chain grad_chain 100
samples grad_chain_100k grad_chain_100k 140
expect 1 'bar grad_chain_100k_ns 140.0 130 short' "$bars" 100k "$reference" "$folder"/grad_chain{,_100k}

# A lower limit, relative to the fastest of several baselines: 0.8 of the speed of the prefetching
# read.
samples cycle clock_cycle 0.5
samples sum sum_large/real_time 100
samples sum_cached sum_cached 0.1
samples loop read_by_loop/real_time 90
samples prefetch read_by_prefetch/real_time 80
sum=("$reference" "$folder"/{cycle,sum,sum_cached,loop,prefetch})
expect 1 'bar sum_vs_read 0.800 0.85 short' "$bars" '^sum_vs' "${sum[@]}"
samples prefetch read_by_prefetch/real_time 86
expect 0 'bar sum_vs_read 0.860 0.85 holds' "$bars" '^sum_vs' "${sum[@]}"
# The arithmetic alone takes 128 * 0.75 = 96 ns, so that memory is not the limit.
samples sum_cached sum_cached 0.75
expect 0 'bar sum_vs_read 0.960 0.85 holds' "$bars" '^sum_vs' "${sum[@]}"

# An addition reads and writes 3 arrays in 100 ns, a copy 2 in 80.
samples add_large add_large/real_time 100
samples add_cached add_cached 0.1
samples memcpy copy_by_memcpy/real_time 90
samples loop copy_by_loop/real_time 80
samples stream copy_by_stream/real_time 95
copies=("$reference" "$folder"/{cycle,memcpy,loop,stream})
expect 0 'bar add_vs_copy 1.200 0.85 holds' "$bars" '^add_vs' "${copies[@]}" "$folder"/add_{large,cached}

# exp computes 2^24 elements in 92.3 ms, where a copy takes 20.5 ms: 11 cycles of 0.5 ns for each
# element. The arithmetic is the limit, and the operation is close to it.
samples exp exp_large/real_time 96000000
samples exp_cached exp_cached 720896
samples loop copy_by_loop/real_time 20500000
samples memcpy copy_by_memcpy/real_time 90000000
samples stream copy_by_stream/real_time 90000000
expect 0 'bar exp_vs_copy 1.040 1.3 holds' "$bars" '^exp_vs_copy' "${copies[@]}" "$folder"/exp{,_cached}
shows 'bound exp_vs_copy arithmetic: 20.50 ms for the bytes, 92.27 ms for the arithmetic, 11.00 cycles an element at 2.00 GHz' \
  "$bars" '^exp_vs_copy' "${copies[@]}" "$folder"/exp{,_cached}
# The allowed cycles depend on the instruction set; exp takes 4 cycles here.
samples exp_one exp_one_thread 8192
cycles=("$reference" "$folder"/{cycle,exp_one})
expect 1 'bar exp_cycles 4.000 2.5 short' env STAVE_CPU_ISA=avx512 "$bars" exp_cycles "${cycles[@]}"
expect 0 'bar exp_cycles 4.000 4 holds' env STAVE_CPU_ISA=avx2 "$bars" exp_cycles "${cycles[@]}"
expect 0 'bar exp_cycles - inf skipped' env STAVE_CPU_ISA=sse2 "$bars" exp_cycles "${cycles[@]}"

# The time for each further handler: nine handlers add 63 ns.
samples plain plain/real_time 100
samples one forwarders/1/real_time 107
samples ten forwarders/10/real_time 170
expect 1 'bar forwarder_ns 7.000 6 short' "$bars" '^forwarder' "$reference" "$folder"/{one,ten}

# The slower of two products counts. The large product has 0.9 of the speed of BLAS; the small ones
# are faster than the fastest way to compute them by BLAS.
samples large matmul_1024/real_time 100
samples sgemm sgemm_1024/real_time 90
samples small matmul_batched/real_time 50
samples turn sgemm_in_turn/real_time 80
samples time sgemm_at_a_time/real_time 60
expect 1 'bar matmul_vs_openblas 0.900 0.95 short' "$bars" '^matmul_vs' "$reference" "$folder"/{large,sgemm,small,turn,time}

# Without its peer a bar is skipped; with it, the worse of two ratios counts.
samples grad grad_chain/real_time 300
expect 0 'bar scalar_chain_vs_torch - 0.1 skipped' "$bars" ^scalar_chain "$reference" "$folder"/{plain,grad}
samples torch_eager torch_scalar_eager 2000
samples torch_grad torch_scalar_grad 2500
expect 1 'bar scalar_chain_vs_torch 0.120 0.1 short' "$bars" ^scalar_chain "$reference" "$folder"/{plain,grad,torch_eager,torch_grad}

# The faster of two peers counts. Both must be present, and all results must have the same norm.
samples topk topk/real_time 30
samples torch_topk torch_topk 25
expect 0 'bar topk_vs_peer - 1.5 skipped' "$bars" ^topk "$reference" "$folder"/{topk,torch_topk}
samples jax_topk jax_topk 15
expect 1 'bar topk_vs_peer 2.000 1.5 short' "$bars" ^topk "$reference" "$folder"/{topk,torch_topk,jax_topk}
sed 's/"ns"/"ns",\n      "norm": 3.0/' "$folder/topk" >"$folder/topk_norm"
sed 's/"ns"/"ns",\n      "norm": 4.0/' "$folder/jax_topk" >"$folder/jax_topk_norm"
expect 2 'stave_bars: topk_vs_peer: the norm of the result is 3.000000, and 4.000000 of jax_topk' \
  "$bars" ^topk "$reference" "$folder"/{topk_norm,torch_topk,jax_topk_norm}

# For each model the peer's fastest way counts; the smallest of the models' ratios is the bar's.
nuts=()
for model in schools logistic funnel; do
  samples "nuts_$model" "nuts_$model/real_time" 100
  samples "jax_nuts_$model" "jax_nuts_$model" 500
  samples "jax_nuts_${model}_cores" "jax_nuts_${model}_cores_parallel" 300
  samples "jax_nuts_${model}_chains" "jax_nuts_${model}_chains_parallel" 400
  nuts+=("$folder/nuts_$model" "$folder/jax_nuts_$model"{,_cores,_chains})
done
expect 0 'bar nuts_vs_numpyro 3.000 1 holds' "$bars" ^nuts "$reference" "${nuts[@]}"
samples jax_nuts_logistic_chains jax_nuts_logistic_chains_parallel 90
expect 1 'bar nuts_vs_numpyro 0.900 1 short' "$bars" ^nuts "$reference" "${nuts[@]}"

# Without a GPU its bars are skipped. Manual times are read as well.
samples host gpu_host_op/iterations:1/manual_time 4000
expect 0 'bar gpu_host_op_ns - 1500 skipped' "$bars" gpu_host "$reference" "$folder/host"
samples host_grad gpu_host_grad/manual_time 9000
samples host_vmap gpu_host_vmap/manual_time 9000
samples host_vmap_grad gpu_host_vmap_grad/manual_time 9000
expect 1 'bar gpu_host_op_ns 4000.0 1500 short' "$bars" gpu_host "$reference" "$folder"/host*

# Missing, failed and misspelt benchmarks are errors.
expect 2 'stave_bars: there is no sample of reference, which all bars need' "$bars" '^sum_vs' "$folder/add"
expect 2 'stave_bars: there is no sample of sum_large, which sum_vs_read needs' "$bars" '^sum_vs' "$reference" "$folder/add"
sed 's/"iterations": 9/"error_occurred": true,\n      "error_message": "the copy is not what was copied"/' "$folder/add" >"$folder/failed"
expect 2 'stave_bars: scalar_add failed: the copy is not what was copied' "$bars" '^scalar_add_ns$' "$folder/failed"
expect 2 "stave_bars: $folder/none: cannot be opened" "$bars" '^sum_vs' "$folder/none"
expect 2 "stave_bars: no bar's name matches 'som'" "$bars" som "$folder/add"
sed 's/"ns"/"us"/' "$folder/add" >"$folder/us"
expect 2 "stave_bars: $folder/us: scalar_add is in us; expected ns" "$bars" '^scalar_add_ns$' "$folder/us"
expect 2 'stave_bars: usage: stave_bars FILTER FILE... | stave_bars --needs FILTER' "$bars" sum

# A benchmark that several bars need is listed once.
expect 0 '^(reference|forwarders/10|forwarders/1|idle_handlers/9|plain)(/iterations:[0-9]+)?(/real_time|/manual_time)?$' "$bars" --needs '^forwarder|^idle'
