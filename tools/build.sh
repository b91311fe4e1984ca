#!/usr/bin/env bash
# Builds programs and puts them into build/bin: tools/build.sh [dist|dist_cuda|demo] (BUILD lists
# what each contains). CONFIG=opt builds them optimised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

config=(${CONFIG:+--config="$CONFIG"})
what=//:${1:-dist}
bazel build "${config[@]}" "$what"
built=$(bazel info "${config[@]}" bazel-bin 2>/dev/null)/dist/bin

# Renamed into place: the old one may be running.
renew() {
  cmp -s "$1" "$2" && return
  cp "$1" "$2.new" && chmod 755 "$2.new" && mv -f "$2.new" "$2"
}

mkdir -p build/bin/python/paceline
while read -r name; do
  program=$built/${name##*:dist_}
  renew "$program" "build/bin/${program##*/}"
done < <(bazel query --noshow_progress "filter(:dist_, labels(srcs, $what))" 2>/dev/null)
# Worker and CLI look beside themselves for the package.
(cd python && find paceline -name '*.py' -exec cp --parents -t ../build/bin/python {} +)
renew "$built/python/paceline/_engine.so" build/bin/python/paceline/_engine.so
if [[ $what == //:dist_cuda ]]; then
  renew "$built/python/paceline/_engine_cuda.so" build/bin/python/paceline/_engine_cuda.so
fi
