#!/usr/bin/env bash
# Writes the parts of the documents that are generated from the code. The tests in tests/docs fail
# when they are not current.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bazel build //tests/docs:print_families
bin=$(bazel info bazel-bin 2>/dev/null)

write() { .venv/bin/python tools/generated.py write "$@"; }
write docs/api.md api tools/api_page.py proto/*.proto
write docs/session-api.md reference tools/session_api_page.py \
  python/paceline/{connect,errors,loader,session,step}.py
write docs/job-file.md keys tools/job_file_page.py proto/job_spec.proto
for picture in loop lost-rank who-decides; do
  write "docs/images/$picture.svg" drawing tools/pictures.py "$picture"
done
write docs/metrics.md families "$bin/tests/docs/print_families"
