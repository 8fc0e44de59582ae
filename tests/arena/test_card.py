"""The memory card: six answers for every kind of network, its files, and its place in an arena."""

import json
import re
from dataclasses import replace
from math import nan

import pytest
import torch

import mnemoscope as ms
from mnemoscope.arena.card import cost
from mnemoscope.arena.card.amount import how_much
from mnemoscope.arena.card.answers import QUESTIONS, Entry, Line, not_applicable
from mnemoscope.arena.card.build import _duration
from mnemoscope.arena.card.cost import what_it_costs
from mnemoscope.arena.card.duration import _half_life, how_long
from mnemoscope.arena.card.failures import how_it_fails
from mnemoscope.arena.card.figure import page_bytes
from mnemoscope.arena.card.mechanism import Rest, by_which_mechanism
from mnemoscope.arena.card.panels import draw_arena_skill, draw_task_skill
from mnemoscope.arena.card.remembered import what_it_remembers
from mnemoscope.arena.card.subject import Subject
from mnemoscope.cells import Layout, Model
from mnemoscope.cli.entry_point import main
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.inspection import InspectionOptions
from mnemoscope.inspection.duration import Duration, inspect_duration
from mnemoscope.lenses import MemoryCapacity
from mnemoscope.lenses.exact_influence.summaries import half_life
from mnemoscope.tasks import Copy, FlipFlop, KeyValueRecall, Parity
from mnemoscope.training import build_model, build_task
from tests.arena.test_result import run, table
from tests.slow import SLOW, representatives

pytestmark = pytest.mark.xdist_group("card")  # make the card once, not in each process
QUIET = InspectionOptions(progress=False, starts=8)
BIT = {"bits": 1, "length": 10}
COPY = {"delay": 3, "symbols": 2, "alphabet": 3}
NETWORKS = {
    "tanh": ("elman", "flipflop", BIT),
    "gru": ("gru", "copy", COPY),
    "lstm": ("lstm", "parity", {"longest": 6, "test_shortest": 4, "test_longest": 8}),
    "deltanet": ("deltanet", "mqar", {"vocabulary": 16, "pairs": 2, "length": 8}),
    "mamba2": ("mamba2", "parity", {"longest": 6, "test_shortest": 4, "test_longest": 8}),
    "relrnn": ("relrnn", "copy", COPY),
    "memrnn": ("memrnn", "copy", COPY),
    "ntm": ("ntm", "copy", COPY),
    "adding": ("gru", "adding", {"length": 10}),
    "binding": ("elman", "binding", {}),
    "trials": ("leaky-rnn", "delayed-match", {}),
    "compression": ("gru", "mad-compression", {"vocabulary": 6, "length": 8, "examples": 64}),
    "relational": ("esbn", "same-different", {}),
}
"""Cell, task and options of a network of every kind."""


def config_of(name):
    cell, task, options = NETWORKS[name]
    sizes = {} if name == "relational" else {"hidden_size": 8}
    return ms.RunConfig(name, task=task, task_options=options, cell=cell, steps=1, evaluate_batches=1, **sizes)


def model_of(name):
    config = config_of(name)
    torch.manual_seed(0)
    task = build_task(config)
    return build_model(config, task), task


@pytest.fixture(scope="module", autouse=True)
def few_timed_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "STEPS", 8)
        yield


@pytest.fixture(scope="module")
def card():
    torch.manual_seed(0)
    model = Model(ms.cells.GRU(1, 3), output_size=1)
    return ms.memory_card(model, FlipFlop(**BIT), name="a bit", trained=False, options=QUIET)


def subject_of(name):
    model, task = model_of(name)
    return Subject(model.eval(), task, 0, QUIET)


@representatives("relrnn")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_six_answers_with_numbers_or_reasons(name):
    model, task = model_of(name)
    made = ms.memory_card(model, task, trained=False, options=QUIET)
    assert [answer.key for answer in made.answers] == list(QUESTIONS)
    names = {answer.key: [entry.name for entry in answer.entries] for answer in made.answers}
    assert "Fisher memory" in names["amount"]
    assert "trainable parameters" in names["cost"]
    for entry in (entry for answer in made.answers for entry in answer.entries):
        if entry.status == "measured":
            assert entry.value is not None or entry.note, entry.name
            assert not entry.reason
        else:
            assert entry.value is None
            assert entry.reason.endswith((".", "!")), entry
    assert json.loads(json.dumps(made.to_dict(), allow_nan=False))["answers"]
    if name != "relrnn":  # the drawing takes a second
        assert page_bytes(made, "svg").startswith(b"<?xml")


