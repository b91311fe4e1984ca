#!/usr/bin/env bash
# Takes the picture of `paceline top` for docs/images: the ranks of a real job; the one on w5 is slow,
# and nothing is done about it.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"

import_digits
"$paceline" --quiet dev up --workers 9 --slots 1
sed -e 's/^name: .*/name: digits/' -e 's/mode: auto/mode: advise/' -e '/probability:/d' \
  -e 's/step: 900, steps: 1500/step: 100, steps: 2300/' \
  deploy/examples/digits-stragglers.yaml > "$work/digits.yaml"
"$paceline" --quiet submit "$work/digits.yaml"
/usr/bin/python3 tools/terminal_image.py docs/images/top.svg --size 110x16 \
  --until SLOW --title 'paceline top digits' -- "$paceline" top digits
