"""Fisher memory of affine recurrences along inputs: speed and agreement of two routes, and what families hold.

    python benchmarks/affine_memory.py --keep

Speed: a delta rule with as many values as keys, `S' = (I - k k^T / 2) S + k v^T`, on one sequence of random keys of
length 1. "linearised" is the route for any network, which forms the Jacobian of the flat state; the signals enter one
value. "exact" is the route for affine layers. The difference is the largest one of two memory matrices. Times are
medians of CPU seconds on one thread, of repeats that take turns.

Families: the information about all values written, in units of one write and of the noise, after 400 tokens with 16
random keys of length 1, mean and standard deviation over 24 heads with different keys. Every token writes its key
without a factor; the recurrences differ in their operators. "half" is the number of the last writes that half of it
is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import log

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import mnemoscope as ms
from common import command, folder, option_parser, take_turns, write_json
from mnemoscope.cells.affine import AffineCell, Parts

LINEARISED_UP_TO = 16
"""Largest number of keys for which the flat state is linearised: 256 numbers."""
TOKENS, KEYS, HEADS = 400, 16, 24


class Given(AffineCell):
    """A recurrence of one head whose inputs are its keys and values."""

    def __init__(self, keys: int) -> None:
        super().__init__(2 * keys, keys, heads=1, keys=keys)
        self.project, self.weight = nn.Identity(), nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def parts(self, features: Tensor) -> Parts:
        """Return a delta rule with beta = 1/2."""
        k, v = features.unsqueeze(-2).split([self.keys, self.keys], dim=-1)
        return Parts(k, k, v, torch.zeros_like(k[..., :1]), (-k / 2, k))


class Tokens(AffineCell):
    """A recurrence with given parts at every step, whatever the inputs."""

    def __init__(self, given: Parts) -> None:
        super().__init__(1, HEADS, HEADS, KEYS, values=1)
        self.project, self.weight = nn.Identity(), nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.given = given

    def parts(self, features: Tensor) -> Parts:
        """Return the parts, for a batch of one."""
        q, k, v, g = (part.unsqueeze(1) for part in self.given[:4])
        erase = self.given.erase
        return Parts(q, k, v, g, None if erase is None else (erase[0].unsqueeze(1), erase[1].unsqueeze(1)))


@dataclass(frozen=True)
class Speed:
    """One size of the comparison of routes."""

    keys: int
    tokens: int
    exact_s: float
    linearised_s: float | None
    difference: float | None


@dataclass(frozen=True)
class Held:
    """Information that a family holds."""

    family: str
    mean: float
    std: float
    half: float


def main() -> None:
    """Measure, print, write."""
    options = option_parser(__doc__)
    options.add_argument("--sizes", nargs="+", type=int, default=[4, 8, 16, 64])
    options.add_argument("--tokens", nargs="+", type=int, default=[64, 400])
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    speeds = [measure_speed(keys, tokens, chosen.repeats) for keys in chosen.sizes for tokens in chosen.tokens]
    held = [measure_held(family, *operators) for family, operators in families().items()]
    results = folder(chosen.keep)
    rows = {"speed": [asdict(row) for row in speeds], "families": [asdict(row) for row in held]}
    write_json(results / "affine_memory.json", threads=1, **rows)
    (results / "affine_memory.md").write_text(table(speeds, held))
    print(table(speeds, held))


def measure_speed(keys: int, tokens: int, repeats: int) -> Speed:
    """Time both routes on one sequence."""
    torch.manual_seed(0)
    cell, xs = Given(keys), torch.randn(tokens, 1, 2 * keys, dtype=torch.float64)
    xs[..., :keys] = normalize(xs[..., :keys], dim=-1)
    work: dict[str, Callable[[], ms.FisherMemory]] = {"exact": partial(ms.fisher_memory, cell, along=xs)}
    if keys <= LINEARISED_UP_TO:
        work["linearised"] = partial(ms.fisher_memory, cell, keys, along=xs)  # the first value
    _, seconds = take_turns(work, repeats, warm_up=1)
    difference = None
    if keys <= LINEARISED_UP_TO:
        exact, linearised = work["exact"]().matrix[:, 0], work["linearised"]().matrix
        difference = float((exact - linearised).abs().max() / linearised.abs().max())
    return Speed(keys, tokens, seconds["exact"], seconds.get("linearised"), difference)


def families() -> dict[str, tuple[Tensor, tuple[Tensor, Tensor] | None]]:
    """Return log decays and erasures by the name of the family, with random rates."""
    torch.manual_seed(0)
    shape = (TOKENS, HEADS)
    k = _keys()
    none, rates = torch.zeros(*shape, 1, dtype=torch.float64), torch.rand(*shape, KEYS, dtype=torch.float64)
    beta = 2 * torch.rand(*shape, 1, dtype=torch.float64)
    slow, by_key = -0.02 * rates[..., :1], -0.02 * rates
    rate, c = torch.rand(*shape, KEYS, dtype=torch.float64), k
    return {
        "linear attention": (none, None),
        "decay 0.99": (none + log(0.99), None),
        "decay by key (0.98 to 1)": (by_key, None),
        "DeltaNet, beta = 1": (none, (-k, k)),
        "DeltaNet, beta = 1/2": (none, (-k / 2, k)),
        "DeltaNet, beta uniform, 0 to 2": (none, (-beta * k, k)),
        "Gated DeltaNet, beta = 1/2, decay 0.98 to 1": (slow, (-k / 2, slow.exp() * k)),
        "KDA, beta = 1/2, decay by key 0.98 to 1": (by_key, (-k / 2, by_key.exp() * k)),
        "RWKV-7, rates 0 to 1, decay by key 0.98 to 1": (by_key, (-rate * c, c)),
    }


def measure_held(family: str, log_decays: Tensor, erase: tuple[Tensor, Tensor] | None) -> Held:
    """Return the information that a family holds, over heads."""
    k = _keys()
    cell = Tokens(Parts(k, k, torch.ones(TOKENS, HEADS, 1, dtype=torch.float64), log_decays, erase))
    memory = ms.fisher_memory(cell, along=torch.zeros(TOKENS, 1, 1, dtype=torch.float64))
    total = memory.total[0]
    half = (memory.curve[0].cumsum(-1) < total[:, None] / 2).sum(-1) + 1
    return Held(family, float(total.mean()), float(total.std()), float(half.double().mean()))


def _keys() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return normalize(torch.randn(TOKENS, HEADS, KEYS, dtype=torch.float64, generator=generator), dim=-1)


def table(speeds: list[Speed], held: list[Held]) -> str:
    """Return both tables in Markdown."""
    lines = [
        f"`{command()}`",
        "",
        "| keys | tokens | exact, CPU s | linearised, CPU s | times as fast | difference |",
        "|---|---|---|---|---|---|",
    ]
    for row in speeds:
        ratio = "" if row.linearised_s is None else f"{row.linearised_s / row.exact_s:.3g}"
        seconds = "" if row.linearised_s is None else f"{row.linearised_s:.3g}"
        difference = "" if row.difference is None else f"{row.difference:.0e}"
        lines.append(f"| {row.keys} | {row.tokens} | {row.exact_s:.3g} | {seconds} | {ratio} | {difference} |")
    lines += ["", "| recurrence | information, in writes | standard deviation | half |", "|---|---|---|---|"]
    lines += [f"| {row.family} | {row.mean:.2f} | {row.std:.2f} | {row.half:.1f} |" for row in held]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
