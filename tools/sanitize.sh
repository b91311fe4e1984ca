#!/usr/bin/env bash
# Runs the tests under sanitizers: tools/sanitize.sh asan|tsan [--quick] [TARGET...]. asan is ASan
# with leaks, and UBSan; tsan is TSan. Without a target all tests but those whose tags tell that
# they cannot (no-asan, no-tsan; the reason stands beside the tag). --quick: the tests that take what
# comes from elsewhere, and those of threads; some minutes. Ends with a line that counts the tests.
# docs/decisions/0024-hostile-input.md tells what is seen and what is not.
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
      //worker/link/... //worker/ring/... //worker/daemon:ring_tail_test
      //worker/daemon:trainer_sockets_test //controller/rpc/... //controller:limits_test)
    ;;
  tsan)
    configs=(--config=tsan)
    # As for ASan, an allocation of more than there can be fails.
    settings=halt_on_error=1:second_deadlock_stack=1:history_size=7:allocator_may_return_null=1
    options=("--test_env=TSAN_OPTIONS=$settings:suppressions=$supp/tsan.supp")
    quick=(//common:event_loop_test //common:http_server_test //worker/ring/...
      //worker/daemon:trainer_sockets_test //worker/daemon:fd_poller_test
      //controller:commit_queue_test //controller:limits_test //controller/page/...)
    ;;
  *)
    echo "usage: tools/sanitize.sh asan|tsan [--quick] [TARGET...]"
    exit 2
    ;;
esac
targets=(//...)
if [[ ${1:-} == --quick ]]; then
  targets=("${quick[@]}")
  shift
fi
(($#)) && targets=("$@")
[[ -t 1 ]] || options+=(--noshow_progress)

# Instrumented code is slow, and holds several times its memory: fewer tests at once, with more time.
tools/test.sh "${configs[@]}" "${options[@]}" --test_tag_filters="-gpu,-no-$which" \
  --build_tests_only --local_test_jobs=2 --test_timeout=300,900,1800,3600 "${targets[@]}"
