#!/usr/bin/env bash
# What stave_bars makes of samples: bash bars_test.sh path/of/stave_bars
set -euo pipefail
bars=$1
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT

# samples FILE NAME NANOSECONDS...: a file as Google Benchmark writes it, an aggregate at its end.
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

# expect STATUS TEXT command...: its exit status, and all that it prints but for medians.
expect() {
  local status=0 output
  output=$("${@:3}" 2>&1 | grep -v '^median ') || status=$?
  if [[ $status != "$1" || $output != "$2" ]]; then
    printf '%s\n  printed  %s\n  expected %s\n  status %s, expected %s\n' "${*:3}" "$output" "$2" "$status" "$1" >&2
    exit 1
  fi
}

# At most, with a median of an odd and of an even number; at its limit a bar holds.
samples add scalar_add/real_time 1000 61 59
expect 1 'bar scalar_add_ns 61.0 60 short' "$bars" '^scalar_add_ns$' "$folder/add"
samples more scalar_add/real_time 58
expect 0 'bar scalar_add_ns 60.0 60 holds' "$bars" '^scalar_add_ns$' "$folder/add" "$folder/more"

# A counter per_op, in seconds, is the figure.
sed 's/"time_unit": "ns"/"time_unit": "ns",\n      "per_op": 5.5e-08/' "$folder/add" >"$folder/per_op"
expect 0 'bar scalar_add_ns 55.0 60 holds' "$bars" '^scalar_add_ns$' "$folder/per_op"

# At least, and the fastest of several baselines: 0.8 of what the prefetching one reads.
samples sum sum_large/real_time 100
samples loop read_by_loop/real_time 90
samples prefetch read_by_prefetch/real_time 80
expect 1 'bar sum_vs_read 0.800 0.85 short' "$bars" '^sum_vs' "$folder"/{sum,loop,prefetch}
samples prefetch read_by_prefetch/real_time 86
expect 0 'bar sum_vs_read 0.860 0.85 holds' "$bars" '^sum_vs' "$folder"/{sum,loop,prefetch}

# An addition reads and writes 3 arrays in 100 ns, a copy 2 in 80.
samples add_large add_large/real_time 100
samples memcpy copy_by_memcpy/real_time 90
samples loop copy_by_loop/real_time 80
samples stream copy_by_stream/real_time 95
expect 0 'bar add_vs_copy 1.200 0.85 holds' "$bars" '^add_vs' "$folder"/{add_large,memcpy,loop,stream}

# Per handler: ten of them add 60 ns.
samples plain plain/real_time 100
samples ten forwarders/10/real_time 160
expect 1 'bar forwarder_ns 6.000 5 short' "$bars" forwarder "$folder"/{plain,ten}

# The slower of two products counts: 0.9 of the large one, more than the fastest way to compute the small ones.
samples large matmul_1024/real_time 100
samples sgemm sgemm_1024/real_time 90
samples small matmul_batched/real_time 50
samples turn sgemm_in_turn/real_time 80
samples time sgemm_at_a_time/real_time 60
expect 1 'bar matmul_vs_openblas 0.900 0.95 short' "$bars" '^matmul' "$folder"/{large,sgemm,small,turn,time}

# The instruction set decides what exp may cost.
samples exp exp_large/real_time 120
expect 1 'bar exp_vs_copy 1.500 1.3 short' env STAVE_CPU_ISA=avx512 "$bars" '^exp_vs' "$folder"/{exp,memcpy,loop,stream}
expect 0 'bar exp_vs_copy 1.500 1.6 holds' env STAVE_CPU_ISA=avx2 "$bars" '^exp_vs' "$folder"/{exp,memcpy,loop,stream}
expect 0 'bar exp_vs_copy - inf skipped' env STAVE_CPU_ISA=baseline "$bars" '^exp_vs' "$folder"/{exp,memcpy,loop,stream}

# Without its peer a bar is skipped; with it, the worse of two ratios counts.
samples grad grad_chain/real_time 300
expect 0 'bar scalar_chain_vs_torch - 0.1 skipped' "$bars" ^scalar_chain "$folder"/{plain,grad}
samples torch_eager torch_scalar_eager 2000
samples torch_grad torch_scalar_grad 2500
expect 1 'bar scalar_chain_vs_torch 0.120 0.1 short' "$bars" ^scalar_chain "$folder"/{plain,grad,torch_eager,torch_grad}

# Without a GPU its bars are skipped; times that a benchmark measured itself are read as well.
samples host gpu_host_op/manual_time 4000
expect 0 'bar gpu_host_op_ns - 3000 skipped' "$bars" gpu_host "$folder/host"
samples host_grad gpu_host_grad/manual_time 9000
samples host_vmap gpu_host_vmap/manual_time 9000
samples host_vmap_grad gpu_host_vmap_grad/manual_time 9000
expect 1 'bar gpu_host_op_ns 4000.0 3000 short' "$bars" gpu_host "$folder"/host*

# What is missing, failed or misspelt is no success.
expect 2 'stave_bars: there is no sample of sum_large, which sum_vs_read needs' "$bars" '^sum_vs' "$folder/add"
sed 's/"iterations": 9/"error_occurred": true,\n      "error_message": "the copy is not what was copied"/' "$folder/add" >"$folder/failed"
expect 2 'stave_bars: scalar_add failed: the copy is not what was copied' "$bars" '^scalar_add_ns$' "$folder/failed"
expect 2 "stave_bars: $folder/none: cannot be opened" "$bars" '^sum_vs' "$folder/none"
expect 2 "stave_bars: no bar's name matches 'som'" "$bars" som "$folder/add"
sed 's/"ns"/"us"/' "$folder/add" >"$folder/us"
expect 2 "stave_bars: $folder/us: scalar_add is in us; expected ns" "$bars" '^scalar_add_ns$' "$folder/us"
expect 2 'stave_bars: usage: stave_bars FILTER FILE... | stave_bars --needs FILTER' "$bars" sum

# Each benchmark that several bars need stands once.
expect 0 '^(forwarders/10|plain|idle_handlers/9)(/real_time|/manual_time)?$' "$bars" --needs 'forwarder|idle'
