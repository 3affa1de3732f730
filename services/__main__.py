"""`python -m services`."""

import sys

from .cli import main

sys.exit(main())
