"""Random words on the command line and random settings in files: answered or refused with a sentence."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import fields, replace
from random import Random

from tests.training.test_training import CONFIG
from tools.reliability import Case
from tools.soak.isolation import BROKEN, Call, call, in_process, limit_memory, warm_up

from mnemoscope import registry
from mnemoscope.config import PRESETS, RunConfig

SECONDS = 8
"""CPU seconds of a command. One that still trains then has accepted its settings."""
NUMBERS = ("-1", "0", "1", "2", "3", "2.5", "1e3", "nan", "inf", "-inf", "1e308", "1e-320", str(2**31), str(2**63))
NUMBERS += (str(2**64), "9" * 400, "0x10", "1_000", "٣")
WORDS = (
    "",
    " ",
    "x",
    "None",
    "true",
    "False",
    "[]",
    "{}",
    "a=b",
    "=",
    "--",
    "-",
    "---",
    "..",
    "../..",
    "/",
    "\x1b[31m",
)
WORDS += (
    "\n",
    "\t",
    "é" * 300,
    "\u202e",
    "\ud800",
    "'; rm",
    "$HOME",
    "%s%n",
    "{0}",
    "a" * 5000,
    "🙂",
    "NaN",
    "*",
    "@x",
)
OPTIONS = {
    "train": [each.name for each in fields(RunConfig)] + ["root", "resume", "overwrite", "json"],
    "sweep": ["over", "method", "trials", "seeds", "objective", "direction", "at-a-time", "engine", "space", "storage"],
    "inspect": ["network", "nonlinearity", "prefix", "input", "starts", "seed", "output", "json"],
    "list": ["json"],
    "study": ["preset", "seeds", "resume", "finished-only", "engine", "engine-options", "root", "json"],
    "studies": ["results", "root", "json"],
    "scoreboard": ["results", "root", "output", "markdown", "summary", "pages", "json"],
    "runs": ["root", "where", "sort", "descending", "columns", "json", "csv", "parquet"],
    "cite": ["preset", "all", "keys"],
    "demo": ["cell", "hidden-size", "seed", "root", "json"],
}
TRAINS = ("train", "sweep", "demo", "study", "inspect")
"""Commands that may work as long as they like once they have accepted their arguments."""
SMALL = ["--steps", "2", "--batch-size", "2", "--evaluate-every", "1", "--evaluate-batches", "1", "--threads", "1"]


def fuzz_command_line(case: Case) -> None:
    """Run a random command line; it must not end in a traceback, a crash, or an error without a message."""
    words = random_words(case.random)
    (case.folder / "words.txt").write_text(repr(words))
    _survive(case, words, lambda: call(words))


def fuzz_configuration(case: Case) -> None:
    """Train with random settings from a file; they are accepted, or refused with a sentence."""
    text = random_settings(case.random)
    (case.folder / "try.toml").write_text(text, errors="surrogatepass" if "\ud800" in text else "strict")
    words = ["train", "try.toml", "--json"]
    _survive(case, words, lambda: call(words))


def random_words(chance: Random) -> list[str]:
    """Return a command line of words that are right, nearly right, or wrong."""
    command = chance.choice([*OPTIONS, "train", "train", "sweep"])
    names = [*PRESETS, *(entry.name for table in (registry.tasks, registry.cells, registry.studies) for entry in table)]
    words = [command if chance.random() < 0.97 else _misspelled(chance, command)]
    for _ in range(chance.randint(0, 5)):
        kind = chance.random()
        if kind < 0.7:
            option = chance.choice(OPTIONS[command]).replace("_", "-")
            words.append("--" + (option if chance.random() < 0.95 else _misspelled(chance, option)))
            words += [_value(chance, names) for _ in range(chance.choice([0, 1, 1, 1, 2, 3]))]
        elif kind < 0.95:
            words.append(_value(chance, names))
        else:
            words.append(chance.choice(["--help", "-h", "--version", "--plugin", "--json=1", "--no-json", "-V"]))
    # a valid request must be short, or it would train for minutes
    if command == "train" and chance.random() < 0.9:
        words += SMALL
    if command == "sweep":
        words += [*SMALL, "--engine", "here"]
    if command == "study" and "--preset" not in words:
        words += ["--preset", "smoke", "--engine", "here"]
    return words


def random_settings(chance: Random) -> str:
    """Return the text of a configuration in which some settings are wrong, unknown, or of another type."""
    small = replace(CONFIG, steps=2, evaluate_every=1, checkpoint_every=1, threads=1)
    lines = small.to_toml().splitlines()
    tables = next(index for index, line in enumerate(lines) if line.startswith("["))
    names = [each.name for each in fields(RunConfig) if each.name not in ("task_options", "cell_options")]
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(names) if chance.random() < 0.95 else _misspelled(chance, chance.choice(names))
        lines = [line for line in lines if not line.startswith(f"{name} =")]
        lines.insert(min(tables - 1, 1), f"{name} = {_toml_value(chance)}")
    kind = chance.random()
    if kind < 0.3:
        option = chance.choice(["bits", "length", "rate", "width", "apart", "settle", "bitz"])
        lines = [line for line in lines if not line.startswith(f"{option} =")]
        where = lines.index("[task_options]") + 1 if "[task_options]" in lines else len(lines)
        lines.insert(where, f"{option} = {_toml_value(chance)}")
    elif kind < 0.4:
        lines.append(
            chance.choice(["[x", "[[task_options]]", "= 3", '"', "[cell_options]\nx = 1", "\x00", "a.b.c = 1"])
        )
    return "\n".join(lines) + "\n"


def _survive(case: Case, words: list[str], work: Callable[[], Call]) -> None:
    def limited() -> None:
        os.chdir(case.folder)
        limit_memory()
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))

    def checked() -> None:
        answer = work()
        print(answer.text[-2000:].encode(errors="replace").decode())
        answer.check((0, 1, 2))

    warm_up()
    ended = in_process(checked, case.folder, limit=limited)
    command = next((word for word in words if word in OPTIONS), "")
    if ended.status in (-24, -9) and command in TRAINS:  # SIGXCPU: still at work when its CPU time was over
        case.notes["accepted and still at work"] += 1
        return
    if ended.status:
        how = "raised" if ended.status == BROKEN else f"ended with {ended.status}"
        raise AssertionError(f"mnemoscope {words} {how}:\n{ended.text[-3000:]}")


def _value(chance: Random, names: list[str]) -> str:
    kind = chance.random()
    if kind < 0.4:
        return chance.choice(NUMBERS)
    if kind < 0.7:
        return chance.choice(names)
    return chance.choice(WORDS).replace("\x00", "") if kind < 0.95 else _misspelled(chance, chance.choice(names))


def _misspelled(chance: Random, word: str) -> str:
    letters = list(word)
    letters[chance.randrange(len(letters))] = chance.choice("abcxyz-_ ")
    return "".join(letters)


def _toml_value(chance: Random) -> str:
    """Return a value of any type as TOML."""
    numbers = [
        "-1",
        "0",
        "1",
        "2",
        "2.5",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "1e-320",
        str(2**31),
        str(2**63 - 1),
        str(2**63),
    ]
    numbers += [str(2**64), "9" * 400, "9" * 5000, "1e21", "0x10"]
    words = ['""', '"x"', '"../x"', '"\\u001b[31m"', '"gru"', '"none"', "true", "false", '"' + "a" * 5000 + '"']
    others = ["[]", "[1, 2]", "{}", "{a = 1}", "1979-05-27", '["tensorboard", "tensorboard"]', "[" * 150 + "]" * 150]
    others += ["{a = " * 40 + "1" + "}" * 40, "07:32:00", '[["x"]]']
    return chance.choice(chance.choice([numbers, numbers, words, others]))
