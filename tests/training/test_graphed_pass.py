"""Training steps as CUDA graphs."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.config.run_config import RunConfig
from mnemoscope.networks.relational import relational_model
from mnemoscope.relational.network import EncodedObjects
from mnemoscope.tasks.relational import SameDifferent
from mnemoscope.tasks.tokens.multi_query_recall import MultiQueryRecall
from mnemoscope.training import RunFolder, load_model
from mnemoscope.training.answers import read_places
from mnemoscope.training.backward_pass import BackwardPass
from mnemoscope.training.bptt import backpropagate, batch_accuracy, cut_windows, run_windows
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.checkpoint import Counters
from mnemoscope.training.graphed_pass import GraphedPass, _relative_difference, training_stream
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.process_group import ProcessGroup
from tests.slow import representatives, slow

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
COPY = RunConfig(
    "graphs",
    task="bit-copy",
    task_options={"bits": 3, "longest": 3},
    cell="ntm",
    cell_options={"slots": 6, "slot_size": 4},
    hidden_size=8,
    optimiser="rmsprop",
    momentum=0.9,
    learning_rate=0.01,
    schedule="cosine",
    clip=1.0,
    steps=24,
    batch_size=4,
    evaluate_every=12,
    checkpoint_every=12,
    device="cuda",
)
"""Lengths 1 to 3, so that there are three graphs."""

RELATIONAL = RunConfig(
    "graphs",
    task="same-different",
    task_options={"m": 97},
    cell="corelnet",
    steps=12,
    batch_size=8,
    evaluate_every=12,
    checkpoint_every=12,
    device="cuda",
)
"""Problems with three shapes, whose images are padded to four."""


class HostTensors(TorchDispatchMode):
    """Collects operations that wait for a GPU, or copy data of the CPU to it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "lift_fresh", "masked_select"):
            self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["ntm", "matntm"])
def test_the_pass_of_a_turing_machine_neither_waits_for_a_gpu_nor_copies_to_it(name):
    config = replace(
        COPY, cell=name, device="cpu", cell_options={"slots": 6} if name == "matntm" else COPY.cell_options
    )
    task = build_task(config)
    model = build_model(config, task)
    batch = task.batch(2, 0, 0)
    with HostTensors() as found:
        outputs, _ = model(batch.inputs)
        task.loss(outputs, batch).backward()
    assert found.names == []


def test_the_relative_difference_is_infinite_where_a_gradient_is_missing_or_not_finite():
    ones = torch.ones(4)
    assert _relative_difference([ones, None], [1.5 * ones, None]) == 0.5
    assert _relative_difference([0 * ones], [ones]) == 2.0
    assert _relative_difference([ones], [None]) == _relative_difference([ones], [torch.nan * ones]) == torch.inf


@pytest.mark.parametrize("name", registry.networks.entries)
@representatives("corelnet-l1", "corelnet-t-sensory", "corelnet-mix", "esbn", "ntm")
def test_the_pass_of_a_relational_network_neither_waits_for_a_gpu_nor_copies_to_it(name):
    task = SameDifferent()
    network, scenes = relational_model(name, task), task.batch(4, 0, 0).padded()
    with HostTensors() as found:
        features = network.encoder(scenes.images)
        features = features if network.sparse is None else network.sparse(features)
        encoded = EncodedObjects(features, scenes.objects, network.norm)
        network.answer(encoded).sum().backward()
    assert found.names == []


def test_appended_images_change_neither_loss_nor_gradient():
    config = replace(RELATIONAL, device="cpu")
    task = build_task(config)
    batch, gradients, losses = task.batch(8, 0, 0), [], []
    for inputs in (batch.inputs, batch.inputs.padded()):
        model = build_model(config, task)
        losses.append(backpropagate(model, task, batch._replace(inputs=inputs), None).loss)
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert len(batch.inputs.images) == 3 < len(batch.inputs.padded().images) == 4
    torch.testing.assert_close(losses[1], losses[0])
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize(("pairs", "filled"), [(2, 8), (3, 16)])
def test_places_that_are_filled_up_for_a_graph_change_neither_loss_nor_gradient(pairs, filled, monkeypatch):
    monkeypatch.setattr("mnemoscope.training.answers.MANY_OUTPUTS", 1)
    task = MultiQueryRecall(pairs=pairs, length=16, vocabulary=16)
    config = RunConfig("places", task="mqar", cell="gru", hidden_size=8)
    batch, found = task.batch(4, 0, 0), []
    for on_gpu in (False, True):
        model = build_model(config, task)
        windows = cut_windows(task, batch, None, on_gpu=on_gpu)
        result = run_windows(model, task, windows, None, [], keep_outputs=True)
        accuracy = batch_accuracy(task, windows, result[2])
        found.append(
            (len(windows[0].places), [result[0], torch.tensor(accuracy), *(p.grad for p in model.parameters())])
        )
    (exact, expected), (more, numbers) = found
    assert (exact, more) == (4 * pairs, filled)
    torch.testing.assert_close(numbers, expected)


