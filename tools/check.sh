#!/usr/bin/env bash
# Runs the checks that do not run the programs: tools/check.sh [--fix|--quick] [NAME...]. Without a
# name it runs all of them to the end, and then lists those that failed. --fix makes `format` write
# its changes; --quick leaves out `tidy`, which takes a quarter of an hour without its cache. With
# SINCE=REVISION tidy checks only files that have changed since then.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

readonly quick=(format scripts python types docs proto core waits boundaries cost)
readonly all=("${quick[@]}" tidy)
readonly work=build/check
fix=0

# Lists our files that match the patterns, tracked or not, without those that git ignores.
ours() {
  git ls-files -co --exclude-standard -- "$@" | while read -r path; do
    [[ -f $path ]] && echo "$path"
  done
}

# C++ is formatted as .clang-format says.
check_format() {
  local files
  mapfile -t files < <(ours '*.h' '*.cc' '*.cu')
  if ((fix)); then
    clang-format-14 -i "${files[@]}"
  else
    # One line a file; `make format` shows the rest.
    clang-format-14 --dry-run -Werror "${files[@]}" 2>&1 | sed -n 's/:[0-9]*:[0-9]*: error:.*//p' |
      sort -u | sed 's/$/: not formatted (make format)/'
    ((PIPESTATUS[0] == 0))
  fi
}

# Shell scripts pass shellcheck.
check_scripts() {
  local files
  mapfile -t files < <(ours '*.sh' '*.sbatch' .ci/run deploy/debian/make-certificates; ours 'tools/*' | xargs grep -lE '^#!.*\bbash' --)
  mapfile -t files < <(printf '%s\n' "${files[@]}" | sort -u)
  shellcheck "${files[@]}"
}

# Python files compile, without leaving byte code behind.
check_python() {
  local files
  mapfile -t files < <(ours '*.py' deploy/slurm/paceline-slurm-drains)
  /usr/bin/python3 -W error::SyntaxWarning - "${files[@]}" <<'PYTHON'
import sys
for path in sys.argv[1:]:
    compile(open(path, encoding="utf-8").read(), path, "exec")
PYTHON
}

# What scripts import has types that hold.
check_types() {
  local module modules=(paceline)
  for module in _engine _protocols alone connect errors loader session shadow state step \
    streams; do
    modules+=("paceline.$module")
  done
  (cd python && ../.venv/bin/mypy --strict --follow-imports=silent --no-error-summary \
    --cache-dir="../$work/mypy" "${modules[@]/#/--module=}")
}

# Everything that the documents refer to exists.
check_docs() {
  ours | /usr/bin/python3 tools/docs_check.py
}

# The protos follow buf.yaml. Our protoc builds the image, so that nothing is resolved online.
check_proto() {
  local site=(.venv/lib/python3*/site-packages) files
  mapfile -t files < <(ours '*.proto')
  protoc -I. -I"${site[0]}" --include_imports --include_source_info \
    -o "$work/image.binpb" "${files[@]}" &&
    .venv/bin/buf lint "$work/image.binpb" --config buf.yaml
}

# Core decides and does nothing else: no IO, threads, locks, wire or clock in its files.
check_core() {
  local files wrong
  mapfile -t files < <(ours '*.h' '*.cc' | grep -E '/core/|^slipstream/' | grep -v '_test\.cc$')
  wrong=$(grep -nE \
    -e '#include <(thread|mutex|condition_variable|fstream|iostream|filesystem|future|chrono)>' \
    -e '#include <(unistd|fcntl|sys/[a-z]+)\.h>' -e '#include "absl/synchronization/' \
    -e '#include "(proto|google|grpcpp|torch)/' -e '#include "common/[a-z_]+\.h"' \
    -e 'absl::Now\(' -e 'std::(random_device|cout|cerr)\b' "${files[@]}")
  [[ -z $wrong ]] || { echo "core must not use:"; echo "$wrong"; return 1; }
}

# Waits in shipped code use a steady clock: with the wall clock a wait would last an hour longer
# when the clock is set back by an hour. Abseil's waits are made steady (bazel/steady_absl.cc);
# gRPC, also in the CLI, converts a deadline to a steady clock when the call begins.
check_waits() {
  local files wrong
  mapfile -t files < <(ours 'cli/*' 'common/*' 'controller/*' 'worker/*' |
    grep -E '\.(h|cc)$' | grep -vE '_test\.cc$|/testing/')
  wrong=$(grep -nE \
    -e '\b(pthread_(cond|mutex)_timed(wait|lock)|sem_timedwait|mtx_timedlock|cnd_timedwait)\b' \
    -e 'FUTEX_CLOCK_REALTIME|TFD_TIMER_ABSTIME' -e '\b(wait|try_lock)_until\(.*system_clock' \
    -e '\b(std)?::time\((nullptr|NULL|0)\)' -e 'gettimeofday\(' \
    -e '(SleepFor|After)\(.*absl::Now\(' -e '(while|if|return) .*absl::Now\(\) *[<>]' \
    -e '\b(deadline|give_up)_? = absl::Now\(' "${files[@]}" |
    grep -vE 'ToChronoTime|^cli/.*\.deadline = |read->not_after')
  [[ -z $wrong ]] || { echo "must not wait by the wall clock (BootNow, EventLoop::Now):"; echo "$wrong"; return 1; }
}

# The build rejects targets that cross a boundary (bazel/boundaries.bzl).
check_boundaries() {
  local target output status=0
  local refused='must not reach|reaches both gRPC and torch'
  for target in :grpc_and_torch /core:reaches_{library,proto,log,log_indirectly}; do
    target=//bazel/boundaries_test$target
    if output=$(bazel build --nobuild "$target" 2>&1); then
      echo "$target was built, but crosses a boundary"
      status=1
    elif ! grep -qE "$refused" <<<"$output"; then
      echo "$target was refused, but not for crossing a boundary:"
      echo "$output"
      status=1
    fi
  done
  return "$status"
}

# clang-tidy's short list and -Wthread-safety.
check_tidy() {
  local changed=()
  if [[ -n ${SINCE:-} ]]; then
    mapfile -t changed < <(git diff --name-only --diff-filter=d "$SINCE" -- '*.cc')
    ((${#changed[@]})) || return 0
  fi
  /usr/bin/python3 tools/tidy.py "${changed[@]}"
}

# The cost of building the tree, and the time of CI, are within tools/build_bounds.json.
check_cost() {
  /usr/bin/python3 tools/build_cost.py
}

if [[ ${1:-} == --fix ]]; then
  fix=1
  shift
fi
chosen=("$@")
(($#)) || chosen=("${all[@]}")
[[ $* == --quick ]] && chosen=("${quick[@]}")
mkdir -p "$work"

failed=()
for name in "${chosen[@]}"; do
  declare -F "check_$name" >/dev/null || { echo "no check named $name; there are: ${all[*]}"; exit 2; }
  start=$SECONDS
  "check_$name" || failed+=("$name")
  printf 'check: %-10s %s, %d s\n' "$name" \
    "$([[ " ${failed[*]:-} " == *" $name "* ]] && echo FAILED || echo ok)" $((SECONDS - start))
done

if ((${#failed[@]})); then
  echo "check: failed: ${failed[*]} (one alone: make check CHECK=${failed[0]})"
  exit 1
fi
echo "check: all passed"
