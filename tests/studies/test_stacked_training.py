"""Networks that are trained at once, against the training of each alone."""

from dataclasses import replace

import pytest
import torch

from mnemoscope.studies.karuvally2023 import epochs, stacked_training
from mnemoscope.studies.karuvally2023.binding_table import PUBLISHED
from mnemoscope.training import load_model, train
from mnemoscope.training.run_folder import RunFolder

SMALL = {"variables": 2, "size": 2, "rule": "-1 4", "horizon": 6, "test_horizon": 8, "curriculum": "2 4"}
CONFIG = replace(
    PUBLISHED,
    task_options=SMALL,
    hidden_size=5,
    batch_size=7,
    steps=12,
    evaluate_every=4,
    clip=0.05,
    cell_options={"bias": False, "input_scale": 0.4},
)
CONFIGS = [
    replace(CONFIG, seed=seed, curriculum_score=score, weight_decay=decay)
    for seed, score, decay in ((1, 0.3, 0.0), (1, 1.0, 0.0), (2, 0.55, 0.1))
]
CONFIGS[1] = replace(CONFIGS[1], cell_options={"bias": False, "input_scale": 0.8})


def test_networks_trained_at_once_are_those_trained_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "EPOCH", 4)
    roots = [tmp_path / str(number) for number in range(len(CONFIGS))]
    together = stacked_training.train_stacked(CONFIGS, roots, progress=False)
    for config, result in zip(CONFIGS, together, strict=True):
        saved = epochs.SaveEpochs()
        alone = train(config, tmp_path / "alone", progress=False, callbacks=[saved])
        (model, _, _), (other, _, _) = load_model(result.folder), load_model(alone.folder)
        for name, weight in model.state_dict().items():
            torch.testing.assert_close(weight, other.state_dict()[name], rtol=0, atol=1e-6)
        lines = [RunFolder(folder).read_metrics() for folder in (result.folder, alone.folder)]
        assert [line["stage"] for line in lines[0]] == [line["stage"] for line in lines[1]]
        for line, expected in zip(*lines, strict=True):
            assert line == pytest.approx(expected, abs=1e-5)
        assert (result.loss, result.scores) == (lines[0][-1]["loss"], {"accuracy": lines[0][-1]["accuracy"]})
        assert (result.steps, result.stopped, result.baseline) == (alone.steps, alone.stopped, alone.baseline)
        for epoch in (1, 2, 3):
            headers = [epochs.read_tensors(epochs.epoch_file(each.folder, epoch))[1] for each in (result, alone)]
            assert headers[0] == pytest.approx(headers[1])
        assert train(config, result.folder.parent.parent).cached  # the study takes the finished run
    stages = [RunFolder(result.folder).read_metrics()[-1]["stage"] for result in together]
    assert len({*stages}) > 1  # networks in different stages are trained together


def test_a_scan_of_stacked_networks_has_the_gradient_of_its_steps():
    torch.manual_seed(0)
    drive, V = torch.randn(4, 2, 3, 5).double().requires_grad_(), torch.randn(2, 5, 5).double().requires_grad_()
    assert torch.autograd.gradcheck(stacked_training.StackedScan.apply, (drive, V))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 6}, "differ in seed, curriculum_score, weight_decay, cell_options only, but in hidden_size"),
        ({"schedule": "cosine"}, "at a constant rate"),
        ({"cell_options": {}}, "without biases"),
        ({"task": "copy", "task_options": {}}, "variable binding"),
    ],
)
def test_other_networks_are_refused(tmp_path, changes, message):
    configs = [CONFIG, replace(CONFIG, **changes)] if "hidden_size" in changes else [replace(CONFIG, **changes)]
    with pytest.raises(ValueError, match=message):
        stacked_training.train_stacked(configs, [tmp_path] * len(configs))


def test_the_kernel_gives_each_tile_of_sequences_its_matrix():
    pytest.importorskip("triton")
    torch.manual_seed(0)
    drive, V, g = torch.randn(3, 2, 16, 5), torch.randn(2, 5, 5), torch.randn(3, 2, 16, 5)
    states = stacked_training._kernel_states(drive, V)
    gradients = stacked_training._kernel_gradients(g, states, V)
    slow = drive.clone().requires_grad_()
    expected = stacked_training.StackedScan.apply(slow, V)
    torch.testing.assert_close(states, expected.detach(), rtol=0, atol=1e-6)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, slow, g)[0], rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="multiple of 16 sequences each, but there are 5 units and 15 sequences"):
        stacked_training._kernel_states(drive[:, :, :15], V)
