"""The runs of an arena: sizes, tuning, slices that resume, results, energy, and the command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mnemoscope.arena import ArenaTable, MemoryCard, TrainedRun, add_networks, read_arena
from mnemoscope.arena.card.answers import QUESTIONS, Answer, Entry, not_applicable
from mnemoscope.arena.card_table import SHOWN, load_cards
from mnemoscope.arena.definition import Arena, ArenaTask, Entrant, Match, arena_names
from mnemoscope.arena.energy import FILE, NVML, EnergyMeter, measured_joules
from mnemoscope.arena.measurement import arena_job, run_entry
from mnemoscope.arena.network_cards import described_run
from mnemoscope.arena.plan import chosen_rate, matched_sizes, planned_cells, planned_runs
from mnemoscope.arena.runner import collect_runs, run_arena
from mnemoscope.arena.status import status_rows
from mnemoscope.cli import main
from mnemoscope.config.run_config import RunConfig
from mnemoscope.engines import Job, Local, Outcome
from mnemoscope.networks import count_parameters, count_state, find_size
from mnemoscope.training import build_model, build_task
from mnemoscope.training.callbacks import StartInfo, StepInfo
from mnemoscope.training.run_folder import RunFolder
from tests.slow import SLOW

TINY = read_arena("tiny")
SETTINGS = {"steps": 4, "evaluate_every": 2, "batch_size": 4, "evaluate_batches": 1}
ARENA = replace(
    TINY.part(["gru", "deltanet"], ["parity"]),
    tasks=tuple(replace(task, settings=SETTINGS) for task in TINY.part(tasks=["parity"]).tasks),
)
"""Two networks on one task: two rates and two seeds each, in milliseconds."""
SIZES = {("gru", "parity"): 14, ("deltanet", "parity"): 22}
"""Hidden sizes of these networks."""


def counted(arena, planned):
    config = planned.config
    task = build_task(config)
    model = build_model(config, task)
    return count_parameters(model), count_state(model.cell, len(task.batch(1, 0, 0).mask))


def test_the_size_is_the_best_of_all_sizes():
    for power, multiple in ((1, 1), (1.5, 2), (2, 8)):
        for target in (1, 7, 100, 999):
            sizes = range(multiple, 1100, multiple)
            best = min(abs(int(size**power) - target) for size in sizes)
            for start in (None, multiple, 40 * multiple):
                found = find_size(lambda size: int(size**power), target, multiple, start)  # noqa: B023
                assert abs(int(found**power) - target) == best


def test_networks_of_an_arena_have_about_as_many_parameters():
    assert matched_sizes(ARENA) == SIZES
    for planned, _ in planned_runs(TINY, matched_sizes(TINY), ()):
        assert counted(TINY, planned)[0] == pytest.approx(1500, rel=TINY.match.tolerance)


def test_networks_of_an_arena_can_have_about_as_many_numbers_in_the_state():
    arena = replace(ARENA, match=Match(state=64, tolerance=0.2))
    sizes = {
        planned.network: counted(arena, planned)[1] for planned, _ in planned_runs(arena, matched_sizes(arena), ())
    }
    assert sizes == {"gru": 64, "deltanet": 64}


def test_a_size_that_no_network_has_is_an_error_with_the_closest_one():
    gru = replace(ARENA.networks[0], multiple=64)
    with pytest.raises(
        ValueError, match="'gru' cannot have about 1,500 parameters on the task 'parity': it comes closest"
    ):
        matched_sizes(replace(ARENA, networks=(gru,)))


@SLOW
@pytest.mark.parametrize("name", arena_names())
def test_every_arena_of_the_package_can_be_planned(name):
    arena = read_arena(name)
    runs = list(planned_runs(arena, matched_sizes(arena), ()))
    assert len({planned.config.hash for planned, _ in runs}) == len(runs)
    for task in {planned.task.name: planned for planned, _ in runs}.values():
        for span in task.task.longer:
            build_task(task.config).at(span).batch(2, 0, 0, "validation")


def test_the_arena_of_the_results_is_as_large_as_promised():
    arena = read_arena("memory")
    assert len(arena.networks) >= 16
    assert len(arena.tasks) >= 12
    assert len(arena.seeds) == 3
    assert 100_000 <= arena.match.target <= 1_000_000


def tuned(rate, accuracy, steps=100, loss=0.1):
    return TrainedRun("gru", "parity", 0, rate, 8, 100, 8, "-", 0, accuracy, loss, steps)


@pytest.mark.parametrize(
    ("runs", "best"),
    [
        ([tuned(0.1, 0.6), tuned(0.2, 0.9), tuned(0.3, 0.8)], 0.2),
        ([tuned(0.1, 0.9, loss=0.3), tuned(0.2, 0.9, loss=0.2)], 0.2),
        ([tuned(0.1, 0.9995, steps=90), tuned(0.2, 0.999, steps=80)], 0.2),  # both reached the target
        ([tuned(0.1, None), tuned(0.2, 0.1)], 0.2),
        ([tuned(0.2, 0.5), tuned(0.1, 0.5)], 0.1),  # the order of equal runs does not matter
        ([tuned(0.1, None)], None),
    ],
)
def test_the_rate_of_the_most_accurate_tuning_run_is_chosen(runs, best):
    assert chosen_rate(runs, target=0.999) == best


def test_an_arena_tunes_first_and_repeats_nothing(tmp_path):
    ended = []
    first = run_arena(ARENA, tmp_path, progress=False, report=ended.append)
    assert (first.finished, first.failed) == (8, [])
    assert first.states == {"finished": 2, "interrupted": 0, "failed": 0, "left": 0}
    assert [line.partition(": ")[2] for line in ended] == ["gru on parity", "deltanet on parity"]
    for network in ("gru", "deltanet"):
        cell, tuning = first.table.cell(network, "parity"), first.table.tuning_runs(network, "parity")
        assert {run.learning_rate for run in tuning} == {0.005, 0.02}
        assert cell.learning_rate == chosen_rate(tuning)
        assert [run.seed for run in cell.runs] == [1, 2]
        assert len(cell.longer) == 2
        run = cell.runs[0]
        folder = RunFolder(tmp_path / "arenas" / "tiny" / f"{network}.parity" / run.hash)
        model, _, config = folder.load_model()
        assert (config.hidden_size, config.seed, run.parameters) == (run.hidden_size, 1, count_parameters(model))
        assert run.accuracy == pytest.approx(folder.read_result().scores["accuracy"], rel=1e-4)
        assert run.curve == pytest.approx([line["accuracy"] for line in folder.read_metrics()], abs=1e-3)
        assert run.state == count_state(model.cell)
    again = run_arena(ARENA, tmp_path, progress=False)
    assert (again.finished, sum(again.states.values())) == (0, 0)
    assert again.table == first.table
    elsewhere = run_arena(ARENA, tmp_path / "empty", known=first.table, progress=False)
    assert sum(elsewhere.states.values()) == 0
    assert elsewhere.table == first.table


def test_runs_with_other_settings_than_the_arena_are_left_out(tmp_path):
    table = run_arena(ARENA, tmp_path, progress=False).table
    changed = replace(ARENA, training={**ARENA.training, "clip": 0.5})
    assert len(collect_runs(ARENA, None, table).runs) == 8
    assert collect_runs(changed, tmp_path, table).runs == ()


class Interrupting(Local):
    """Run the first jobs in this process; the time is over after `number` of them."""

    def __init__(self, number):
        self.number, self.started, self.offered = number, [], []

    def events(self, jobs, seconds=None):
        self.offered = jobs
        for job in jobs[: self.number]:
            self.started.append(job)
            job.run()
            yield Outcome(job, 1.0)
        self.number = 0


def test_a_slice_leaves_the_rest_to_the_next_one(tmp_path):
    engine = Interrupting(1)
    result = run_arena(ARENA, tmp_path, engine=engine, minutes=9, progress=False)
    assert result.finished == 4
    assert result.states == {"finished": 1, "interrupted": 0, "failed": 0, "left": 1}
    assert all(job.least_seconds == ARENA.tasks[0].seconds for job in engine.started)
    rows = status_rows(result.table, matched_sizes(ARENA))
    assert [(row["task"], row["runs done"], row["left"]) for row in rows] == [("parity", 4, 4), ("all", 4, 4)]
    rest = run_arena(ARENA, tmp_path, progress=False)
    assert rest.finished == 4
    assert status_rows(rest.table, matched_sizes(ARENA))[-1]["left"] == 0


def test_a_cell_whose_tuning_was_interrupted_chooses_among_all_its_rates(tmp_path):
    cell = next(planned_cells(ARENA, SIZES))
    first, home = cell.tuning[0], tmp_path / "arenas" / ARENA.name
    run_entry(vars(first.config), first.task.longer, home)
    table = collect_runs(ARENA, tmp_path, sizes=SIZES)
    job = arena_job(ARENA.name, cell, table.runs, tmp_path)
    assert job is not None
    left = [run["settings"]["learning_rate"] for run in job.arguments["tuning"]]
    assert left == [cell.tuning[1].config.learning_rate]
    Job.from_json(job.as_json()).run()
    table = collect_runs(ARENA, tmp_path, sizes=SIZES)
    tuning = table.tuning_runs("gru", "parity")
    assert {run.learning_rate for run in table.cell("gru", "parity").runs} == {chosen_rate(tuning)}
    assert arena_job(ARENA.name, cell, table.runs, tmp_path) is None


def test_a_known_run_is_not_repeated_while_its_tuning_is_incomplete(tmp_path):
    table = run_arena(ARENA, tmp_path, progress=False).table
    wider = replace(ARENA, tuning=replace(ARENA.tuning, learning_rates=(*ARENA.tuning.learning_rates, 0.03)))
    engine = Interrupting(0)
    run_arena(wider, tmp_path / "empty", known=table, engine=engine, progress=False)
    cell, known = next(planned_cells(wider, SIZES)), {run.hash for run in table.runs}
    job = arena_job(ARENA.name, cell, table.runs, tmp_path)
    assert job is not None
    planned = [RunConfig(**run["settings"]).hash for each in job.arguments["tables"] for run in each["runs"]]
    assert not known & {*planned}
    assert len(engine.offered) == 2
    offered = [run for sent in engine.offered for each in sent.arguments["tables"] for run in each["runs"]]
    assert not known & {RunConfig(**run["settings"]).hash for run in offered}


def test_minutes_need_an_engine_with_a_clock():
    with pytest.raises(ValueError, match="minutes limits the engine local"):
        run_arena(ARENA, minutes=9, progress=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_an_arena_for_a_gpu_fails_early_without_one():
    with pytest.raises(ValueError, match="trains on a GPU, and torch finds none here"):
        run_arena(ARENA.on("cuda"), progress=False)


def test_a_task_with_a_data_set_is_refused():
    task = ArenaTask("digits", "smnist", 1)
    with pytest.raises(ValueError, match="rates would be chosen on the test split"):
        run_arena(replace(ARENA, tasks=(task,), empty=()), progress=False)


def test_a_run_that_does_not_stay_finite_is_recorded_and_fills_no_cell(tmp_path):
    relu = Entrant("relu", "elman", "plain", {"nonlinearity": "relu"}, multiple=2)
    arena = replace(ARENA, networks=(relu,), tuning=replace(ARENA.tuning, learning_rates=(1e25,)))
    table = run_arena(arena, tmp_path, progress=False).table
    assert [run.accuracy for run in table.runs] == [None]
    assert "did not stay finite" in table.cell("relu", "parity").reason
    assert status_rows(table, matched_sizes(arena))[-1]["left"] == 0


class Counters:
    """A GPU with a given power that is shared by some processes."""

    def __init__(self, watts, processes):
        self.now, self.watts, self.shared = 0.0, watts, processes

    def joules(self):
        return 1000 + self.watts * self.now

    def processes(self):
        return self.shared


def train_with(meter, gpu, folder, steps):
    config = next(planned_runs(ARENA, SIZES, ()))[0].config
    model = build_model(config, build_task(config))
    meter.on_start(StartInfo(config, folder, [], 0.0))
    for step in range(steps):
        gpu.now += 0.25
        meter.on_step(StepInfo(step, 0.0, None, model))
    meter.close()


def test_processes_share_the_energy_of_a_gpu_also_after_an_interruption(tmp_path):
    gpu = Counters(watts=600, processes=30)
    for _ in range(2):
        train_with(EnergyMeter(gpu, clock=lambda: gpu.now), gpu, tmp_path, 41)
        gpu.now += 100  # in between, the run does not train
    assert measured_joules(tmp_path, seconds=20.5) == pytest.approx(20.5 * 600 / 30)
    assert measured_joules(tmp_path, seconds=41) == pytest.approx(41 * 600 / 30)  # half of the time was not recorded


def test_energy_is_unknown_if_the_gpu_does_not_report_it(tmp_path):
    gpu = Counters(watts=600, processes=None)
    train_with(EnergyMeter(gpu, clock=lambda: gpu.now), gpu, tmp_path, 10)
    assert json.loads((tmp_path / FILE).read_text())["joules"] is None
    assert measured_joules(tmp_path, 1.0) is None
    (tmp_path / "cpu").mkdir()
    train_with(EnergyMeter(None), gpu, tmp_path / "cpu", 10)
    assert measured_joules(tmp_path / "cpu", 1.0) is None


class Library:
    """The functions of NVIDIA's management library that are called."""

    def __init__(self, energy_answer=0):
        self.energy_answer = energy_answer

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetHandleByUUID(self, identifier, device):
        return 0 if identifier == b"GPU-1" else 6

    def nvmlDeviceGetTotalEnergyConsumption(self, device, value):
        value._obj.value = 2500
        return self.energy_answer

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device, number, infos):
        number._obj.value = 7
        return 7  # too little memory for the list


