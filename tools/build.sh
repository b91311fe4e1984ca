#!/usr/bin/env bash
# Builds programs and puts them into build/bin: tools/build.sh [dist|dist_cuda|demo] (BUILD lists
# what each contains). CONFIG=opt builds them optimised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

config=(${CONFIG:+--config="$CONFIG"})
what=//:${1:-dist}
bazel build "${config[@]}" "$what"
built=$(bazel info "${config[@]}" bazel-bin 2>/dev/null)/dist/bin

mkdir -p build/bin
while read -r name; do
  program=$built/${name##*:dist_}
  target=build/bin/${program##*/}
  cmp -s "$program" "$target" && continue
  # Renamed into place: the old one may be running.
  cp "$program" "$target.new" && chmod 755 "$target.new" && mv -f "$target.new" "$target"
done < <(bazel query --noshow_progress "filter(:dist_, labels(srcs, $what))" 2>/dev/null)
# The worker looks beside itself for the code that watches users' scripts.
mkdir -p build/bin/python
(cd python && cp --parents -t ../build/bin/python paceline/*.py paceline/site/*.py)