def test_a_card_says_that_its_network_was_not_trained(card):
    assert card.training == "The network was not trained."
    assert card["failures"]["tolerated noise"].value is None
    assert "a bit" in card.summary()
    assert repr(card) == "MemoryCard(a bit)"


@pytest.fixture
def undrawn_page(monkeypatch, undrawn):
    """Write the name of the format in place of the page, whose drawing takes seconds."""
    monkeypatch.setattr("mnemoscope.arena.card.files.page_bytes", lambda card, kind: kind.encode())


@pytest.mark.usefixtures("undrawn_page")
def test_a_saved_card_is_read_back(card, tmp_path):
    card.save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["card.html", "card.json", "card.pdf", "card.svg"]
    again = ms.MemoryCard.load(tmp_path)
    assert again == card
    assert again.to_dict() == card.to_dict()
    page = (tmp_path / "card.html").read_text()
    assert all(question in page for question in QUESTIONS.values())
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", page)  # it loads nothing else
    (tmp_path / "card.pdf").unlink()
    (tmp_path / "card.pdf").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="symbolic link"):
        card.save(tmp_path)


def test_the_page_is_the_same_for_the_same_card_and_its_text_is_text(card):
    again = replace(card, answers=tuple(replace(answer) for answer in card.answers))
    svg = page_bytes(card, "svg")
    assert svg == page_bytes(again, "svg")
    assert b">What does it remember?</text>" in svg  # not outlines


def test_a_file_that_is_no_card_is_refused(card, tmp_path):
    file = tmp_path / "card.json"
    content = card.to_dict()
    file.write_text(json.dumps({**content, "kind": "else"}))
    with pytest.raises(ValueError, match="not a memory card saved by mnemoscope"):
        ms.MemoryCard.load(file)
    content["answers"][0]["entries"][0]["colour"] = "red"
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="as this version of mnemoscope saves it"):
        ms.MemoryCard.load(file)


def test_unknown_names_are_refused_with_the_known_ones(card):
    with pytest.raises(KeyError, match="there are remembered, duration"):
        card["price"]
    with pytest.raises(KeyError, match="there are trainable parameters, state"):
        card["cost"]["colour"]
    with pytest.raises(ValueError, match="pass memory_card"):
        ms.memory_card(Model(ms.cells.GRU(1, 3), output_size=1))
    with pytest.raises(ValueError, match="A run knows its task"):
        ms.memory_card("runs/nowhere", trained=True)


def test_entries_write_numbers_with_units_intervals_and_bounds():
    assert Entry("x", 1, "steps").text() == "1 step"
    assert Entry("x", 0.5, "%", 0.25, 0.75, "95%", note="of all").text() == "50.0% (25.0% to 75.0%), of all"
    assert Entry("x", 0.9999, "%").text() == "99.99%"
    assert Entry("x", 0.9999).text() == "0.9999"
    assert Entry("x", 1 - 1e-7, "%").text() == "99.99%"  # one of many answers is wrong
    assert Entry("x", 1 - 1e-7).text() == "0.9999"
    assert Entry("x", 12345, "numbers").text() == "12,345 numbers"
    assert Entry("x", 0.123456, "s", bound="at least").text() == "at least 0.123 s"
    assert Entry("x", note="a ring").text() == "a ring"
    assert not_applicable("x", "It has none.").text() == "not applicable: It has none."


def test_lines_keep_what_is_known():
    nan = float("nan")
    line = Line.known("x", [0, 1, 2], [1.0, nan, 3.0], [0.5, nan, 2.5], [1.5, nan, 3.5])
    assert (line.x, line.y, line.low, line.high) == ((0, 2), (1, 3), (0.5, 2.5), (1.5, 3.5))
    assert Line.known("x", [0, 1], [1.0, 2.0], [nan, 1.0], [2.0, 3.0]).low == ()


