"""The value path: the weight of every value written in every read."""

import pytest
import torch
from torch.nn.functional import mse_loss

import mnemoscope as ms
from mnemoscope.cells import affine_layers
from mnemoscope.lenses.exact_influence import readers
from mnemoscope.lenses.exact_influence.value_path import value_paths
from tests.cells.test_affine_cells import CELLS
from tests.slow import representatives

TIME, BATCH = 9, 2


def trained(name, steps=3):
    """Return a cell after some steps of training."""
    torch.manual_seed(0)
    cell = CELLS[name]().double()
    optimiser = torch.optim.Adam(cell.parameters(), 0.03)
    xs = torch.randn(TIME, BATCH, 3, dtype=torch.float64)
    for _ in range(steps):
        outputs = ms.scan(cell, xs)[0]
        loss = mse_loss(outputs, xs.roll(1, 0)[..., :1].expand_as(outputs))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return cell.requires_grad_(False)


def layer_of(name):
    """Return the layer of a trained cell on random inputs, from a state that is not 0."""
    cell, xs = trained(name), torch.randn(TIME + 3, BATCH, 3, dtype=torch.float64)
    [layer] = affine_layers(cell, xs[3:], ms.scan(cell, xs[:3])[1])
    return layer


def literal_product(layer):
    """Return M by the formula: every write is carried by the matrices of the later micro-steps, and read."""
    parts = layer.parts
    micro, time = parts.micro_steps, len(parts.queries)
    steps = [part for t in range(time) for part in layer.at(t).each()]
    M = torch.zeros(BATCH, parts.queries.shape[2], time, time * micro, dtype=layer.start.dtype)
    for s, written in enumerate(steps):
        carried = written.keys.to(M.dtype)
        for i in range(s, time * micro):
            if i > s:
                decayed = carried - parts.beta_max * (1 - torch.exp(steps[i].log_decays)) * carried
                if steps[i].erase is not None:
                    a, b = steps[i].erase
                    decayed = decayed + a * (b * carried).sum(-1, keepdim=True)
                carried = decayed
            if i % micro == micro - 1:
                M[:, :, i // micro, s] = (parts.queries[i // micro] * carried).sum(-1)
    M = M if parts.values.is_complex() else M.real
    denominators = layer.denominators()
    return M if denominators is None else M / denominators.permute(1, 2, 0).unsqueeze(-1)


def reads_as_used(layer):
    """Return the reads, divided by the normaliser if there is one."""
    reads, denominators = layer.reads(), layer.denominators()
    reads = reads if layer.parts.values.is_complex() else reads.real
    if denominators is not None:
        reads = reads[..., :-1] / denominators.unsqueeze(-1)
    return reads.permute(1, 2, 0, 3)


@representatives("lru", "s4d", "retnet", "deltaproduct-gated", "mlstm", "kda", "mamba", "mamba-negative")
@pytest.mark.parametrize("name", CELLS)
def test_the_value_path_gives_the_reads_of_a_trained_cell(name):
    layer = layer_of(name)
    paths = value_paths(layer)
    reads = reads_as_used(layer)
    assert (paths.reads() - reads).abs().max() <= 1e-10 * reads.abs().max()
    M = literal_product(layer)
    torch.testing.assert_close(paths.matrix, M, rtol=1e-10, atol=1e-12)
    parts = (M.unsqueeze(-1) * paths.values.unsqueeze(2)).unflatten(3, (TIME, -1)).sum(4)
    torch.testing.assert_close(paths.energies(), parts.abs().square().sum(-1))


@pytest.mark.parametrize("name", ["deltaproduct", "lru", "gla"])
def test_chunks_and_some_heads_agree_with_the_whole(name, monkeypatch):
    layer = layer_of(name)
    whole = value_paths(layer)
    monkeypatch.setattr(readers, "CHUNK", 4)
    some = value_paths(layer, slice(1, 2))
    torch.testing.assert_close(some.matrix, whole.matrix[:, 1:2])
    torch.testing.assert_close(some.start, whole.start[:, 1:2])


def test_the_layers_of_blocks_have_value_paths():
    network = ms.networks.blocks(3, 4, "mlstm", depth=2, heads=2).double()
    for layer in affine_layers(network, torch.randn(TIME, BATCH, 3, dtype=torch.float64)):
        reads = reads_as_used(layer)
        assert (value_paths(layer).reads() - reads).abs().max() <= 1e-10 * reads.abs().max()
