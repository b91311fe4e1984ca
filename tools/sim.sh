#!/usr/bin/env bash
# Runs simulated histories of a cluster (docs/simulator.md):
#   tools/sim.sh SEEDS [FIRST]         SEEDS histories in two processes, and how fast
#   tools/sim.sh --seed N [--trace]    one history, with its last events or all
# Builds optimised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bazel build --config=opt --experimental_convenience_symlinks=ignore //tests/sim:sim
sim=$(bazel info --config=opt bazel-bin 2>/dev/null)/tests/sim/sim
[[ ${1:-} == --* ]] && exec "$sim" "$@"

seeds=${1:-100000}
first=${2:-1}
half=$(((seeds + 1) / 2))
"$sim" --first "$first" --seeds "$half" &
other=$!
status=0
"$sim" --first $((first + half)) --seeds $((seeds - half)) || status=1
wait "$other" || status=1
exit "$status"
