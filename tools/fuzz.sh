#!/usr/bin/env bash
# Fuzzes code that reads files, messages and requests from elsewhere, under ASan and UBSan:
# tools/fuzz.sh [TARGET] [SECONDS], default all targets for 60 s each. Starts with the corpus in
# tests/fuzz/corpus and keeps what it finds in build/fuzz; an input that fails is named and left
# there. `tools/fuzz.sh merge [TARGET]` adds the findings to the corpus, as few as reach the same
# code. docs/limits.md says what is fuzzed, docs/decisions/0024-hostile-input.md why.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=build/fuzz
readonly targets=(config_file http_request image_shard job_file log_text manifest safetensors
  step_ring token_file trainer_link worker_message)
readonly limits=(-rss_limit_mb=1024 -malloc_limit_mb=64 -timeout=10)

build() {
  mkdir -p "$work/corpus/$1"
  bazel build --config=fuzz "//tests/fuzz:$1_fuzz"
  # The next target's build may be of another configuration.
  cp -f "$(bazel info --config=fuzz bazel-bin 2>/dev/null)/tests/fuzz/$1_fuzz" "$work/$1"
}

fuzz() {
  local dictionary=()
  [[ -f tests/fuzz/$1.dict ]] && dictionary=("-dict=tests/fuzz/$1.dict")
  echo "fuzz: $1 for $2 s"
  nice -n 19 "$work/$1" "${limits[@]}" -max_total_time="$2" -print_final_stats=1 \
    "${dictionary[@]}" -artifact_prefix="$work/$1-" \
    "$work/corpus/$1" "tests/fuzz/corpus/$1" 2>"$work/$1.log" || {
    tail -n 40 "$work/$1.log"
    echo "fuzz: $1 failed; all of it is in $work/$1.log"
    return 1
  }
  grep -E '^(Done|stat::number_of_executed_units)' "$work/$1.log"
}

merge() {
  nice -n 19 "$work/$1" "${limits[@]}" -merge=1 -use_counters=0 "tests/fuzz/corpus/$1" \
    "$work/corpus/$1" 2>"$work/$1-merge.log"
  echo "fuzz: $1: $(find "tests/fuzz/corpus/$1" -type f | wc -l) inputs in the corpus"
}

act=fuzz
if [[ ${1:-} == merge ]]; then
  act=merge
  shift
fi
chosen=("${targets[@]}")
if (($#)) && [[ $1 != [0-9]* ]]; then
  [[ " ${targets[*]} " == *" $1 "* ]] ||
    { echo "no target named $1; there are: ${targets[*]}"; exit 2; }
  chosen=("$1")
  shift
fi
failed=()
for target in "${chosen[@]}"; do
  build "$target"
  "$act" "$target" "${1:-60}" || failed+=("$target")
done
((${#failed[@]} == 0)) || { echo "fuzz: failed: ${failed[*]}"; exit 1; }
