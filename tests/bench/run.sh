#!/usr/bin/env bash
# Measures Stave against its bars (bars.cpp): bash tests/bench/run.sh [FILTER]
#
# FILTER is a regular expression that selects bars by name. The output ends with a line for each
# bar,
#   bar NAME MEASURED LIMIT holds|short|unsure    or    bar NAME - LIMIT skipped
# and the exit status is nonzero if a bar is short. Limits in nanoseconds are ratios to the time of
# the machine's reference in the same rounds (reference.cpp), so that they mean the same on a slow
# or busy machine. If even the reference varies, a bar is unsure.
#
# Stave is built as a release and installed into build/bench-install; the benchmarks are a project
# of their own that finds it there. Bars against PyTorch and JAX need a Python that can import them
# (pip install torch jax; PYTHON chooses the interpreter), those against SciPy also scipy. Bars
# against NumPyro also need numpyro and arviz, and the bar against transformers needs that package
# and a model, which is fetched; those against onnxruntime also need onnx and onnxruntime. Bars whose needs are missing are skipped, as are bars of several
# processes without MPI.
#
# STAVE_CPU_ISA=avx2 measures Stave's kernels for AVX2, beside peers that are held to AVX2 as well.
# OpenBLAS has the kernels for the same instruction set as Stave, since some versions do not know
# the newest processors and choose kernels of old ones.
#
# Stave's and the peers' programs take turns, STAVE_BENCH_ROUNDS times (default 5). Within a round,
# all benchmarks of a program run in random order.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh

filter=${1:-.}
rounds=${STAVE_BENCH_ROUNDS:-5}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
repetitions=3 min_time=0.05  # seconds
python=${PYTHON:-python3}
prefix=$PWD/build/bench-install samples=build/bench/samples
if [[ -z ${STAVE_CPU_ISA:-} ]] && grep -qw avx512f /proc/cpuinfo; then
  export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SKYLAKEX}
elif [[ ${STAVE_CPU_ISA:-} == avx2 ]]; then
  export OPENBLAS_CORETYPE=Haswell MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2
  export XLA_FLAGS="${XLA_FLAGS:+$XLA_FLAGS }--xla_cpu_max_isa=AVX2"
fi

# On shared cores, PyTorch's threads wait for each other at every operation, tens of times longer
# than they compute.
if [[ -r /proc/loadavg ]] && awk -v cores="$(nproc)" '{ exit !($1 > cores / 2) }' /proc/loadavg; then
  echo "Other programs are busy on this machine: the figures will not be reliable, least of all those against PyTorch" >&2
fi

require_packages libbenchmark-dev
configure release -DBUILD_SHARED_LIBS=ON -DSTAVE_SANITIZE=
targets=(stave) components=(runtime dev)
if ninja -C build/release -t query stave_ranks >/dev/null 2>&1; then targets+=(stave_ranks) components+=(ranks ranks-dev); fi
build release "${targets[@]}"
rm -rf -- "$prefix" "$samples"
for component in "${components[@]}"; do
  quietly "Installing $component into build/bench-install" cmake --install build/release --prefix "$prefix" --component "$component"
done
quietly "Configuring build/bench" cmake -S tests/bench -B build/bench -G Ninja \
  -DCMAKE_BUILD_TYPE=Release "-Dstave_ROOT=$prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
quietly "Building the benchmarks" cmake --build build/bench --parallel "$(nproc)"

needs=$(build/bench/stave_bars --needs "$filter")
with_peers=false
if [[ $needs == *torch_* || $needs == *jax_* || $needs == *scipy_* || $needs == *onnxruntime_* ]]; then
  if "$python" -c 'import torch' 2>/dev/null; then with_peers=true
  else echo "$python cannot import torch: bars against PyTorch and JAX are skipped" >&2; fi
fi

if [[ $needs == *minilm_* && -z ${STAVE_MINILM:-} ]] && bash examples/data/fetch_minilm.sh; then
  export STAVE_MINILM=$PWD/build/models/all-MiniLM-L6-v2
fi

if [[ $needs == *onnx_* && -z ${STAVE_ONNX_MODELS:-} ]]; then
  if "$python" -c 'import onnx, onnxruntime' 2>/dev/null; then
    mkdir -p build/models/onnx && "$python" tests/bench/onnx_models.py build/models/onnx
    export STAVE_ONNX_MODELS=$PWD/build/models/onnx
  else echo "$python cannot import onnx and onnxruntime: bars against onnxruntime are skipped" >&2; fi
fi

mkdir -p "$samples"
for ((round = 1; round <= rounds; ++round)); do
  quietly "Round $round of $rounds" build/bench/stave_bench "--benchmark_filter=$needs" \
    --benchmark_enable_random_interleaving=true "--benchmark_repetitions=$repetitions" "--benchmark_min_time=$min_time" \
    "--benchmark_out=$samples/stave-$round.json" --benchmark_out_format=json
  if [[ $needs == *ranks_* && -e build/bench/stave_ranks_bench ]]; then
    for processes in 1 2 4; do
      quietly "Round $round of $rounds, processes: $processes" mpirun --oversubscribe --bind-to none -np "$processes" \
        build/bench/stave_ranks_bench "--benchmark_filter=$needs" "--benchmark_repetitions=$repetitions" \
        "--benchmark_out=$samples/ranks$processes-$round.json" --benchmark_out_format=json
    done
  fi
  if $with_peers; then
    quietly "Round $round of $rounds, peers" "$python" tests/bench/peers.py "--filter=$needs" \
      "--repetitions=$repetitions" "--min-time=$min_time" "--out=$samples/peers-$round.json"
  fi
done
exec build/bench/stave_bars "$filter" "$samples"/*.json
