"""Print the page of supported models: ``python -m advisor.architecture > docs/models.md``."""

from __future__ import annotations

import sys

from advisor.architecture.support_table import models_page

if __name__ == "__main__":
    sys.stdout.write(models_page())
