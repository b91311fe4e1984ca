#!/usr/bin/env bash
# Fuzzes the parsers of what a checkpoint is read from: tools/fuzz.sh [TARGET] [SECONDS], default
# all targets for 60 s each. Begins with the corpus in tests/fuzz/corpus and keeps what it finds in
# build/fuzz; an input that fails is named and left there. `tools/fuzz.sh merge` adds what was found
# to the corpus, as little of it as reaches the same code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly work=build/fuzz
readonly targets=(safetensors manifest)
readonly compiler=(clang++-14 -std=c++17 -O1 -g -fno-omit-frame-pointer -I.
  "-fsanitize=fuzzer,address,undefined" -fno-sanitize-recover=all)
readonly limits=(-rss_limit_mb=512 -malloc_limit_mb=64 -timeout=10)

build() {
  # Our sources that the targets need besides their own.
  local sources=(common/{atomic_file/atomic_file,json/json_walk,mapped_file/mapped_file}.cc
    common/safetensors/safetensors.cc common/checkpoint/{checksum,manifest,manifest_parser}.cc)
  local libraries
  # The libraries of bazel/system.BUILD, in its order.
  mapfile -t libraries < <(sed -n 's/.*"\(-labsl_[a-z_]*\)".*/\1/p' bazel/system.BUILD)
  mkdir -p "$work/corpus/$1"
  "${compiler[@]}" -o "$work/$1" "tests/fuzz/$1_fuzz.cc" "${sources[@]}" \
    -Wl,--start-group "${libraries[@]}" -Wl,--end-group -lxxhash
}

fuzz() {
  echo "fuzz: $1 for $2 s"
  nice -n 19 "$work/$1" "${limits[@]}" -max_total_time="$2" -print_final_stats=1 \
    -dict="tests/fuzz/$1.dict" -artifact_prefix="$work/$1-" \
    "$work/corpus/$1" "tests/fuzz/corpus/$1" 2>"$work/$1.log" || {
    tail -n 40 "$work/$1.log"
    echo "fuzz: $1 failed; all of it is in $work/$1.log"
    return 1
  }
  grep -E '^(Done|stat::number_of_executed_units)' "$work/$1.log"
}

merge() {
  nice -n 19 "$work/$1" "${limits[@]}" -merge=1 -use_counters=0 "tests/fuzz/corpus/$1" "$work/corpus/$1" \
    2>"$work/$1-merge.log"
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
for target in "${chosen[@]}"; do
  build "$target"
  "$act" "$target" "${1:-60}"
done