def test_the_state_of_a_growing_network_is_counted_after_a_sequence():
    subject = subject_of("memrnn")
    found = what_it_costs(subject)
    inputs = subject.batch.inputs[:, :1]
    states = [ms.scan(subject.cell, inputs[:steps])[1] for steps in (1, len(inputs))]
    first, last = (Layout(state).size for state in states)
    assert found["state"].value == last > first
    assert found["state added by each step"].value == (last - first) / (len(inputs) - 1)
    assert found["memory of the state"].value == 4 * last
    trained = sum(weight.numel() for weight in subject.model.parameters())
    assert found["trainable parameters"].value == trained
    subject.model.readout.weight.requires_grad_(False)
    fixed = subject.model.readout.weight.numel()
    assert what_it_costs(subject)["trainable parameters"].text() == f"{trained - fixed}, and {fixed} fixed"
    assert found["time of one step"].value > 0


def test_the_time_of_a_step_does_not_include_forming_the_matrix(monkeypatch):
    formed = []
    cell = ms.networks.exprnn(3, 4)
    form = type(cell.connectivity).forward
    monkeypatch.setattr(type(cell.connectivity), "forward", lambda self: formed.append(0) or form(self))
    cost.time_steps(Subject(Model(cell, output_size=3).eval(), FlipFlop(3, 10), 0, QUIET))
    assert len(formed) == 1


def test_a_capacity_that_is_estimated_below_zero_is_shown_as_zero():
    capacity = MemoryCapacity(torch.tensor([-0.03]), torch.tensor(-0.03), 8, "", torch.tensor([0.5]), 0.5)
    subject = subject_of("gru")
    entry = how_much(subject, Duration(capacity=capacity), None)["memory capacity"]
    assert (entry.value, entry.low, entry.high) == (0.0, 0.0, pytest.approx(0.97))
    assert entry.text() == "0 past signals (0 to 0.97), at most 8; linear readouts; estimated below 0"


def test_the_length_of_recall_follows_from_its_load():
    torch.manual_seed(0)
    task = KeyValueRecall(keys=6, values=3, fewest=2, most=2, queries=2)
    found = how_it_fails(Subject(Model(ms.cells.GRU(9, 4), output_size=3), task, 0, QUIET))
    assert found["accuracy at 2 x length"].reason == "The length of this task follows from its number of pairs."
    assert found["accuracy at 2 x load"].note == "number of pairs 4"
    assert found["accuracy at 4 x load"].reason == "The task cannot have a number of pairs of 8."
    load = found.line("load")
    assert load.x == (0.5, 1.0, 1.5, 2.0)
    assert all(low <= y <= high for low, y, high in zip(load.low, load.y, load.high, strict=True))


def test_noise_of_zero_has_the_accuracy_of_the_first_answer():
    torch.manual_seed(0)
    subject = Subject(Model(ms.cells.GRU(5, 8), output_size=4), Copy(**COPY), 0, QUIET)
    noise = how_it_fails(subject).line("noise")
    assert noise.x[0] == 0
    assert noise.y[0] == pytest.approx(subject.accuracy.mean)
    assert noise.low[0] == pytest.approx(subject.accuracy.low)


def test_an_advantage_within_its_interval_decides_no_tolerance():
    torch.manual_seed(1)
    task = Parity(longest=4, test_shortest=4, test_longest=4)
    model = Model(ms.cells.GRU(4, 4), task.output_size, torch.nn.Embedding(task.input_size, 4))
    subject = Subject(model, task, 0, QUIET)
    assert subject.accuracy.low <= subject.chance
    entry = how_it_fails(subject)["tolerated noise"]
    assert entry.status in ("not decided", "not applicable")


def test_the_accuracy_at_longer_spans_has_that_without_memory_there():
    subject = Subject(Model(ms.cells.GRU(1, 3), output_size=1).eval(), FlipFlop(bits=1, length=10), 0, QUIET)
    entry = how_it_fails(subject)["accuracy at 4 x length"]
    assert entry.note == "holding time 36; 50.0% without memory"
    assert FlipFlop(bits=1, length=10).at(36).chance() == pytest.approx(0.5, abs=5e-4)
    assert subject.chance > 0.52


