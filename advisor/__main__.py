"""``python -m advisor`` is ``gpu-advisor``."""

import sys

from advisor.cli import main

sys.exit(main())
