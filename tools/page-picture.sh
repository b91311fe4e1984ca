#!/usr/bin/env bash
# Takes the pictures of the controller's page for docs/images, from a real cluster in a browser.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bazel test --nocache_test_results --test_sharding_strategy=disabled --test_filter='*Live*' \
  //tests/page:page_test
outputs=$(bazel info bazel-testlogs)/tests/page/page_test/test.outputs
/usr/bin/python3 -m zipfile -e "$outputs/outputs.zip" docs/images