def test_a_batch_of_few_outputs_is_read_out_everywhere_in_a_graph():
    task = MultiQueryRecall(pairs=2, length=16, vocabulary=16)
    batch = task.batch(4, 0, 0)
    assert read_places(task, batch, of_few_lengths=True) is None
    assert len(read_places(task, batch)) == 8


def test_truncated_windows_are_read_out_everywhere_on_a_gpu(monkeypatch):
    monkeypatch.setattr("mnemoscope.training.answers.MANY_OUTPUTS", 1)
    task = MultiQueryRecall(pairs=3, length=16, vocabulary=16)
    batch = task.batch(4, 0, 0)
    assert {window.places for window in cut_windows(task, batch, 4, on_gpu=True)} == {None}
    assert sum(len(window.places) for window in cut_windows(task, batch, 4)) == 12


def test_a_run_of_a_gpu_is_loaded_on_the_cpu_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = RunConfig("loaded", task="parity", cell="gru", hidden_size=4, steps=1, batch_size=2, evaluate_every=1)
    folder = RunFolder(ms.train(config, tmp_path, progress=False).folder)
    on_gpu = replace(config, device="cuda")
    folder.save_model(folder.load_model()[0], on_gpu)
    monkeypatch.setattr(RunFolder, "read_config", lambda self: on_gpu)
    model, _, found = load_model(folder.path, training_device=True)
    assert (found.device, next(model.parameters()).device.type) == ("cuda", "cpu")


def test_the_pass_over_filled_places_neither_waits_for_a_gpu_nor_copies_to_it(monkeypatch):
    monkeypatch.setattr("mnemoscope.training.answers.MANY_OUTPUTS", 1)
    task = MultiQueryRecall(pairs=3, length=16, vocabulary=16)
    model = build_model(RunConfig("places", task="mqar", cell="gru", hidden_size=8), task)
    windows = cut_windows(task, task.batch(4, 0, 0), None, on_gpu=True)
    with HostTensors() as found:
        run_windows(model, task, windows, None, [], keep_outputs=False)
    assert found.names == []


def test_asking_for_graphs_where_there_are_none_warns_with_the_reason():
    relational = RunConfig("graphs", task="same-different", cell="corelnet", batch_size=2, cuda_graphs=True)
    task = build_task(relational)
    model = build_model(relational, task)
    group, counters, stop = ProcessGroup(), Counters(), Interruption()
    with pytest.warns(UserWarning, match="they need device = cuda"):
        BackwardPass(model, relational, group, counters, stop)


def test_on_a_cpu_no_stream_is_entered():
    with training_stream("cpu"):
        assert not torch.cuda.is_initialized() or torch.cuda.current_stream() == torch.cuda.default_stream()


