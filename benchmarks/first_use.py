"""Seconds that a new process takes until its first answer.

    python benchmarks/first_use.py --keep

Each command starts in a new process several times, and the median wall time counts: the help of the command line, the
import of torch alone, and the first fixed points of a GRU, which include the imports of torch and of this library.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from common import folder, option_parser, write_json

FIXED_POINTS = "import torch, mnemoscope as ms; torch.manual_seed(0); ms.find_fixed_points(torch.nn.GRU(3, 16))"
COMMANDS = {
    "mnemoscope --help": ["-m", "mnemoscope", "--help"],
    "import torch": ["-c", "import torch"],
    "first fixed points of a GRU": ["-c", FIXED_POINTS],
}
GOALS = {"mnemoscope --help": 0.3, "first fixed points of a GRU": 2.5}
"""Largest time of a command, in seconds."""


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="processes of each command")
    options = parser.parse_args()
    rows = []
    for name, arguments in COMMANDS.items():
        _seconds(arguments)  # fills the caches of the file system
        times = [_seconds(arguments) for _ in range(options.repeats)]
        rows.append({"command": name, "seconds": round(median(times), 3), "goal": GOALS.get(name)})
        print(rows[-1])
    write_json(folder(options.keep) / "first_use.json", rows=rows)


def _seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
