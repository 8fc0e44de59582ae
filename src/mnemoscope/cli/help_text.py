"""The help of the program: what it does, and its commands. It imports neither tyro nor the commands, and is fast."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import fill

DESCRIPTION = """Build recurrent networks, train them on memory tasks, and see what they remember.

    mnemoscope demo                            train a 3-bit flip-flop, find its fixed points, write a page
    mnemoscope list tasks                      show the tasks; also cells, networks, lenses, studies, presets
    mnemoscope train flipflop --cell gru       train a network: a preset, then the settings to change
    mnemoscope inspect runs/flipflop/<hash>    find the fixed points of a trained run, write a page
    mnemoscope inspect net.pt --network gru    the same for the weights of your torch.nn.GRU
    mnemoscope card runs/flipflop/<hash>       make its memory card: one standard page, as HTML, JSON, PDF and SVG
    mnemoscope compare runs/flipflop/*         measure whether trained networks compute in the same way
    mnemoscope recording rates.npz             components, rotations and selective units of a recording
    mnemoscope fit rates.npz                   fit a network to a recording, find its fixed points, write a page
    mnemoscope runs --sort loss                compare all runs in one table
    mnemoscope sweep flipflop --over hidden_size=32,64    train with several settings and compare
    mnemoscope study flipflop-cube             measure a published result again
    mnemoscope arena tiny                      compare networks of one size on the same tasks
    mnemoscope cite runs/flipflop/<hash>       print the BibTeX of everything that a run used

`mnemoscope COMMAND --help` explains a command, and `mnemoscope --version` prints the version. To use cells, tasks,
lenses and studies from a file or module of yours, write `mnemoscope --plugin mine.py COMMAND`."""
"""Purpose of the program, with examples."""

SUMMARIES = {
    "demo": "Train a 3-bit flip-flop network, find its fixed points, and write a page about it.",
    "train": "Train a recurrent network on a memory task, or a relational network on a relational task.",
    "sweep": "Train networks with different settings, and find the best settings.",
    "inspect": "Find the fixed points of a trained network, and write a page about it.",
    "card": "Make the memory card of a run: what it remembers, how long, how much, by which mechanism, how it fails, "
    "its cost.",
    "compare": "Measure whether trained networks compute in the same way.",
    "recording": "Apply the lenses on populations to a recording: components, rotations, tensors and selective units.",
    "fit": "Fit a network to a recording without a task, and find its fixed points.",
    "list": "Show all cells, relational networks, tasks, lenses, studies and presets, with their sources.",
    "study": "Run a study: measure a published table or figure again, and compare.",
    "studies": "Show which studies have been run: with which presets, how many trials, and where the results are.",
    "scoreboard": "Compare all published values with the measured ones, as one HTML page or one Markdown table.",
    "replicate": "Run the trials of a run list in slices of some minutes, and collect what has finished into "
    "the results.",
    "arena": "Train networks of one size on the same memory tasks, with the same tuning budget, and compare them in a "
    "table.",
    "runs": "Show all runs as one table, finished or not, including those of studies.",
    "cite": "Print the BibTeX of the works behind runs, presets, studies, or anything that has a name.",
}
"""The commands in the order of the help, with the first lines of their docstrings."""


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether these words after `mnemoscope` ask for the help of the program; without any words, it is shown too."""
    return list(words) in ([], ["-h"], ["--help"])


def program_help() -> str:
    """Return the text that `mnemoscope --help` prints, as wide as the terminal."""
    width = max(60, get_terminal_size().columns)
    *examples, last = DESCRIPTION.split("\n\n")
    column = 2 + max(map(len, SUMMARIES)) + 2
    commands = [
        fill(text, width, initial_indent=f"  {name}".ljust(column), subsequent_indent=" " * column)
        for name, text in SUMMARIES.items()
    ]
    listed = "\n".join(["commands:", *commands])
    return "\n\n".join(["usage: mnemoscope COMMAND ...", *examples, listed, fill(last, width)])
