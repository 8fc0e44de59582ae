"""Weights from files: every form that torch.nn writes, and nothing that runs code."""

import re
from inspect import unwrap
from random import Random

import pytest
import torch
from safetensors.torch import save_file

import mnemoscope as ms
from mnemoscope.cells import load_network
from tests.slow import representatives

NETWORKS = {
    "rnn": torch.nn.RNN(3, 5),
    "rnn-relu": torch.nn.RNN(3, 5, nonlinearity="relu", bias=False),
    "gru": torch.nn.GRU(3, 5, num_layers=2),
    "lstm": torch.nn.LSTM(3, 5),
    "lstm-projected": torch.nn.LSTM(3, 5, num_layers=2, proj_size=2),
}


@representatives("gru-.safetensors", "lstm-projected-.safetensors", "rnn-.pt", "rnn-relu-.pt")
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_come_back(tmp_path, name, suffix):
    network = NETWORKS[name]
    path = tmp_path / f"weights{suffix}"
    (torch.save if suffix == ".pt" else save_file)(network.state_dict(), str(path))
    kind = name.split("-")[0]
    back = load_network(path, kind, nonlinearity="relu" if "relu" in name else "tanh")
    xs = torch.randn(6, 2, 3)
    assert torch.equal(back(xs)[0], network(xs)[0])
    ms.Dynamics(back)


def test_a_network_inside_a_larger_model(tmp_path):
    model = torch.nn.ModuleDict(
        {"encoder": torch.nn.GRU(3, 5), "decoder": torch.nn.GRU(5, 4), "head": torch.nn.Linear(4, 1)}
    )
    path = tmp_path / "model.pt"
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, path)
    with pytest.raises(ValueError, match=r"several recurrent networks.*'encoder\.', 'decoder\.'"):
        load_network(path, "gru")
    back = load_network(path, "gru", prefix="decoder.")
    assert (back.input_size, back.hidden_size) == (5, 4)
    with pytest.raises(ValueError, match=r"no recurrent network under 'head\.'"):
        load_network(path, "gru", prefix="head.")


def test_cell_forms(tmp_path):
    cell = torch.nn.LSTMCell(3, 5)
    path = tmp_path / "cell.pt"
    torch.save(cell.state_dict(), path)
    back = load_network(path, "lstm")
    x = torch.randn(2, 3)
    torch.testing.assert_close(back(x[None])[0][0], cell(x)[0], rtol=0, atol=1e-6)  # float32 rounding


class Evil:
    """An object whose unpickling would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_code_in_a_file_is_never_run(tmp_path):
    victim = tmp_path / "victim"
    path = tmp_path / "evil.pt"
    torch.save({"weight_ih_l0": Evil(victim)}, path)
    with pytest.raises(ValueError, match=r"save module.state_dict\(\) instead"):
        load_network(path, "gru")
    assert not victim.exists()
    torch.save(torch.nn.GRU(3, 4), path)  # a whole module is code too
    with pytest.raises(ValueError, match="refused"):
        load_network(path, "gru")


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_network(tmp_path / "nowhere.pt", "gru")
    path = tmp_path / "bad.safetensors"
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a safetensors file"):
        load_network(path, "gru")
    save_file({"weight": torch.zeros(2)}, str(path))
    with pytest.raises(ValueError, match="holds no weights"):
        load_network(path, "gru")
    save_file(torch.nn.LSTM(3, 5).state_dict(), str(path))
    with pytest.raises(ValueError, match=r"do not fit the class 'gru'.*They fit lstm"):
        load_network(path, "gru")
    save_file(torch.nn.GRU(3, 5, bidirectional=True).state_dict(), str(path))
    with pytest.raises(ValueError, match="bidirectional"):
        load_network(path, "gru")


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        ("GRU", {}, "network must be one of 'rnn', 'gru', 'lstm', but is 'GRU'. Did you mean 'gru'?"),
        ("elman", {}, "network must be one of 'rnn', 'gru', 'lstm', but is 'elman'."),
        (torch.nn.GRU, {}, "network must be one of 'rnn', 'gru', 'lstm', but is <class"),
        ("rnn", {"nonlinearity": "sigmoid"}, "nonlinearity must be one of 'tanh', 'relu', but is 'sigmoid'."),
        ("rnn", {"nonlinearity": "ReLU"}, "Did you mean 'relu'?"),
    ],
)
def test_wrong_choices_are_refused(tmp_path, network, options, message):
    path = tmp_path / "net.pt"
    torch.save(torch.nn.GRU(3, 4).state_dict(), path)
    with pytest.raises(ValueError, match=re.escape(message)):
        unwrap(load_network)(path, network, **options)  # unwrapped: in the tests, beartype would see it before we do


def gru_weights(**changes):
    return {**torch.nn.GRU(3, 4).state_dict(), **changes}


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda weight: weight * torch.inf, "NaN or infinite"),
        (lambda weight: weight * torch.nan, "NaN or infinite"),
        (lambda weight: weight * 1j, "complex"),
        (lambda weight: weight.to(torch.float8_e4m3fn), r"float8_e4m3fn; save tensor.float\(\)"),
        (lambda weight: weight.long(), "int64"),
        (lambda weight: weight.to_sparse(), r"sparse tensor; save tensor.to_dense\(\)"),
        (lambda weight: weight.to("meta"), "meta tensor"),
        (lambda weight: torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8), "quantised"),
        (lambda weight: weight[0, 0], r"has the shape \(\)"),
        (lambda weight: torch.nested.nested_tensor([weight[0], weight[0, :2]]), "nested tensor"),
        (lambda weight: weight[:1, :1].expand(2**20, 2**20), r"expanded.* save tensor.contiguous\(\)"),
    ],
)
@pytest.mark.filterwarnings("ignore")  # torch warns of quantised tensors
def test_weights_that_are_no_dense_real_numbers_are_refused(tmp_path, convert, message):
    path = tmp_path / "net.pt"
    torch.save(gru_weights(weight_hh_l0=convert(torch.ones(12, 4))), path)
    with pytest.raises(ValueError, match=f"weight_hh_l0 in .*net.pt.* {message}"):
        load_network(path, "gru")


def test_a_layer_number_builds_no_layers(tmp_path):
    path = tmp_path / "net.pt"
    for name in ("bias_ih_l3000000", f"bias_ih_l{'9' * 5000}"):
        torch.save(gru_weights(**{name: torch.zeros(12)}), path)
        with pytest.raises(ValueError, match="do not fit together"):
            load_network(path, "gru")


def test_errors_of_empty_weights_name_their_file(tmp_path):
    path = tmp_path / "net.pt"
    torch.save({"weight_ih_l0": torch.zeros(0, 0), "weight_hh_l0": torch.zeros(0, 0)}, path)
    with pytest.raises(ValueError, match=r"net\.pt do not fit together: input_size must be"):
        load_network(path, "gru")


@pytest.mark.parametrize("legacy", [True, False])
def test_a_file_with_flipped_bits_is_read_or_refused(tmp_path, legacy):
    path, draw = tmp_path / "net.pt", Random(0)
    torch.save(gru_weights(), path, _use_new_zipfile_serialization=not legacy)
    content, refused = path.read_bytes(), []
    for _ in range(60):
        bits = draw.randrange(8 * min(len(content), 600))
        flipped = bytearray(content)
        flipped[bits // 8] ^= 1 << bits % 8
        path.write_bytes(flipped)
        try:
            assert isinstance(load_network(path, "gru"), torch.nn.GRU)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 10  # bits of names and of the structure; those of a weight change only its value
    assert all(path.name in message for message in refused)
