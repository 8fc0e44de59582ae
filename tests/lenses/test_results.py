"""The contract of `Result`, for every result that a lens returns and every file that an earlier version saved."""

import json
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from html import escape
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from mnemoscope import lenses, registry
from mnemoscope.lenses.result import Result
from tests.slow import representatives

SAVED = {path.stem: path for path in sorted((Path(__file__).parent / "saved").glob("*.safetensors"))}
"""Files that earlier versions saved, by the kind of their result; spaces in a kind are hyphens in the name."""
CLASSES = sorted(
    {
        member
        for name in dir(lenses)
        if isinstance(member := getattr(lenses, name), type) and issubclass(member, Result)
    },
    key=lambda member: member.__name__,
)
"""Every result class that the lenses export."""
CLASS_OF_KIND = {kind: cls for cls in CLASSES for kind in (cls.__name__, *cls.former_kinds)}


def kind_of(path):
    with safe_open(str(path), "pt") as file:
        return json.loads(file.metadata()["mnemoscope"])["kind"]


def assert_equal(result, other):
    """Assert that two results hold the same tensors and flags, bit for bit; NaN equals NaN."""
    tensors, flags = result.pack()
    other_tensors, other_flags = other.pack()
    assert {*tensors} == {*other_tensors}
    for name, tensor in tensors.items():
        assert tensor.dtype == other_tensors[name].dtype, name
        assert torch.allclose(tensor, other_tensors[name], rtol=0, atol=0, equal_nan=True), name
    assert json.dumps(flags, sort_keys=True) == json.dumps(other_flags, sort_keys=True)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_result_is_a_frozen_dataclass_with_a_noun_and_a_figure(cls):
    assert is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert cls.__repr__ is Result.__repr__, "use @dataclass(frozen=True, repr=False)"
    assert cls.summary is not Result.summary
    assert cls.noun
    assert cls.noun == cls.noun.strip().rstrip(".")
    figures = import_module(f"{cls.__module__.rpartition('.')[0]}.figure")
    assert callable(getattr(figures, cls.drawn_by))


@pytest.mark.parametrize("entry", registry.lenses, ids=lambda entry: entry.name)
def test_every_registered_lens_returns_such_a_result(entry):
    lens = entry.load()
    returned = lens if isinstance(lens, type) else get_type_hints(lens)["return"]
    assert returned in CLASSES


def test_no_two_results_claim_the_same_kind():
    kinds = [kind for cls in CLASSES for kind in (cls.__name__, *cls.former_kinds)]
    assert len(kinds) == len(set(kinds))


@pytest.fixture(params=SAVED)
def saved(request):
    """A file of an earlier version and the class that reads it."""
    path = SAVED[request.param]
    kind = kind_of(path)
    assert kind.replace(" ", "-") == path.stem
    assert kind in CLASS_OF_KIND, f"no result class reads the kind {kind!r}: add it to its former_kinds"
    return path, CLASS_OF_KIND[kind]


def test_a_saved_file_loads_and_survives_another_save(saved, tmp_path):
    path, cls = saved
    result = cls.load(path)
    assert type(result) is cls
    result.save(tmp_path / "again.safetensors")
    again = cls.load(tmp_path / "again.safetensors")
    assert_equal(result, again)
    assert again.summary() == result.summary()
    assert kind_of(tmp_path / "again.safetensors") == cls.__name__


def test_loading_keeps_every_saved_tensor(saved):
    path, cls = saved
    result = cls.load(path)
    with safe_open(str(path), "pt") as file:
        header = json.loads(file.metadata()["mnemoscope"])
        before = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    now = result.pack()[0]
    for name in {*before} & {*now}:
        tensor = before[name]
        if name in header["complex"]:
            tensor = torch.view_as_complex(tensor.clone())
        assert torch.allclose(tensor, now[name], rtol=0, atol=0, equal_nan=True), name


@representatives("Dependencies", "MemoryLoad", "Relations")
def test_the_notebook_view_has_the_summary_and_the_figure(saved):
    path, cls = saved
    result = cls.load(path)
    summary = result.summary()
    assert summary
    assert summary[-1] in ".!?"
    assert repr(result) == f"{cls.__name__}({summary})"
    html = result._repr_html_()
    assert escape(summary) in html
    assert 'src="data:image/png;base64,' in html


def test_to_dict_goes_through_json(saved):
    path, cls = saved
    result = cls.load(path)
    assert set(json.loads(json.dumps(result.to_dict()))) == {field.name for field in fields(cls)}


def test_loading_another_kind_names_what_was_expected(saved):
    path, cls = saved
    other = next(other for other in CLASSES if other is not cls)
    with pytest.raises(ValueError, match=f"does not hold {other.noun}"):
        other.load(path)


# --- fields of every type -------------------------------------------------------------------------------------------


class Colour(IntEnum):
    RED = 0
    BLUE = 1


@dataclass(frozen=True)
class Part:
    numbers: Tensor
    label: str = ""


@dataclass(frozen=True, repr=False)
class Toy(Result):
    noun = "a toy"
    drawn_by = "draw_toy"

    spectrum: Tensor
    part: Part | None = None
    colour: Colour = Colour.RED
    names: tuple[str, ...] = ()
    table: tuple[tuple[int, ...], ...] = ()
    rate: float | None = None
    vector: Tensor | None = None
    parts: tuple[Part, ...] = ()

    def summary(self) -> str:
        return "A <toy>."


