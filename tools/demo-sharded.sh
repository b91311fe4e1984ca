#!/usr/bin/env bash
# Shows a model that is sharded by FSDP2, in a session: two replicas of two shards lose a rank,
# whose place a spare takes, and another one leaves its node while they train; the job goes on as
# three shards. Then other programs read checkpoints: torch.distributed.checkpoint, and transformers
# that of a built-in llama. Fails unless the loss is that of the same job undisturbed, and what they
# read is the same.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"
readonly steps=200

# What rank 0 has written of a step's loss.
loss() {
  "$paceline" job logs "$1" --rank 0 --no-prefix | grep -o " step=$2 loss=[^ ]*"
}

fail() {
  echo "demo: $*" >&2
  exit 1
}

# Of checkpoint $2 of a job, 0 being the newest: its $3.
checkpoint() {
  "$paceline" -o json checkpoint list "$1" | value checkpoints "$2" "$3"
}

step "The script: fully_shard with run.mesh"
cp examples/fsdp2_session.py examples/fsdp2_session.yaml "$work"
grep -n "run\.\|step\.\|paceline\." "$work/fsdp2_session.py"
sed -i -e "s/^steps: .*/steps: $steps/" -e "s|^venv: .*|venv: $PWD/.venv|" \
  "$work/fsdp2_session.yaml"
sed -e 's/^name: .*/name: undisturbed/' "$work/fsdp2_session.yaml" > "$work/undisturbed.yaml"
cat >> "$work/fsdp2_session.yaml" <<YAML
checkpoint: {directory: $work/checkpoints, every_steps: 50, at_end: true}
# So slowly that there is something to see.
allow_chaos: true
chaos: [{rank: -1, steps: $steps, kind: sleep, seconds: 0.1}]
YAML

step "A cluster of five nodes: two replicas of two shards, and a spare"
"$paceline" --quiet dev up --workers 5 --slots 1
"$paceline" submit "$work/undisturbed.yaml" --wait

step "The same, and kill -9 of rank 3 in the midst: the spare becomes shard 1 of replica 1"
"$paceline" submit "$work/fsdp2_session.yaml"
wait_for_step text 40
kill -9 "$("$paceline" -o json job describe text | value ranks 3 pid)"
wait_for_step text 70

step "A drain of rank 1's node: shard 1 of replica 0 moves while the job trains"
node=$("$paceline" -o json job describe text | value ranks 1 node)
"$paceline" node drain "$node" --mode swap --reason "a demo"
[[ $("$paceline" -o json job describe text | value ranks 1 node) != "$node" ]] ||
  fail "rank 1 has not left $node before the job's end"
"$paceline" node resume "$node"
"$paceline" job wait text --for 300
"$paceline" job events text
[[ $(loss text $steps) == "$(loss undisturbed $steps)" ]] ||
  fail "the loss is not that of the undisturbed job"

step "On from the middle as one replica of three shards"
sed -e 's/^name: .*/name: text-of-three/' -e 's/^ranks: .*/ranks: 3/' \
  -e 's/^shards: .*/shards: 3/' -e 's/spares: 1/spares: 0/' \
  "$work/fsdp2_session.yaml" > "$work/three.yaml"
# The newest checkpoint but that of the end: one that a change came upon was given up.
"$paceline" submit "$work/three.yaml" --from "text/$(checkpoint text 1 step)" --wait

step "A built-in llama in two shards, exported for transformers; the other model as one file"
"$paceline" data tokenize --bytes examples --include '*.py' --out "$work/examples.tokens"
cat > "$work/story.yaml" <<YAML
name: story
ranks: 2
shards: 2
threads_per_rank: 1
model: {kind: llama, dim: 64, layers: 2, heads: 4, kv_heads: 4, ffn_dim: 128, vocab_size: 256}
data: {train: $work/examples.tokens, sequence_length: 64}
batch_per_rank: 4
steps: 30
optimizer: {kind: adamw, learning_rate: 1e-3}
checkpoint: {directory: $work/checkpoints, at_end: true}
YAML
"$paceline" submit "$work/story.yaml" --wait
"$paceline" checkpoint export story --to "$work/story-hf"
"$paceline" checkpoint export text --to "$work/text.safetensors"

step "Both checkpoints, read by torch.distributed.checkpoint: the same as what was exported"
PYTHONPATH=$PWD/build/bin/python HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 \
  .venv/bin/python -W ignore - "$work" "$(checkpoint text 0 directory)" \
  "$(checkpoint story 0 directory)" <<'PYTHON'
import sys

import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
import transformers
from paceline.dcp import PacelineReader

work, text, story = sys.argv[1:]
llama = transformers.LlamaForCausalLM.from_pretrained(f"{work}/story-hf", dtype=torch.float32)
for directory, exported in ((text, safetensors.torch.load_file(f"{work}/text.safetensors")),
                            (story, llama.state_dict())):
    model = {name: torch.empty_like(tensor) for name, tensor in exported.items()}
    dcp.load({"model": model}, storage_reader=PacelineReader(directory))
    wrong = [name for name in model if not torch.equal(model[name], exported[name])]
    if wrong or not model:
        sys.exit(f"demo: {directory} differs from its export: {wrong}")
    print(f"{directory}: {len(model)} tensors")
PYTHON

step "The result"
for job in undisturbed text text-of-three; do echo "$job:$(loss "$job" $steps)"; done
