"""The page docs/modern.md agrees with the cells and the registry."""

import re
from pathlib import Path

import pytest
import torch

from mnemoscope import registry
from mnemoscope.cells.affine.parts import scale_step, transition

PAGE = (Path(__file__).parents[2] / "docs" / "modern.md").read_text()
ROWS = [
    [column.strip() for column in line.strip("|").split("|")]
    for line in PAGE[PAGE.index("## Families") : PAGE.index("## What is exact")].splitlines()
    if line.startswith("| `")
]
OPTIONS = {
    "mamba": {"state_size": 3},
    "mamba2": {"state_size": 3, "heads": 2},
    "s4d": {"state_size": 6},
    "s5": {"state_size": 6},
    "lru": {"state_size": 5},
    **{name: {"heads": 2} for name in ("mlstm", "rwkv7")},
    **{name: {"heads": 2, "key_size": 2} for name in ("retnet", "hgrn2", "gla", "deltanet", "gated-deltanet", "kda")},
    "deltaproduct": {"heads": 2, "key_size": 2, "factors": 2},
}


def test_the_table_lists_every_affine_cell():
    assert [row[0].strip("`") for row in ROWS] == [entry.name for entry in registry.cells if "affine" in entry.tags]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip("`"))
@torch.no_grad()
def test_a_row_of_the_table_is_true(row):
    name, _, numbers, eigenvalues, block, source = row
    entry = registry.cells[name.strip("`")]
    options = OPTIONS.get(entry.name, {})
    cell = entry.load()(3, 8, **options).double()
    sizes = {"w": 8, "H": cell.heads, "d": options.get("key_size", cell.keys), "e": 8 // cell.heads}
    sizes |= {"N": options.get("state_size"), "n": options.get("state_size")}
    assert eval(numbers.replace("·", "*"), {}, sizes) == cell.memory_size
    assert str(cell.surroundings) == block
    assert entry.source == source
    sizes = torch.tensor([0.1, 3.0, 30.0], dtype=torch.float64).repeat(100).unsqueeze(1)
    _check_eigenvalues(cell, eigenvalues, sizes * torch.randn(300, 3, dtype=torch.float64))


def _check_eigenvalues(cell, stated, xs):
    parts = cell.parts(cell.project(xs))
    if cell.scaled:
        parts, _ = scale_step(parts, torch.zeros(300, cell.heads, dtype=torch.float64))
    values, rounding = torch.linalg.eigvals(transition(parts)), 1e-7  # the root of rounding: equal ones may split
    assert values.abs().max() <= 1 + rounding
    if stated.startswith("constant"):
        assert torch.equal(values[:1].expand_as(values), values)
    if "complex" in stated:
        assert values.imag.abs().max() > 1e-4
        return
    low = eval(re.match(r"(.*) to 1$", stated)[1], {}, {"beta_max": getattr(cell, "beta_max", None)})
    assert values.imag.abs().max() < rounding
    assert values.real.min() >= low - rounding


def test_the_example_prints_what_it_shows(capsys):
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL).groups()
    exec(compile(code, "docs/modern.md", "exec"), {})
    assert capsys.readouterr().out == shown
