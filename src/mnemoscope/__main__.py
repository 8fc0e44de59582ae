"""`python -m mnemoscope` is the command `mnemoscope`."""

import sys

from mnemoscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
