#!/usr/bin/env bash
# Shows a model that is sharded by FSDP2, in a session: two replicas of two shards lose a rank, whose
# place a spare takes, and the job goes on as three shards. Fails unless its loss is that of the same
# job without the loss of a rank.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"
readonly steps=200

# What rank 0 has written of a step's loss.
loss() {
  "$paceline" job logs "$1" --rank 0 --no-prefix | grep -o " step=$2 loss=[^ ]*"
}

step "The script: fully_shard with run.mesh"
cp examples/fsdp2_session.py examples/fsdp2_session.yaml "$work"
grep -n "run\.\|step\.\|paceline\." "$work/fsdp2_session.py"
sed -i -e "s/^steps: .*/steps: $steps/" -e "s|^venv: .*|venv: $PWD/.venv|" \
  "$work/fsdp2_session.yaml"
sed -e 's/^name: .*/name: undisturbed/' "$work/fsdp2_session.yaml" > "$work/undisturbed.yaml"
cat >> "$work/fsdp2_session.yaml" <<YAML
checkpoint: {directory: $work/checkpoints, every_steps: 100, at_end: true}
# So slowly that there is something to see.
allow_chaos: true
chaos: [{rank: -1, steps: $steps, kind: sleep, seconds: 0.05}]
YAML

step "A cluster of five nodes: two replicas of two shards, and a spare"
"$paceline" --quiet dev up --workers 5 --slots 1
"$paceline" submit "$work/undisturbed.yaml" --wait

step "The same, and kill -9 of rank 3 in the midst: the spare becomes shard 1 of replica 1"
"$paceline" submit "$work/fsdp2_session.yaml"
wait_for_step text 50
kill -9 "$("$paceline" -o json job describe text | value ranks 3 pid)"
"$paceline" job wait text --for 300
"$paceline" job events text

step "On from the middle as one replica of three shards"
sed -e 's/^name: .*/name: text-of-three/' -e 's/^ranks: .*/ranks: 3/' -e 's/^shards: .*/shards: 3/' \
  -e 's/spares: 1/spares: 0/' "$work/fsdp2_session.yaml" > "$work/three.yaml"
"$paceline" submit "$work/three.yaml" --from text/100 --wait

step "The result"
for job in undisturbed text text-of-three; do echo "$job:$(loss "$job" $steps)"; done
[[ $(loss text $steps) == "$(loss undisturbed $steps)" ]] || {
  echo "demo: the loss is not that of the undisturbed job" >&2
  exit 1
}