def test_a_network_is_placed_in_an_arena():
    config = replace(config_of("tanh"), cell="gru", task="parity", task_options={})
    model, task = model_of("lstm")
    subject = Subject(model, task, 0, QUIET, config)
    own = run(seed=1, accuracy=0.9, hash=config.hash)
    arena = table(own, run(seed=2, accuracy=0.7), run("elman", seed=1, accuracy=0.5))
    name = next(each.name for each in arena.arena.networks if each.cell == "gru")
    found = what_it_remembers(subject, arena)
    skill = arena.mean_skill(name)[0]
    assert found["skill in the arena"].value == skill
    assert found["skill in the arena"].note.startswith("rank 1 of ")
    assert found["arena: accuracy of gru on parity"].value == pytest.approx(0.8)
    assert found.line("networks of the arena").labels == tuple(arena.points())
    assert found.line("this network in the arena").labels == (name,)
    others = what_it_remembers(subject, table(run(), run("elman", accuracy=0.5)))
    assert others["skill in the arena"].note.startswith("not of this run: of gru, mean over 1 task")
    assert others.line("this network in the arena") is None  # a network of another size or recipe was trained there
    behind = table(own, run("elman"), run("deltanet"), run("deltanet", "recall"))
    unranked = what_it_remembers(subject, behind)
    assert "no rank as gru, mean over 1 task;" in unranked["skill in the arena"].note
    assert unranked.line("this network in the arena") is None  # its mean is over other tasks than those of the others
    other = what_it_remembers(replace(subject, config=replace(config, cell="lstm")), arena)
    assert "has no such network" in other["skill in the arena"].reason
    assert other.line("this network in the arena") is None
    by_run = table(run(hash=replace(config, cell="lstm").hash))
    placed = what_it_remembers(replace(subject, config=replace(config, cell="lstm")), by_run)
    assert f"as {name}," in placed["skill in the arena"].note
    nothing = what_it_remembers(subject, None)
    assert nothing["skill in the arena"].status == "not decided"
    assert "--arena FILE" in nothing["skill in the arena"].reason


def texts_of(answer, panel):
    axes = new_figure(3, 2).add_subplot()
    panel(axes, answer, LIGHT, 7)
    return [text.get_text() for text in axes.texts], axes


def test_the_first_row_separates_the_task_from_the_arena():
    model, task = model_of("lstm")
    config = replace(config_of("tanh"), cell="gru", task="parity", task_options={})
    subject = Subject(model, task, 0, QUIET, config)
    answer = what_it_remembers(subject, None)
    texts, axes = texts_of(answer, draw_task_skill)
    assert texts == ["on its task"]
    assert axes.lines[0].get_xdata().tolist() == [subject.state_size]
    texts, axes = texts_of(answer, draw_arena_skill)
    assert texts == ["arena: mean over tasks", "not decided"]
    assert len(axes.lines) == 1  # the line of chance
    own = run(accuracy=0.9, hash=config.hash)
    answer = what_it_remembers(subject, table(own, run("elman", accuracy=0.7, state=9)))
    texts, axes = texts_of(answer, draw_arena_skill)
    assert texts == ["gru", "arena: mean over tasks"]
    front, networks, place = (line.get_ydata().tolist() for line in axes.lines[:3])
    assert front == place == pytest.approx([0.8])  # the elman has more numbers in its state and is worse
    assert networks == pytest.approx([0.4, 0.8])
    empty = what_it_remembers(subject_of("relational"), None)
    assert texts_of(empty, draw_task_skill)[0] == ["on its task", "no state"]


def test_the_skill_of_a_network_is_0_at_chance_and_1_without_error():
    subject = subject_of("tanh")
    found = what_it_remembers(subject, None)
    skill, chance = found.line("skill on its task"), subject.chance
    assert skill.x == (subject.state_size,)
    assert skill.y[0] == found["skill on its task"].value
    assert skill.y[0] == pytest.approx((subject.accuracy.mean - chance) / (1 - chance))
    values = what_it_remembers(subject_of("adding"), None)
    assert values["skill on its task"].status == "not applicable"
    assert texts_of(values, draw_task_skill)[0] == ["on its task", "not applicable"]