def test_the_counters_of_a_gpu_are_read_from_the_library_of_its_driver():
    counters = NVML("GPU-1", Library())
    assert (counters.joules(), counters.processes()) == (2.5, 7)
    assert NVML("GPU-1", Library(energy_answer=3)).joules() is None
    with pytest.raises(OSError, match="error 6"):
        NVML("GPU-2", Library())


@pytest.fixture
def arena_file(tmp_path, monkeypatch, undrawn):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        """
        name = "mine"
        seeds = [1]
        match = { parameters = 400, tolerance = 0.5 }
        tuning = { learning_rates = [0.01] }
        training = { steps = 2, evaluate_every = 1, batch_size = 4, evaluate_batches = 1 }
        [[network]]
        name = "gru"
        cell = "gru"
        kind = "gated"
        multiple = 2
        [[task]]
        name = "parity"
        task = "parity"
        task_options = { longest = 8, test_shortest = 3, test_longest = 8 }
        seconds = 1
        """
    )
    return tmp_path / "mine.toml"


def test_the_command_runs_collects_and_writes_the_page(arena_file, capsys):
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    out = capsys.readouterr().out
    assert "1 network x 1 task x 1 seed at" in out
    assert "2 runs finished." in out
    assert "cards/parity/gru/card.html" not in (arena_file.parent / "runs/arenas/mine/page.html").read_text()
    (arena_file.parent / "cards/parity/gru").mkdir(parents=True)
    (arena_file.parent / "cards/parity/gru/card.html").write_text("a memory card")
    assert main(["arena", "mine.toml", "--collect", "--page", "page.html", "--markdown", "table.md", "--status"]) == 0
    collected = ArenaTable.load("results/arena/mine.json")
    assert len(collected.runs) == 2
    page = (arena_file.parent / "page.html").read_text()
    assert '<a href="cards/parity/gru/card.html">0.' in page  # the accuracy of the table leads to the card
    run = collected.cell("gru", "parity").runs[0].hash
    assert f'href="runs/arenas/mine/gru.parity/{run}/"' in page
    assert "| gru |" in (arena_file.parent / "table.md").read_text()
    capsys.readouterr()
    assert main(["arena", "mine.toml", "--root", "nowhere", "--status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["left"] == 0  # the results have all runs


@pytest.fixture
def made_cards(monkeypatch):
    """Return the folders of the runs whose cards are made; the cards have the title of their run, and no figures.

    Load has a meaning on recall alone.
    """
    made = []

    def memory_card(run, arena, options):
        made.append(run)
        name = run.parent.name
        entries = {key: [Entry(each, 1 / 3) for each in SHOWN if SHOWN[each] == key] for key in QUESTIONS}
        entries["failures"][4] = Entry("tolerated noise", 0.3, "%", 0.1, 0.9, bound="at least", note="<a remark>")
        entries["mechanism"][1] = not_applicable("what a step does", "No layer is affine.")
        if not name.endswith("recall"):
            failures = entries["failures"]
            entries["failures"] = [not_applicable(each.name, "-") if "load" in each.name else each for each in failures]
        answers = tuple(Answer(key, tuple(each)) for key, each in entries.items())
        return MemoryCard(name, "a network", f"the task of {name}", "trained", answers, (), {"arena": arena.arena.name})

    monkeypatch.setattr("mnemoscope.arena.network_cards.memory_card", memory_card)
    monkeypatch.setattr("mnemoscope.arena.card.files.page_bytes", lambda *_: b"")
    monkeypatch.setattr("mnemoscope.arena.card.files.render_card", lambda card: card.title)
    return made


def test_the_command_makes_a_card_of_each_network_and_the_page_links_them(arena_file, capsys, made_cards):
    assert main(["arena", "mine.toml", "--cards"]) == 0
    assert made_cards == []  # nothing was run
    err = capsys.readouterr().err
    assert "There are no runs in runs and no results in results/arena/mine.json: the table is empty." in err
    assert "No card of gru on parity: it has not been run." in err
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    assert main(["arena", "mine.toml", "--cards"]) == 0
    assert [run.parent.name for run in made_cards] == ["gru.parity"]
    assert RunFolder(made_cards[0]).read_config().seed == 1  # a run of the table, not of the tuning
    assert "cards/parity/gru/card.html" in capsys.readouterr().out
    assert 'href="cards/parity/gru/card.html"' in (arena_file.parent / "runs/arenas/mine/page.html").read_text()


def test_the_cards_of_several_tasks_have_a_table_each(arena_file, capsys, made_cards):
    """The arena has two networks and two tasks; elman has no cell on recall."""
    recall = 'name = "recall"\ntask = "mqar"\ntask_options = { vocabulary = 16, pairs = 2, length = 12 }\nseconds = 1\n'
    elman = 'name = "elman"\ncell = "elman"\nkind = "plain"\nmultiple = 2\n'
    empty = 'networks = ["elman"]\ntasks = ["recall"]\nreason = "left out"\n'
    content = arena_file.read_text().replace("seeds =", 'cards = ["parity", "recall"]\nseeds =', 1)
    arena_file.write_text(f"{content}\n[[task]]\n{recall}[[network]]\n{elman}[[empty]]\n{empty}")
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    capsys.readouterr()
    assert main(["arena", "mine.toml", "--cards", "--collect"]) == 0
    assert "No card of elman on recall: left out." in capsys.readouterr().err
    assert [run.parent.name for run in made_cards] == ["gru.parity", "elman.parity", "gru.recall"]
    cards = load_cards("results/arena/mine-cards", read_arena("mine.toml"))
    assert {task: [*found] for task, found in cards.items()} == {"parity": ["gru", "elman"], "recall": ["gru"]}
    assert cards["recall"]["gru"].title == "gru.recall"
    page = Path("runs/arenas/mine/page.html").read_text()
    for address in ("parity/gru", "parity/elman", "recall/gru"):
        assert page.count(f'href="cards/{address}/card.html"') == 2  # in the table of accuracies, and in that of cards
    assert 'id="cards-parity"' in page
    assert "<h3>Memory cards on recall: the task of gru.recall</h3>" in page
    assert main(["arena", "mine.toml", "--markdown", "table.md"]) == 0
    parity, recall = Path("table.md").read_text().split("Memory cards on ")[1:]
    assert parity.startswith(
        "parity, of one trained network each (the task of gru.parity and the task of elman.parity):"
    )
    assert "load |" not in parity  # no network has a load on parity
    assert "| accuracy at 2 x load |" in recall
    assert "what a step does |" not in recall
    assert "Without a card on recall: elman (left out)." in recall
    # --tasks chooses
    made_cards.clear()
    assert main(["arena", "mine.toml", "--cards", "--tasks", "recall", "--networks", "gru"]) == 0
    assert [run.parent.name for run in made_cards] == ["gru.recall"]


@pytest.mark.usefixtures("arena_file")
def test_a_network_whose_run_is_elsewhere_is_trained_again_for_its_card(capsys, made_cards):
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    assert main(["arena", "mine.toml", "--collect"]) == 0
    before = ArenaTable.load("results/arena/mine.json")
    capsys.readouterr()
    for _ in range(2):
        assert main(["arena", "mine.toml", "--root", "other", "--cards", "--collect", "--page", "page.html"]) == 0
    assert capsys.readouterr().err.count("Training gru on parity again") == 1
    card = MemoryCard.load("cards/parity/gru")
    assert "Trained again" not in card.training  # it ended with the numbers of the run of the arena
    runs = tuple(replace(run, loss=2 * run.loss) for run in before.runs)
    replace(before, runs=runs).save("results/arena/mine.json")
    assert main(["arena", "mine.toml", "--root", "other", "--cards", "--page", "page.html"]) == 0
    assert "Trained again for this card on cpu" in MemoryCard.load("cards/parity/gru").training
    before.save("results/arena/mine.json")
    made_cards.pop()
    first, second = made_cards
    assert first == second == Path("other/arenas/mine/gru.parity", before.runs[-1].hash)
    assert RunFolder(first).read_config().learning_rate == 0.01
    assert 'href="cards/parity/gru/card.html"' in Path("page.html").read_text()
    after = ArenaTable.load("results/arena/mine.json")
    assert after.runs == before.runs
    collected = MemoryCard.load("results/arena/mine-cards/parity/gru.json")
    assert collected["cost"].entries[0].value == 0.33333
    page = Path("page.html").read_text()
    assert "at least 30.0%</" in page
    assert 'title="at least 30.0% (10.0% to 90.0%), &lt;a remark&gt;"' in page
    assert main(["arena", "mine.toml", "--markdown", "table.md"]) == 0
    rows = Path("table.md").read_text().splitlines()
    assert "Memory cards on parity, of one trained network each (the task of gru.parity):" in rows
    numbers = " | ".join(["0.333"] * 7)
    assert f"| gru | {numbers} | at least 30.0% | 0.333 |" in rows  # a column that applies to no network is left out


def test_a_card_on_another_device_has_the_rate_of_the_collected_results(arena_file, capsys, made_cards):
    """The collected results are of a GPU, which this machine does not have: its networks are trained on the CPU."""
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    assert main(["arena", "mine.toml", "--collect"]) == 0
    arena_file.write_text(arena_file.read_text().replace("steps = 2,", 'steps = 2, device = "cuda",'))
    arena, known = read_arena("mine.toml"), ArenaTable.load("results/arena/mine.json")
    cell = next(iter(planned_cells(arena, matched_sizes(arena))))
    hashes = {run.config.seed: run.config.hash for run in (*cell.tuning, *cell.tables[0.01])}
    runs = tuple(replace(run, hash=hashes[run.seed]) for run in known.runs)
    replace(known, arena=arena, runs=runs).save("results/arena/mine.json")
    command = ["arena", "mine.toml", "--root", "other", "--cards"]
    if not torch.cuda.is_available():
        assert main(command) == 2
        assert 'device is "cuda", but torch sees no GPU here. Use device = "cpu"' in capsys.readouterr().err
    assert main([*command, "--device", "cpu"]) == 0
    config = RunFolder(made_cards[-1]).read_config()
    assert (config.device, config.learning_rate, config.seed) == ("cpu", 0.01, 1)
    page = (arena_file.parent / "other/arenas/mine/page.html").read_text()
    assert "1 of 1 cells are filled" in page  # the page of the collected results
    card = MemoryCard.load("other/arenas/mine/cards/parity/gru")
    assert f"Trained again for this card on cpu: the run {runs[-1].hash} of the arena is another" in card.training
    assert card.provenance["run of the arena"] == runs[-1].hash
    # a network that was run on the CPU alone does not hide the networks of the collected results
    (arena_file.parent / "other.toml").write_text(
        '[[network]]\nname = "other"\ncell = "elman"\nkind = "plain"\nmultiple = 2\n'
    )
    added = ["arena", "mine.toml", "--root", "other", "--add", "other.toml", "--device", "cpu"]
    assert main([*added, "--networks", "other", "--engine", "here"]) == 0
    assert main([*added, "--cards"]) == 0
    assert [run.parent.name for run in made_cards[-2:]] == ["gru.parity", "other.parity"]
    capsys.readouterr()
    assert main([*added, "--cards", "--networks", "other"]) == 0
    assert made_cards[-1].parent.name == "other.parity"
    assert "parity/gru" not in capsys.readouterr().out


@pytest.mark.usefixtures("arena_file")
def test_a_network_that_diverges_has_no_card_and_the_reason_is_stated(capsys, made_cards, monkeypatch):
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    assert main(["arena", "mine.toml", "--collect"]) == 0

    def diverge(config, home, callbacks):
        config.folder(home).mkdir(parents=True)
        return {"diverged": "The loss is nan"}

    monkeypatch.setattr("mnemoscope.arena.measurement.train_or_diverge", diverge)
    known = ArenaTable.load("results/arena/mine.json")
    capsys.readouterr()
    assert main(["arena", "mine.toml", "--root", "other", "--cards"]) == 0
    assert "No card of gru on parity: it was trained again, and did not stay finite." in capsys.readouterr().err
    runs = tuple(replace(run, accuracy=None, loss=None, steps=None, longer=(), curve=()) for run in known.runs[-1:])
    replace(known, runs=(known.runs[0], *runs)).save("results/arena/mine.json")
    assert main(["arena", "mine.toml", "--root", "third", "--cards"]) == 0
    assert "No card of gru on parity: no run of it stayed finite." in capsys.readouterr().err
    replace(known, runs=known.runs[:1]).save("results/arena/mine.json")
    assert main(["arena", "mine.toml", "--root", "third", "--cards"]) == 0
    assert "No card of gru on parity: its runs with the seeds of the table are missing." in capsys.readouterr().err
    assert made_cards == []


@pytest.mark.usefixtures("arena_file")
def test_cards_that_do_not_belong_to_the_arena_are_left_out(made_cards):
    assert main(["arena", "mine.toml", "--engine", "here"]) == 0
    assert main(["arena", "mine.toml", "--cards"]) == 0
    cards = Path("runs/arenas/mine/cards")
    arena, file = read_arena("mine.toml"), cards / "parity" / "gru" / "card.json"
    assert load_cards(cards, arena)["parity"].keys() == {"gru"}
    assert load_cards(cards, replace(arena, name="another")) == {}
    content = json.loads(file.read_text())
    content["answers"][2]["entries"] = []
    file.write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="A memory card is left out: .*The answer has no entry 'memory capacity'"):
        assert load_cards(cards, arena) == {}
    file.write_text("{}")
    with pytest.warns(UserWarning, match="A memory card is left out: .*card.json does not hold what was expected"):
        assert load_cards(cards, arena) == {}


def test_a_card_describes_the_first_run_whose_numbers_are_finite():
    arena = TINY.part()
    table = ArenaTable(
        arena,
        tuple(
            TrainedRun("gru", task, seed, 0.01, 14, 100, 14, f"{task}{seed}", 0, accuracy)
            for task in ("parity", "recall")
            for seed, accuracy in ((1, None), (2, 0.5))
        ),
        {"parity": 0.5, "recall": 0.1},
        (),
    )
    assert described_run([table], "gru", "recall").hash == "recall2"
    parity = replace(table, runs=tuple(run for run in table.runs if run.task == "parity"))
    assert described_run([parity], "gru", "recall") is None
    assert described_run([parity, table], "gru", "recall").hash == "recall2"
    assert described_run([table], "elman", "parity") is None


def test_an_arena_names_the_tasks_of_its_cards():
    assert read_arena("memory").cards == ("flip-flop", "selective-copy")
    arena = replace(TINY, cards=("parity", "recall"))
    assert arena.part(tasks=["recall"]).cards == ("recall",)
    assert arena.part(tasks=["recall"]).part().cards == ("recall",)
    assert Arena.from_dict(arena.to_dict()) == arena
    with pytest.raises(ValueError, match="cards: The arena has no task 'copy'"):
        replace(arena, cards=("parity", "copy"))
    with pytest.raises(ValueError, match="cards: Each task can be named once, but they are recall, recall"):
        replace(arena, cards=("recall", "recall"))


def test_a_part_of_an_arena_hides_and_drops_nothing(arena_file, capsys):
    network = '[[network]]\nname = "other"\ncell = "elman"\nkind = "plain"\nmultiple = 2\n'
    (arena_file.parent / "other.toml").write_text(network)
    here = ["arena", "mine.toml", "--engine", "here"]
    assert main(here) == 0
    assert main([*here, "--add", "other.toml", "--networks", "other"]) == 0
    page = (arena_file.parent / "runs/arenas/mine/page.html").read_text()
    assert "2 networks x 1 task x 1 seed" in page
    assert "2 of 2 cells are filled" in page
    assert main(["arena", "mine.toml", "--add", "other.toml", "--collect"]) == 0
    assert main(["arena", "mine.toml", "--collect"]) == 2
    assert "has 2 runs that the arena does not have" in capsys.readouterr().err
    assert len(ArenaTable.load("results/arena/mine.json").runs) == 4


@pytest.mark.usefixtures("arena_file")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tinny"], "There is no arena 'tinny'. Did you mean 'tiny'?"),
        (["nowhere.toml"], "There is no file nowhere.toml."),
        (["mine.toml", "--networks", "gur"], "The arena has no network 'gur'. Did you mean 'gru'?"),
        (["mine.toml", "--status", "--tasks", "parity"], "--networks and --tasks choose what to run"),
        (["mine.toml", "--cards", "--tasks", "party"], "The arena has no task 'party'. Did you mean 'parity'?"),
        (["mine.toml", "--cards", "--networks", "gur"], "The arena has no network 'gur'. Did you mean 'gru'?"),
        (["mine.toml", "--cards", "--minutes", "1"], "--cards makes one card after the other in this process."),
        (["mine.toml", "--engine", "here", "--processes", "3"], "--processes and --share-gpu are for the engine local"),
    ],
)
def test_a_wrong_request_is_explained(words, message, capsys):
    assert main(["arena", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_job_that_fails_leaves_its_log_and_is_run_again(tmp_path, monkeypatch):
    arena = ARENA.part(["gru"])
    monkeypatch.setattr("mnemoscope.arena.measurement.train_or_diverge", lambda *_: 1 / 0)
    result = run_arena(arena, tmp_path, progress=False)
    assert (result.finished, result.states["failed"]) == (0, 1)
    assert "ZeroDivisionError" in result.failed[0]
    log = tmp_path / "arenas/tiny/gru.parity/failed.log"
    assert log.exists()
    monkeypatch.undo()
    assert run_arena(arena, tmp_path, progress=False).finished == 4
    assert not log.exists()


def test_a_job_that_has_ended_returns_at_once(tmp_path):
    planned = next(planned_runs(ARENA, matched_sizes(ARENA), ()))[0]
    folder = planned.config.folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "trial.json").write_text("{}")
    run_entry({**vars(planned.config)}, [], tmp_path)
    assert [path.name for path in folder.iterdir()] == ["trial.json"]


def test_a_file_adds_networks_to_an_arena(arena_file):
    entry = '[[network]]\nname = "lstm"\ncell = "lstm"\nkind = "gated"\n'
    file = arena_file.parent / "more.toml"
    file.write_text(f'{entry}[[empty]]\nnetworks = ["lstm"]\ntasks = ["parity"]\nreason = "not yet"')
    larger = add_networks(read_arena(arena_file), file)
    assert [each.name for each in larger.networks] == ["gru", "lstm"]
    assert larger.reason_empty("lstm", "parity") == "not yet"
    file.write_text("seeds = [1]")
    with pytest.raises(ValueError, match=r"must have tables \[\[network\]\]"):
        add_networks(read_arena(arena_file), file)
    file.write_text(entry.replace("lstm", "gru"))
    with pytest.raises(ValueError, match="needs networks, each once"):
        add_networks(read_arena(arena_file), file)
