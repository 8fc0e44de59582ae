"""Files of fitted networks: settings and weights survive, and damage is found."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import mnemoscope as ms
from mnemoscope.cells import LeakyRNN, Model
from mnemoscope.cells.fitted_networks import KEY, holds_fitted_network, save_fitted_network
from mnemoscope.connectivity import LowRank


@pytest.mark.parametrize("options", [{"form": "rate"}, {"nonlinearity": "relu", "leak": 0.5, "bias": False}])
def test_a_network_is_the_same_after_loading(tmp_path, options):
    torch.manual_seed(0)
    model = Model(LeakyRNN(2, 5, **options), 3).double()
    path = save_fitted_network(model, tmp_path / "fit.safetensors")
    again = ms.load_fitted_network(path)
    inputs = torch.randn(6, 2, 2, dtype=torch.float64)
    assert torch.equal(again(inputs)[0], model(inputs)[0])
    assert repr(again.cell) == repr(model.cell)


def test_a_fit_saves_its_network(tmp_path):
    torch.manual_seed(0)
    fit = ms.fit_network(ms.Recording(torch.randn(5, 4, 3).double()), hidden_size=2, updates=1, progress=False)
    assert ms.load_fitted_network(fit.save(tmp_path / "fit.safetensors")).linear_readout.out_features == 3


def test_other_cells_are_refused_with_the_remedy(tmp_path):
    for cell in (torch.nn.GRU(2, 3), LeakyRNN(2, 4, connectivity=LowRank(4, 1)), LeakyRNN(2, 4, torch.sin)):
        with pytest.raises(ValueError, match=r"save model.state_dict\(\)"):
            save_fitted_network(Model(cell, 1), tmp_path / "fit.safetensors")


def test_a_file_that_is_no_fitted_network_is_refused_with_the_reason(tmp_path):
    path = save_fitted_network(Model(LeakyRNN(2, 3), 1), tmp_path / "fit.safetensors")
    weights = load_file(path)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        ms.load_fitted_network(tmp_path / "nowhere.safetensors")
    assert not holds_fitted_network(tmp_path / "rates.npz")
    described = '{"form": "rate", "leak": 0.2, "nonlinearity": "tanh", "bias": true}'
    for metadata, change, reason in (
        ({}, {}, "does not describe a fitted network"),
        ({KEY: "{}"}, {}, "does not hold what was expected"),
        ({KEY: described.replace("0.2", "7")}, {}, "is damaged: "),
        ({KEY: described}, {"cell.bias": torch.zeros(4)}, "is damaged: "),
        ({KEY: described}, {"cell.bias": torch.full((3,), torch.nan)}, "NaN or infinite"),
    ):
        save_file(weights | change, path, metadata)
        with pytest.raises(ValueError, match=reason):
            ms.load_fitted_network(path)
    save_file({"cell.bias": torch.zeros(3)}, path, {KEY: described})
    with pytest.raises(ValueError, match="is damaged"):
        ms.load_fitted_network(path)
