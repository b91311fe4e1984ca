#!/usr/bin/env bash
# Checksums of many files, of which each rank takes a share: any program can be a rank.
#
# Start:      paceline run --ranks 4 examples/checksums.sh /usr/bin /tmp/sums
# Or:         torchrun --no-python --nproc-per-node 4 examples/checksums.sh /usr/bin /tmp/sums
set -euo pipefail

readonly from=$1 to=$2
# On a stop (SIGTERM), finish the current file first.
stopped=
trap 'stopped=yes' TERM

mkdir -p "$to"
done_already=$to/$RANK-of-$WORLD_SIZE
touch "$done_already"
number=0
while IFS= read -r -d '' file; do
  ((number++ % WORLD_SIZE == RANK)) || continue
  # After a restart, continue where it was.
  grep -qF "  $file" "$done_already" && continue
  sha256sum "$file" >>"$done_already"
  [[ -z $stopped ]] || exit 143
done < <(find "$from" -maxdepth 1 -type f -print0 | sort -z)
echo "rank $RANK: $(wc -l <"$done_already") checksums"