def test_padding_is_no_part_of_what_a_card_measures():
    subject = subject_of("mamba2")
    found = _duration(subject)
    lengths = subject.task.lengths_of(subject.batch)
    assert torch.equal(found.influence.lengths, lengths[: len(found.influence.lengths)])
    expected = ms.measure_influence(subject.model, subject.batch.inputs, lengths=lengths)
    assert torch.equal(found.measured_influence.outputs.nan_to_num(-1), expected.outputs.nan_to_num(-1))
    fisher = how_much(subject, found, None)["Fisher memory"]
    encoded = subject.model.encode(subject.batch.inputs[:, :8]).detach()
    memory = ms.fisher_memory(subject.cell, along=encoded, lengths=lengths[:8])
    assert fisher.value == pytest.approx(float(memory.remaining.nan_to_num(nan=0.0).sum(-1).mean()))


@pytest.mark.parametrize(
    ("curve", "text"),
    [
        ([0.1, 0.9, 0.8, 0.2], "2 steps"),
        ([1.0, 0.4, 0.2, 0.3, 0.6, 0.1], "4 steps, first below half at lag 1"),
        ([1.0, nan, 0.2, 0.9], "at least 3 steps, the longest lag measured; first below half at lag 2"),
        ([0.0, nan], "not applicable: Inputs have no effect."),
    ],
)
def test_the_half_life_names_an_effect_that_falls_and_returns(curve, text):
    assert _half_life("half-life", torch.tensor(curve)).text() == text


def test_affine_layers_have_the_memory_of_their_values_and_their_operators():
    subject = subject_of("deltanet")
    wanted = ("influence", "transitions").__contains__
    found = inspect_duration(subject.model, subject.batch.inputs, QUIET, wanted=wanted)
    fisher = how_much(subject, found, None)["Fisher memory"]
    assert fisher.unit == "writes"
    assert 0 < fisher.low <= fisher.value <= fisher.high
    encoded = subject.model.encode(subject.batch.inputs[:, :8]).detach()
    memory = ms.fisher_memory(subject.cell, along=encoded)
    assert fisher.value == pytest.approx(float(memory.remaining.sum(-1).mean()))
    mechanism = by_which_mechanism(subject, found, Rest(reason="It is not searched for."))
    assert mechanism["fixed points"].text() == "not applicable: It is not searched for."
    assert "of steps" in mechanism["what a step does"].note
    assert max(map(abs, mechanism.line("operators of steps").y)) < 1e-6  # the eigenvalues of the delta rule are real
    values = how_long(subject, found)["half-life of written values"]
    assert values.value == float(half_life(found.influence.longest.value_curves.nanmean(0)))


@pytest.mark.usefixtures("undrawn_page")
def test_the_command_passes_its_options_and_prints_the_card(card, tmp_path, capsys, monkeypatch):
    given = {}

    def made(folder, **options):
        given.update(options)
        return card

    monkeypatch.setattr("mnemoscope.arena.memory_card", made)
    table(run()).save(tmp_path / "arena.json")
    words = ["card", str(tmp_path), "--arena", str(tmp_path / "arena.json"), "--seed", "3", "--full", "--json"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out) == {**card.to_dict(), "folder": str(tmp_path / "out")}
    assert given["arena"].networks == table(run()).networks
    assert (given["options"].seed, given["options"].full) == (3, True)
    assert given["options"].command == f"mnemoscope card {tmp_path} --arena {tmp_path}/arena.json --seed 3 --full"
    assert main(["card", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{card.summary()}\nCard: {tmp_path}/card.pdf\n"
    assert main(["card", str(tmp_path / "nowhere")]) == 2
    assert "the folder of a run" in capsys.readouterr().err


@SLOW
def test_the_command_makes_the_card_of_a_run(tmp_path, capsys):
    trained = ms.train(config_of("tanh"), tmp_path / "runs", progress=False)
    assert main(["card", str(trained.folder)]) == 0
    again = ms.MemoryCard.load(trained.folder)
    assert capsys.readouterr().out.startswith(again.summary())
    assert again.provenance["run"] == f"tanh/{trained.folder.name}"
    assert again.provenance["command"] == f"mnemoscope card {trained.folder}"
    assert again.training.startswith("Trained for 1 steps with seed 0.")
    assert "sussillo2013" in again.cites
    assert (trained.folder / "card.pdf").read_bytes() == page_bytes(again, "pdf")
    assert main(["cite", str(trained.folder)]) == 0
    assert "sussillo2013" in capsys.readouterr().out
