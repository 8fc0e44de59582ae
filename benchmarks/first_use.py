"""Seconds that a new process takes until its first answer.

    python benchmarks/first_use.py --keep

Each command starts in a new process several times, and the median wall time counts: the help of the command line, the
import of torch alone, and the first fixed points of a GRU, which include the imports of torch and of this library.
With --demo, `mnemoscope demo` runs as well, in an empty folder: it trains a network and writes its page. Modules are
imported as bytecode, which Python writes when it first imports them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from statistics import median
from tempfile import TemporaryDirectory

from common import folder, option_parser, write_json

FIXED_POINTS = "import torch, mnemoscope as ms; torch.manual_seed(0); ms.find_fixed_points(torch.nn.GRU(3, 16))"
COMMANDS = {
    "mnemoscope --help": ["-m", "mnemoscope", "--help"],
    "import torch": ["-c", "import torch"],
    "first fixed points of a GRU": ["-c", FIXED_POINTS],
}
DEMO = "mnemoscope demo"
GOALS = {"mnemoscope --help": 0.3, "first fixed points of a GRU": 2.5, DEMO: 15.0}
"""Largest time of a command, in seconds."""


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="processes of each command")
    parser.add_argument("--demo", action="store_true", help="also run the demo, which takes a quarter of a minute")
    options = parser.parse_args()
    commands = COMMANDS | ({DEMO: ["-m", "mnemoscope", "demo"]} if options.demo else {})
    rows = []
    for name, arguments in commands.items():
        _seconds(arguments)  # fills the caches of the file system, and writes the bytecode
        times = [_seconds(arguments) for _ in range(options.repeats)]
        rows.append({"command": name, "seconds": round(median(times), 3), "goal": GOALS.get(name)})
        print(rows[-1])
    write_json(folder(options.keep) / "first_use.json", rows=rows)


def _seconds(arguments: list[str]) -> float:
    """Return the seconds of a new process in an empty folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with TemporaryDirectory() as empty:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=empty, env=environment)
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
