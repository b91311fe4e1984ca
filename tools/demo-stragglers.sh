#!/usr/bin/env bash
# Shows what Paceline does about stragglers: a job of eight ranks with random stalls gets a ladder
# while it trains, then a rank that becomes slow for good is found and swapped for a spare. Fails
# unless both happen, help, and the accuracy is that of the job without any disturbance.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"

step "A cluster of nine nodes: eight ranks, and a spare"
import_digits
"$paceline" --quiet dev up --workers 9 --slots 1
cp deploy/examples/digits-stragglers.yaml "$work"

step "The same job without any disturbance, for comparison"
# Up to the line that allows it.
sed -e '/^allow_chaos:/,$d' -e 's/^name: .*/name: undisturbed/' -e 's/mode: auto/mode: "off"/' \
  "$work/digits-stragglers.yaml" > "$work/undisturbed.yaml"
"$paceline" --quiet submit "$work/undisturbed.yaml" --wait

step "Each rank stalls at 2 % of its first 900 steps; then w5 takes half as long again"
"$paceline" --quiet submit "$work/digits-stragglers.yaml"
/usr/bin/python3 tools/straggler_timeline.py "$paceline" digits-stragglers undisturbed

step "What was decided"
"$paceline" job decisions digits-stragglers
