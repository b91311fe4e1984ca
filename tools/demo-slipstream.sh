#!/usr/bin/env bash
# Shows what Slipstream is for: two jobs side by side, with eight ranks each and the same model, data
# and random stalls. One waits for ranks that stall, the other does not. Fails unless the second has
# more than twice the throughput and the same accuracy.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"

step "A cluster of four nodes with four slots"
import_digits
"$paceline" --quiet dev up --workers 4 --slots 4
sed -e 's/^steps: .*/steps: 600/' deploy/examples/digits-slipstream.yaml > "$work/digits-slipstream.yaml"
sed -e 's/^name: .*/name: digits-ddp/' -e 's/^  kind: slipstream/  kind: ddp/' -e '/^  mode: free/d' \
  "$work/digits-slipstream.yaml" > "$work/digits-ddp.yaml"

step "Two jobs: in both, each rank stalls at 2 % of its steps for a second, and takes 40 ms otherwise"
"$paceline" --quiet submit "$work/digits-ddp.yaml"
"$paceline" --quiet submit "$work/digits-slipstream.yaml"
/usr/bin/python3 tools/slipstream_race.py "$paceline" digits-ddp digits-slipstream

step "What became of the rounds"
"$paceline" job describe digits-slipstream |
  sed -n -e '/^Strategy:/p' -e '/^Rounds: *[0-9]/p' -e '/^Rounds:$/,/^$/p'
