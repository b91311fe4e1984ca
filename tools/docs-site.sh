#!/usr/bin/env bash
# Builds the site of the documents (mkdocs.yml) into build/site. Needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Not --quiet: that would hide broken links, and let them pass. The notice that is switched off is about
# later releases of the generator.
NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build
echo "open $PWD/build/site/index.html in a browser"
