#!/usr/bin/env bash
# Shows a user's own script in a session: a rank is killed, a node is drained, and the job goes on
# with one rank less. Fails unless the job ends with the accuracy of an undisturbed one.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"
readonly required=0.9  # Accuracy on the test images.
readonly steps=600

step "The script: its own model, optimizer, schedule and loader"
cp examples/session.py examples/session.yaml "$work"
grep -n "run\.\|step\.\|paceline\." "$work/session.py"

step "A cluster of four nodes: two ranks, a spare, and a node for later"
"$paceline" --quiet dev up --workers 4 --slots 1
cat >> "$work/session.yaml" <<YAML
checkpoint: {directory: $work/checkpoints, every_steps: 100, at_end: true}
# So slowly that there is something to see.
allow_chaos: true
chaos: [{rank: -1, steps: $steps, kind: sleep, seconds: 0.02}]
YAML
sed -i -e "s/^steps: .*/steps: $steps/" -e "s|^venv: .*|venv: $PWD/.venv|" "$work/session.yaml"
"$paceline" submit "$work/session.yaml"
wait_for_step digits 100

step "kill -9 of rank 1: the spare takes its place between two steps"
kill -9 "$("$paceline" -o json job describe digits | value ranks 1 pid)"
wait_for_step digits 200

step "A drain of rank 0's node: its rank moves while the job trains"
node=$("$paceline" -o json job describe digits | value ranks 0 node)
"$paceline" node drain "$node" --reason "a demo"
"$paceline" node resume "$node"
"$paceline" job wait digits --for 120
"$paceline" job events digits

step "On with one rank, from the middle"
sed -e 's/^name: .*/name: digits-alone/' -e 's/^ranks: .*/ranks: 1/' \
  -e 's/spares: 1/spares: 0/' "$work/session.yaml" > "$work/alone.yaml"
# The newest checkpoint but that of the end: one that the drain came upon was given up.
from=$("$paceline" -o json checkpoint list digits | /usr/bin/python3 -c 'import json, sys
steps = sorted(int(one["step"]) for one in json.load(sys.stdin)["checkpoints"])
print(steps[-2])')
"$paceline" submit "$work/alone.yaml" --from "digits/$from" --wait

step "The result"
for job in digits digits-alone; do
  accuracy=$("$paceline" -o json job describe "$job" | value evaluation accuracy)
  echo "$job: test accuracy $accuracy"
  awk -v a="$accuracy" -v r=$required 'BEGIN { exit a < r }' || {
    echo "demo: below the required $required" >&2
    exit 1
  }
done