def weights(config, root, **options):
    run = ms.train(config, root, progress=False, **options)
    return load_model(run.folder)[0].state_dict()


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@CUDA
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cell": "matntm", "cell_options": {"slots": 6}},
        {"cell": "leaky-rnn", "cell_options": {}, "truncate": 4},
        {"cell": "lstm", "cell_options": {}, "optimiser": "adam", "momentum": 0.0},
        {"task_options": {"bits": 3, "longest": 3, "curriculum": "1 2"}, "curriculum_score": 0.5},
    ],
    ids=["ntm", "matntm", "windows", "lstm", "curriculum"],
)
def test_graphs_give_the_weights_of_a_run_without_them(tmp_path, changes):
    config = replace(COPY, cuda_graphs=True, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphed = weights(config, tmp_path / "graphs")
    assert_same(graphed, weights(replace(config, cuda_graphs=False), tmp_path / "plain"))


@CUDA
@pytest.mark.parametrize("cell", slow(*registry.cells.entries))
def test_graphs_change_no_weight_of_any_cell(tmp_path, cell):
    is_matrix = cell == "matntm" or cell.startswith("matrix-")
    config = replace(
        COPY,
        task="copy",
        task_options={"delay": 4, "symbols": 3},
        cell=cell,
        cell_options={},
        hidden_size=4 if is_matrix else 16,
        steps=8,
        evaluate_every=8,
        checkpoint_every=8,
    )
    graphed = weights(config, tmp_path / "graphs")
    assert_same(graphed, weights(replace(config, cuda_graphs=False), tmp_path / "plain"))


@CUDA
@pytest.mark.parametrize("network", slow(*registry.networks.entries))
def test_graphs_change_no_weight_of_any_relational_network(tmp_path, monkeypatch, network):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)  # else two runs of a convolution may differ
    config = replace(RELATIONAL, cell=network, cuda_graphs=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graphed = weights(config, tmp_path / "graphs")
    assert_same(graphed, weights(replace(config, cuda_graphs=False), tmp_path / "plain"))


@CUDA
def test_a_resumed_run_with_graphs_ends_with_the_same_weights(tmp_path):
    def stop(info):
        if info.step == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights(COPY, tmp_path / "resumed", callbacks=[stop])
    assert_same(weights(COPY, tmp_path / "resumed", resume=True), weights(COPY, tmp_path / "whole"))


@CUDA
def test_the_steps_are_replayed_from_the_fourth_batch_of_a_length_on(tmp_path, monkeypatch):
    passes = []
    init = BackwardPass.__init__
    monkeypatch.setattr(BackwardPass, "__init__", lambda self, *rest: (init(self, *rest), passes.append(self))[0])
    ms.train(COPY, tmp_path, progress=False)
    assert passes[0]._graphed.refusal is None
    assert passes[0]._graphed.graphs == 3


@CUDA
@pytest.mark.parametrize(("kind", "reason"), [("waits", "waits for the GPU"), ("draws", "random numbers on the CPU")])
def test_a_pass_that_no_graph_can_repeat_is_refused_with_the_reason(kind, reason):
    task = build_task(COPY)
    model = build_model(COPY, task).to("cuda")
    original = model.readout.forward

    def forward(outputs):
        factor = float(outputs.sum() > 0) if kind == "waits" else float(torch.rand(()))
        return original(outputs) * factor

    model.readout.forward = forward
    graphed = GraphedPass(model, [], warn=True)
    batch = task.batch(4, 0, 0)
    windows = cut_windows(task, batch, None, on_gpu=True)
    with training_stream("cuda"):
        with pytest.warns(UserWarning, match=reason):
            graphed(task, windows, None, scored=False)
        for _ in range(3):
            model.zero_grad()
            torch.manual_seed(0)
            found = graphed(task, windows, None, scored=False)
        torch.manual_seed(0)
        expected = backpropagate(model, task, batch, None)
    assert graphed.graphs == 0
    assert torch.equal(found.loss, expected.loss)


@CUDA
def test_a_constant_that_should_change_is_noticed_by_the_comparison():
    task = build_task(COPY)
    model = build_model(COPY, task).to("cuda")
    original, kept = model.readout.forward, []

    def forward(outputs):
        kept[:] = kept or [model.readout.weight.sum().detach()]  # computed once, and part of every later pass
        return original(outputs) * (kept[0] if torch.cuda.is_current_stream_capturing() else model.readout.weight.sum())

    model.readout.forward = forward
    graphed = GraphedPass(model, [], warn=True)
    windows = cut_windows(task, task.batch(4, 0, 0), None, on_gpu=True)
    with training_stream("cuda"):
        graphed(task, windows, None, scored=False)
        model.zero_grad()
        graphed(task, windows, None, scored=False)
        with torch.no_grad():
            model.readout.weight.mul_(1.5)
        model.zero_grad()
        with pytest.warns(UserWarning, match="another loss or gradient"):
            graphed(task, windows, None, scored=False)
    assert graphed.graphs == 0
