#!/usr/bin/env bash
# Shows that the simulator finds bugs: applies each of tests/sim/planted/*.patch to a copy of the
# sources and prints the seed that caught it. Usage: tests/sim/planted.sh [SEEDS] [NAME...];
# default: at most 20000 seeds, all patches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seeds=${1:-20000}
shift || true
patches=("${@/#/tests/sim/planted/}")
patches=("${patches[@]/%/.patch}")
[[ ${#patches[@]} -gt 0 ]] || patches=(tests/sim/planted/*.patch)

copy=$(mktemp -d)
trap 'bazel --output_base="$copy.bazel" shutdown; chmod -R u+w "$copy.bazel"; rm -rf "$copy" "$copy.bazel"' EXIT
git ls-files -z | tar --null --files-from=- --create | tar --extract --directory="$copy"
run() {
  (cd "$copy" && bazel --output_base="$copy.bazel" "$@" \
    --experimental_convenience_symlinks=ignore //tests/sim:sim) >"$copy.log" 2>&1
}

status=0
for patch in "${patches[@]}"; do
  name=$(basename "$patch" .patch)
  patch --quiet --strip=1 --directory="$copy" <"$patch" || { echo "$name: does not apply"; exit 1; }
  run build || { tail -n 40 "$copy.log"; echo "$name: does not build"; exit 1; }
  sim=$copy.bazel/execroot/paceline/bazel-out/k8-fastbuild/bin/tests/sim/sim
  if found=$("$sim" --seeds "$seeds" | tail -n 2); then
    echo "$name: NOT CAUGHT by $seeds seeds"
    status=1
  else
    echo "$name: $found" | tr '\n' ' '
    echo
  fi
  patch --quiet --strip=1 --reverse --directory="$copy" <"$patch"
done
exit "$status"
