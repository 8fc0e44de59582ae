"""Damaged and hostile files: no traceback, no silent acceptance, and never code that runs."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
import runpy
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors.torch import save_file
from tests.training.test_training import CONFIG, Crash, artefacts, run, stop_at
from tools.reliability import Case
from tools.soak.isolation import call, check_ended, in_process, limit_memory, warm_up

import mnemoscope as ms

TRAINED = replace(CONFIG, steps=8, checkpoint_every=2, evaluate_every=2, threads=1)
HALF = replace(TRAINED, seed=1)
"""A run that was stopped in the middle, so that a checkpoint is read."""
LISTINGS = ("runs", "studies", "scoreboard")
"""Commands that one damaged file must not stop."""
SWEEP = ["sweep", "swept.toml", "--over", "hidden_size=2,3", "--engine", "here", "--json"]
SEARCH = ["sweep", "searched.toml", "--over", "hidden_size=2,3", "--engine", "here", "--json"]
SEARCH += ["--method", "tpe", "--trials", "2"]
"""A sweep with a journal of Optuna as its state."""


def damage_artefact(case: Case) -> None:
    """Damage one file of a folder with all kinds of artefacts, then read everything that may meet it."""
    home = case.folder / "home"
    shutil.copytree(_template(), home)
    path = case.random.choice(sorted(path for path in home.rglob("*") if path.is_file()))
    outside, content = case.folder / "outside", path.read_bytes()
    kind = damage(case.random, path, outside)
    (case.folder / "damage.txt").write_text(f"{path.relative_to(home)}: {kind}")
    check_ended(in_process(lambda: _read_all(home, path), case.folder, limit=lambda: limit_memory(6)))
    if outside.exists() and outside.read_bytes() != content:
        raise AssertionError(f"{path} is {kind}, through which a file outside was changed.")


def damage(chance: Random, path: Path, outside: Path) -> str:
    """Damage a file at random, and return the kind of damage; a link leads to a copy `outside`."""
    content = path.read_bytes()

    def link(make: Callable[[Path], None]) -> None:
        path.rename(outside)
        make(outside)

    kinds: dict[str, Callable[[], object]] = {
        "truncated": lambda: path.write_bytes(content[: chance.randrange(len(content) + 1)]),
        "a bit flipped": lambda: path.write_bytes(_flipped(chance, content, 1)),
        "bits flipped": lambda: path.write_bytes(_flipped(chance, content, 40)),
        "bytes inserted": lambda: path.write_bytes(_inserted(chance, content)),
        "random": lambda: path.write_bytes(chance.randbytes(chance.choice([0, 1, 7, 300]))),
        "deep nesting": lambda: path.write_text("[" * 100_000),
        "a long integer": lambda: path.write_text('{"trials": ' + "9" * 5000 + "}"),
        "another type": lambda: path.write_text(
            chance.choice(["null", "[]", "3", '"x"', "{}", "true", "[[]]", '{"x": 1}'])
        ),
        "a pipe": lambda: (path.unlink(), os.mkfifo(path)),
        "a folder": lambda: (path.unlink(), path.mkdir()),
        "a device": lambda: (path.unlink(), path.symlink_to("/dev/zero")),
        "a link": lambda: link(path.symlink_to),
        "a hard link": lambda: link(path.hardlink_to),
        "not readable as text": lambda: path.write_bytes(b"\xff\xfe" + content),
        "a large header": lambda: path.write_bytes((1 << 62).to_bytes(8, "little") + content[8:]),
    }
    if path.suffix in (".json", *LINES):
        kinds["a field of another type"] = lambda: _change_field(chance, path, content)
    if path.suffix == ".safetensors":
        kinds["a header of another type"] = lambda: _change_header(chance, path, content)
    kind = chance.choice([*kinds, *(name for name in kinds if "type" in name)])
    kinds[kind]()
    return kind


def _read_all(home: Path, damaged: Path) -> None:
    """Call every command that may read the damaged file."""
    os.chdir(home)
    runs, name = home / "runs", damaged.relative_to(home).as_posix()
    for command in LISTINGS:
        words = [command, "--root", "runs", *(["--results", "results"] if command != "runs" else [])]
        call(words).check((0,))
    call(["cite", "runs"]).check()
    call(["cite", "results/fisher-delay-line.smoke.json"]).check()
    if "swept" in name:
        call([*SWEEP, "--resume"]).check()
    if "searched" in name:
        call([*SEARCH, "--resume"]).check()
    if name.startswith("runs/studies"):
        call(["study", "fisher-delay-line", "--preset", "smoke", "--engine", "here", "--resume", "--json"]).check()
    if name.startswith("runs/try"):
        config = TRAINED if damaged.parent == TRAINED.folder(runs) else HALF
        (home / "asked.toml").write_text(config.to_toml())
        resumed = call(["train", "asked.toml", "--resume", "--json"]).check()
        checkpoint = damaged.name == "checkpoint.safetensors" and config is HALF
        if checkpoint and resumed.status == 0 and artefacts(HALF, runs) != _expected():
            raise AssertionError(f"{name} is damaged, and was resumed to another result without a word.")
        call(["inspect", str(config.folder(runs)), "--starts", "4", "--json"]).check()
    if damaged.suffix in (".pt", ".safetensors") and "/" not in name:
        call(["inspect", name, "--network", "gru", "--starts", "4", "--json"]).check()
    if name == "points.safetensors":
        try:
            ms.FixedPoints.load(damaged)
        except (ValueError, OSError) as error:
            if name not in str(error):
                raise AssertionError(f"The error of FixedPoints.load does not name the file: {error}") from error


@cache
def _template() -> Path:
    """Return a folder with a finished and an unfinished run, a sweep, a study, results, and files of weights."""
    warm_up()
    home = Path(mkdtemp(prefix="soak-")) / "home"
    (home / "results").mkdir(parents=True)

    def make() -> None:
        os.chdir(home)
        run(TRAINED, Path("runs"))
        with suppress(Crash):
            run(HALF, Path("runs"), callbacks=[stop_at(5, Crash)])
        (home / "swept.toml").write_text(replace(TRAINED, name="swept").to_toml())
        call(SWEEP).check((0,))
        (home / "searched.toml").write_text(replace(TRAINED, name="searched").to_toml())
        call(SEARCH).check((0,))
        call(["inspect", str(TRAINED.folder("runs")), "--starts", "4", "--json"]).check((0,))
        call(["study", "fisher-delay-line", "--preset", "smoke", "--engine", "here", "--json"]).check((0,))
        summary = next(Path("runs/studies").rglob("summary.json"))
        shutil.copy(summary, "results/fisher-delay-line.smoke.json")
        network = torch.nn.GRU(2, 4)
        torch.save(network.state_dict(), "net.pt")
        torch.save(network.state_dict(), "legacy.pt", _use_new_zipfile_serialization=False)
        save_file(network.state_dict(), "net.safetensors")
        ms.find_fixed_points(ms.Dynamics(network)).save("points.safetensors")

    check_ended(in_process(make, home.parent))
    return home


@cache
def _expected() -> tuple[bytes, bytes]:
    folder = Path(mkdtemp(prefix="soak-"))
    run(HALF, folder)
    return artefacts(HALF, folder)


def _flipped(chance: Random, content: bytes, number: int) -> bytes:
    changed = bytearray(content)
    for _ in range(number if content else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _inserted(chance: Random, content: bytes) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.randbytes(chance.randint(1, 20)) + content[at:]


WRONG: tuple[Any, ...] = (None, [], {}, "x", -1, 0.5, 1e400, float("nan"), 2**63, 2**70, True, [[1]], [None], {"": ""})
WRONG += ({"a": {"b": None}}, "\x1b]0;x\x07", "=1+1", "\ud800", "x" * 10_000, "../x")
"""Values of types or sizes that a field does not have."""
LINES = (".jsonl", ".journal")
"""Files with an object in every line."""


def _change_field(chance: Random, path: Path, content: bytes) -> None:
    lines = content.decode().splitlines() if path.suffix in LINES else [content.decode()]
    at = chance.randrange(len(lines)) if lines else None
    if at is None:
        return
    data = json.loads(lines[at])
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            places.append((node, key))
            walk(node[key])

    walk(data)
    if places:
        node, key = chance.choice(places)
        node[key] = chance.choice(WRONG)
    lines[at] = json.dumps(data)
    path.write_text("\n".join(lines) + "\n")


def _change_header(chance: Random, path: Path, content: bytes) -> None:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    name = chance.choice([*header])
    choice = chance.randrange(5)
    if choice == 0:
        header = chance.choice([None, [], 3, "x"])
    elif choice == 1:
        header[name] = chance.choice(WRONG)
    elif choice == 2 and isinstance(header[name], dict) and header[name]:
        header[name][chance.choice([*header[name]])] = chance.choice(WRONG)
    elif choice == 3:
        header.pop(name)
    else:
        header[f"{name}3000000"] = header[name]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])


# Hostile pickles.


class Calls:
    """An object whose unpickling calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def hostile_pickle(case: Case) -> None:
    """Open a file of weights that would create a file when it is unpickled: it is refused, and no file appears."""
    victim = case.folder / "victim"
    command = f"touch {victim}"
    payloads: list[Any] = [
        Calls(os.system, command), Calls(open, str(victim), "w"), Calls(exec, f"open({str(victim)!r}, 'w')"),
        Calls(eval, f"open({str(victim)!r}, 'w')"), Calls(Path.touch, victim), Calls(os.mkdir, str(victim)),
        Calls(subprocess.check_output, ["touch", str(victim)]), Calls(shutil.copy, __file__, str(victim)),
        Calls(runpy.run_path, _script(case.folder, victim)), Calls(import_module, "this"),
        Calls(torch.save, 1, str(victim)), Calls(torch.hub.load_state_dict_from_url, "file:///x"),
    ]  # fmt: skip
    payload = payloads[case.number % len(payloads)]
    kinds: list[Callable[[], bytes]] = [
        lambda: _torch_bytes({"weight_ih_l0": payload}),
        lambda: _torch_bytes({"weight_ih_l0": payload}, _use_new_zipfile_serialization=False),
        lambda: pickle.dumps({"weight_ih_l0": payload}, protocol=case.random.randrange(2, 6)),
        lambda: pickletools.optimize(pickle.dumps(payload, protocol=0)),
        lambda: _zip(pickle.dumps(payload, protocol=2)),
    ]
    content = kinds[case.number % len(kinds)]()
    suffix = case.random.choice([".pt", ".pth", ".bin", ".safetensors", ""])
    path = case.folder / f"weights{suffix}"
    path.write_bytes(content)
    folder = case.folder / "run"
    shutil.copytree(TRAINED.folder(_template() / "runs"), folder)
    (folder / "model.safetensors").write_bytes(content)
    (folder / "checkpoint.safetensors").write_bytes(content)

    def read() -> None:
        os.chdir(case.folder)
        for network in ("rnn", "gru", "lstm"):
            call(["inspect", str(path), "--network", network, "--json"]).check((1, 2))
        call(["inspect", str(folder), "--json"]).check((1, 2))
        call(["runs", "--root", str(case.folder)]).check((0,))
        call(["cite", str(folder)]).check()

    check_ended(in_process(read, case.folder))
    if victim.exists():
        raise AssertionError(f"Opening {path} executed code.")


def _torch_bytes(content: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


def _zip(pickled: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return buffer.getvalue()


def _script(folder: Path, victim: Path) -> str:
    path = folder / "script.py"
    path.write_text(f"open({str(victim)!r}, 'w')")
    return str(path)