@dataclass(frozen=True, repr=False)
class Unsaveable(Result):
    noun = "an unsaveable result"
    drawn_by = "draw_toy"

    function: object = print


def test_every_kind_of_field_survives_saving(tmp_path):
    shared = torch.arange(6.0).double()
    toy = Toy(
        torch.view_as_complex(shared.reshape(3, 2)),
        Part(shared[::2], "odd"),
        Colour.BLUE,
        ("a", "b"),
        ((1, 2), (3,)),
        0.5,
    )
    toy.save(tmp_path / "toy.safetensors")
    loaded = Toy.load(tmp_path / "toy.safetensors")
    assert_equal(toy, loaded)
    assert loaded.colour == Colour.BLUE
    assert loaded.names == ("a", "b")
    assert loaded.table == ((1, 2), (3,))
    assert loaded.part is not None
    assert loaded.part.label == "odd"
    assert loaded.rate == 0.5


@pytest.mark.parametrize("before", range(8))
def test_complex_numbers_load_from_any_position_in_the_file(before, tmp_path):
    """Earlier tensors and flags shift them by multiples of 8 bytes, where torch needs 16."""
    matrix = torch.randn(7, 7, dtype=torch.complex128)
    toy = Toy(
        matrix, Part(torch.randn(before, dtype=torch.float64)), names=("x" * before,), vector=matrix[:, 0].clone()
    )
    toy.save(tmp_path / "toy.safetensors")
    loaded = Toy.load(tmp_path / "toy.safetensors")
    assert_equal(toy, loaded)
    assert loaded.spectrum.data_ptr() % 16 == loaded.vector.data_ptr() % 16 == 0
    torch.testing.assert_close(loaded.spectrum @ loaded.vector, matrix @ matrix[:, 0])


def test_a_tuple_of_parts_keeps_its_order(tmp_path):
    toy = Toy(torch.zeros(1), parts=tuple(Part(torch.full((number,), 1.0), str(number)) for number in range(11)))
    toy.save(tmp_path / "toy.safetensors")
    loaded = Toy.load(tmp_path / "toy.safetensors")
    assert_equal(toy, loaded)
    assert [part.label for part in loaded.parts] == [str(number) for number in range(11)]
    assert len(toy.to_dict()["parts"]) == 11


def test_missing_parts_load_as_none(tmp_path):
    Toy(torch.zeros(2)).save(tmp_path / "toy.safetensors")
    loaded = Toy.load(tmp_path / "toy.safetensors")
    assert loaded.part is None
    assert loaded.rate is None


def test_to_dict_writes_complex_numbers_as_pairs_and_enums_by_name():
    content = Toy(torch.tensor([1 + 2j]), colour=Colour.BLUE).to_dict()
    assert content["spectrum"] == [[1.0, 2.0]]
    assert content["colour"] == "BLUE"
    assert content["part"] is None


def test_a_field_that_cannot_be_saved_is_named(tmp_path):
    with pytest.raises(
        TypeError, match=r"Unsaveable.function is a builtin_function_or_method.*override pack and unpack"
    ):
        Unsaveable().save(tmp_path / "unsaveable.safetensors")
    assert not list(tmp_path.iterdir())


def test_the_notebook_view_says_how_to_install_a_missing_extra(monkeypatch):
    def figure(self):
        raise ImportError("Figures need <matplotlib>.")

    monkeypatch.setattr(Toy, "figure", figure)
    html = Toy(torch.zeros(1))._repr_html_()
    assert "A &lt;toy&gt;." in html
    assert "Figures need &lt;matplotlib&gt;." in html
    assert "<img" not in html


def test_a_file_of_something_else_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"spectrum": torch.zeros(1)}, tmp_path / "plain.safetensors")
    with pytest.raises(ValueError, match="does not hold a toy saved by mnemoscope"):
        Toy.load(tmp_path / "plain.safetensors")


def test_errors_of_damaged_results_name_their_file(tmp_path):
    points = lenses.find_fixed_points(lenses.Dynamics(torch.nn.RNN(1, 2)))
    path = tmp_path / "points.safetensors"
    points.save(path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    entry = json.loads(header["__metadata__"]["mnemoscope"])
    damaged = [
        {**entry, "flags": []},
        {**entry, "flags": None},
        {"kind": entry["kind"]},
        {**entry, "complex": ["x"]},
        [],
    ]
    for wrong in [json.dumps(each) for each in damaged] + ["{", "[" * 100_000]:
        text = json.dumps({**header, "__metadata__": {"mnemoscope": wrong}}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
        with pytest.raises(ValueError, match=r"points\.safetensors"):
            lenses.FixedPoints.load(path)
    for name in ("states", "q"):
        text = json.dumps({key if key != name else "other": value for key, value in header.items()}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
        with pytest.raises(ValueError, match=r"points\.safetensors"):
            lenses.FixedPoints.load(path)
    path.write_bytes(content[:100])
    with pytest.raises(ValueError, match=r"points\.safetensors"):
        lenses.FixedPoints.load(path)


def test_infinite_weights_behind_tanh_are_refused():
    network = torch.nn.RNN(1, 2)
    torch.nn.init.constant_(network.weight_hh_l0, torch.inf)
    with pytest.raises(ValueError, match="NaN or infinite"):
        lenses.Dynamics(network)
