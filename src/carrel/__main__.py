"""`python -m carrel`: the same as the command `carrel`."""

import sys

from carrel.cli import main

sys.exit(main())
