#!/usr/bin/env bash
# Runs the tests under sanitizers: tools/sanitize.sh asan|tsan [--quick | --since REVISION] [TARGET...]. asan is ASan
# with leaks, and UBSan; tsan is TSan. Without a target it runs all tests except those tagged no-asan
# or no-tsan (the reason is beside the tag). --quick: the tests of code that reads input from
# elsewhere, and of code with threads; --since: those of them whose folders have changed since that
# revision. Ends with a line that counts the tests.
# docs/decisions/0024-hostile-input.md says what this finds and what not.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

readonly supp=$PWD/tools/sanitizers
which=${1:-}
shift
case $which in
  asan)
    configs=(--config=asan --config=ubsan)
    options=("--test_env=LSAN_OPTIONS=suppressions=$supp/lsan.supp:print_suppressions=0"
      "--test_env=UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
    quick=(//tests/fuzz/... //common/... //cli/job_file/... //cli/config/... //cli/text/...
      //worker/link/... //worker/ring/... //worker/daemon:daemon_test
      //worker/daemon:daemon_host_test //controller/api/... //controller:controller_test)
    ;;
  tsan)
    configs=(--config=tsan)
    # Like under ASan, an allocation that is too large fails.
    settings=halt_on_error=1:second_deadlock_stack=1:history_size=7:allocator_may_return_null=1
    options=("--test_env=TSAN_OPTIONS=$settings:suppressions=$supp/tsan.supp")
    quick=(//common:common_test //worker/ring/... //worker/daemon:daemon_test
      //worker/daemon:daemon_host_test //controller:controller_test //controller/page/...)
    ;;
  *)
    echo "usage: tools/sanitize.sh asan|tsan [--quick | --since REVISION] [TARGET...]"
    exit 2
    ;;
esac
targets=(//...)
if [[ ${1:-} == --quick ]]; then
  targets=("${quick[@]}")
  shift
elif [[ ${1:-} == --since ]]; then
  targets=()
  for target in "${quick[@]}"; do
    folder=${target#//}
    [[ -z $(git diff --name-only "$2" -- "${folder%[:/]*}" | head -n 1) ]] || targets+=("$target")
  done
  shift 2
  ((${#targets[@]} + $#)) || { echo "$which: nothing that it guards has changed"; exit 0; }
fi
(($#)) && targets=("$@")
[[ -t 1 ]] || options+=(--noshow_progress)

# Instrumented code is slow and needs several times the memory: fewer tests at once, longer limits.
tools/test.sh "${configs[@]}" "${options[@]}" --test_tag_filters="-gpu,-no-$which" \
  --build_tests_only --local_test_jobs=2 --test_timeout=300,900,1800,3600 "${targets[@]}"
