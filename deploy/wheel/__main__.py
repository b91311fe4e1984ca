"""`python -m paceline` is `paceline`, for when the folder of scripts is not in PATH."""

import os
import sys

from paceline._commands import paceline

sys.argv[0] = os.path.join(sys.prefix, "bin", "paceline")
paceline()
