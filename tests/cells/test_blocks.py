"""Blocks: recurrences with convolution, gate, norm and residual connection, stacked."""

import pytest
import torch
from torch.nn.functional import conv1d, gelu, glu, silu

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.cells import SLSTM, Block, Surroundings
from mnemoscope.cells.affine import GLA, LRU, S5, GatedDeltaNet, Mamba2
from mnemoscope.cells.convolution import ShortConvolution
from mnemoscope.cells.recurrence import Recurrence
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.networks import blocks, layered
from tests.slow import representatives

ROUNDING = {"rtol": 1e-11, "atol": 1e-12}  # float64, seven steps
FAMILIES = [entry.name for entry in registry.cells if "affine" in entry.tags or entry.name == "slstm"]
SMALL = {"mamba": {"state_size": 2}, "mamba2": {"state_size": 2, "heads": 2}, "s4d": {"state_size": 4}}
MASK = torch.tensor([[1, 1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 0, 0]], dtype=torch.bool).T


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def close(one, other):
    torch.testing.assert_close(one, other, **ROUNDING)


def test_every_family_has_a_block():
    assert len(FAMILIES) == 18
    for family in FAMILIES:
        assert registry.cells.load(family).surroundings != Surroundings()


@representatives(
    "mlstm-whole",
    "mlstm-masked",
    "s5-masked",
    "gla-masked",
    "mamba2-whole",
    "kda-masked",
    "slstm-masked",
    "rwkv7-masked",
)
@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_kernel_is_the_loop_with_all_gradients(family, mask):
    network = blocks(3, 4, family, depth=2, **SMALL.get(family, {})).double()
    xs, start = randn(7, 2, 3).requires_grad_(), map_state(torch.rand_like, network.initial_state(2))
    wanted = [xs, *(part.requires_grad_() for part in leaves(start)), *network.parameters()]
    found = []
    for backend in ("loop", "auto"):
        outputs, last, route = ms.scan(network, xs, start, mask=mask, backend=backend, explain=True)
        loss = outputs.square().sum() + sum((part * part.conj()).real.sum() for part in leaves(last))
        found.append((outputs, *leaves(last), *torch.autograd.grad(loss, wanted)))
    assert route.fused
    for one, other in zip(*found, strict=True):
        close(one, other)


ARCHITECTURES = ["plain", "h3", "mamba"]


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("family", ["s4d", "mamba"])
def test_a_recurrence_in_the_block_of_another_has_a_kernel_with_all_gradients(family, architecture, mask):
    network = blocks(3, 4, family, depth=2, state_size=2, architecture=architecture).double()
    xs, start = randn(7, 2, 3).requires_grad_(), map_state(torch.rand_like, network.initial_state(2))
    wanted = [xs, *(part.requires_grad_() for part in leaves(start)), *network.parameters()]
    found = []
    for backend in ("loop", "fused"):
        outputs, last = ms.scan(network, xs, start, mask=mask, backend=backend)
        loss = outputs.square().sum() + sum((part * part.conj()).real.sum() for part in leaves(last))
        found.append((outputs, *leaves(last), *torch.autograd.grad(loss, wanted)))
    for one, other in zip(*found, strict=True):
        close(one, other)


def one_block(family, architecture):
    """Return a block without embedding and last norm, its inputs, and what its recurrence makes of channels alone."""
    torch.manual_seed(0)
    core = registry.cells.load(family).for_architecture(4, 1, layered.ARCHITECTURES[architecture], state_size=2)[0]
    block, xs = Block(core, 4, layered.ARCHITECTURES[architecture]).double(), randn(7, 2, 4)

    def alone(us):
        own = registry.cells.load(family)(1, us.shape[-1], state_size=2).double()
        own.load_state_dict(core.state_dict() | own.project.state_dict(prefix="project."), strict=False)
        own.project, own.entry = torch.nn.Identity(), "linear"
        return own.run(us, own.initial_state(2), None)[0]

    return block, xs, alone


def convolved(block, channels):
    padded = torch.nn.functional.pad(channels.permute(1, 2, 0), (3, 0))
    weight, groups = block.convolution.weight.unsqueeze(1), channels.shape[-1]
    return conv1d(padded, weight, block.convolution.bias, groups=groups).permute(2, 0, 1)


@pytest.mark.parametrize("family", ["s4d", "mamba"])
@torch.no_grad()
def test_h3_multiplies_two_branches_and_the_output_by_a_third(family):
    """The second gate of Fu et al. 2023 multiplies by queries that no convolution sees."""
    block, xs, recurrence = one_block(family, "h3")
    k, v, q = block.core.project(block.norm(xs)).split(4, dim=-1)
    expected = xs + block.out(q * recurrence(convolved(block, k) * v))
    close(ms.scan(block, xs)[0], expected)


@pytest.mark.parametrize("family", ["s4d", "mamba"])
@torch.no_grad()
def test_the_block_of_mamba_has_an_activation_before_the_recurrence_and_a_gate_after_it(family):
    block, xs, recurrence = one_block(family, "mamba")
    e = block.norm(xs)
    expected = xs + block.out(silu(block.gate(e)) * recurrence(silu(convolved(block, block.core.project(e)))))
    close(ms.scan(block, xs)[0], expected)


@pytest.mark.parametrize("family", ["s4d", "mamba"])
@torch.no_grad()
def test_a_plain_block_has_no_gate(family):
    block, xs, recurrence = one_block(family, "plain")
    close(ms.scan(block, xs)[0], xs + block.out(gelu(recurrence(block.norm(xs)))))


def test_the_architecture_of_mamba_is_its_published_block():
    published, chosen = (blocks(3, 4, "mamba", architecture=name).double() for name in ("published", "mamba"))
    chosen.load_state_dict(published.state_dict())
    xs = randn(7, 2, 3)
    assert torch.equal(ms.scan(published, xs)[0], ms.scan(chosen, xs)[0])
    assert str(published) == str(chosen)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
def test_a_short_convolution_is_the_convolution_of_torch(mask):
    convolution, xs = ShortConvolution(5, 4).double(), randn(7, 2, 5)
    register = torch.zeros(2, 5, 4, dtype=torch.float64)
    padded = torch.nn.functional.pad(xs.permute(1, 2, 0), (3, 0))
    expected = conv1d(padded, convolution.weight.unsqueeze(1), convolution.bias, groups=5).permute(2, 0, 1)
    outputs, last = convolution.run(xs, register, None if mask is None else torch.tensor([7, 3]))
    close(outputs, expected)
    state = [register[:1], register[1:]]
    for t, x in enumerate(xs):
        for member, end in enumerate((7, 7 if mask is None else 3)):
            if t < end:
                state[member] = convolution.shift(state[member], x[member : member + 1])
                close(convolution.read(state[member]), expected[t, member : member + 1])
    close(last, torch.cat(state))


@torch.no_grad()
def test_a_block_is_the_published_one():
    """Norm, convolved recurrence, gate, norm, projection and residual, for a whole sequence."""
    core = Mamba2(4, 8, heads=2, state_size=2)
    block, xs = Block(core, width=4, input_size=3, last=True).double(), randn(7, 2, 3)
    e = block.embed(xs)
    u = block.norm(e)
    features = core.project(u)
    mixed = torch.nn.functional.pad(features[..., : core.convolved].permute(1, 2, 0), (3, 0))
    weights = block.convolution.weight.unsqueeze(1)
    mixed = conv1d(mixed, weights, block.convolution.bias, groups=core.convolved).permute(2, 0, 1)
    o, _ = core.run(torch.cat([mixed, features[..., core.convolved :]], -1), core.initial_state(2), None)
    y = e + block.out(block.gated_norm(o * silu(block.gate(u))))
    close(ms.scan(block, xs)[0], block.last(y))


@torch.no_grad()
def test_gated_linear_units_follow_a_state_space_model():
    xs = randn(7, 2, 4)
    for core in (LRU(4, 4).double(), S5(4, 4).double()):
        block = Block(core, width=4).double()
        y = gelu(ms.scan(core, block.norm(xs))[0])
        gated = glu(block.out(y)) if isinstance(core, LRU) else y * torch.sigmoid(block.out(y))
        close(ms.scan(block, xs)[0], xs + gated)


def test_the_jacobian_of_a_block_is_the_derivative():
    for core in (GLA(4, 4, heads=2), GatedDeltaNet(4, 4, heads=2), SLSTM(4, 4)):
        block = Block(core, width=4)
        dynamics = ms.Dynamics(block, torch.randn(4))
        states = 1 + torch.rand(3, dynamics.size, dtype=torch.float64)
        close(dynamics.jacobian(states), dynamics.jacobian_by_autograd(states))
    assert block.jacobian(torch.zeros(1, 4), block.initial_state(1)) is None


def test_caches_and_patches_take_the_states_of_blocks():
    network, xs = blocks(3, 4, "gated-deltanet", depth=2).double(), randn(7, 2, 3)
    outputs, cache = ms.run_with_cache(network, xs)
    assert cache["layers.1.S"].shape == (7, 2, 1, 3, 6)
    assert cache["layers.0.conv"].shape == (7, 2, 12, 4)
    value = torch.zeros(2, 1, 3, 6, dtype=torch.float64)
    patched = ms.patch(network, xs, {("layers.1.S", 3): value})[0]
    close(patched[:3], outputs[:3])
    state = ms.scan(network, xs[:4])[1]
    state = (state[0], state[1]._replace(S=value))
    close(patched[4:], ms.scan(network, xs[4:], state)[0])


@torch.no_grad()
def test_higher_layers_of_hgrn2_forget_more_slowly():
    """The bounds are cumulated sums of a softmax over the layers, which is one parameter of all layers."""
    network = blocks(3, 4, "hgrn2", depth=4, heads=2).double()
    growth = network.layers[1].core.shared_bounds.growth
    growth.normal_()
    shares = torch.softmax(growth, 0)
    for level, layer in enumerate(network.layers):
        features = randn(5, 12)
        bound = (shares.cumsum(0)[level] - shares[0]).view(2, 2)
        f = bound + (1 - bound) * torch.sigmoid(features[:, 4:8].view(5, 2, 2))
        close(layer.core.parts(features).log_decays.exp(), f)
        close(layer.core.parts(features).keys, 1 - f)
    assert sum(parameter is growth for parameter in network.parameters()) == 1


def test_sizes_in_blocks_are_the_published_ones():
    (mamba,) = blocks(3, 48, "mamba", depth=1).layers
    assert mamba.core.rate.in_features == 3
    (griffin,) = blocks(3, 48, "rg-lru", depth=1).layers
    assert griffin.core.hidden_size == 64
    assert griffin.core.input_gate.weight.shape == (16, 4, 4)
    (delta,) = blocks(3, 16, "gated-deltanet", depth=1, heads=2).layers
    assert (delta.core.keys, delta.core.values) == (6, 12)
    (delta,) = blocks(3, 16, "deltaproduct", depth=1, heads=2, key_size=3).layers
    assert (delta.core.keys, delta.core.values) == (3, 6)


@pytest.mark.parametrize("family", ["deltanet", "gated-deltanet", "deltaproduct", "kda"])
@torch.no_grad()
def test_blocks_divide_the_queries_of_delta_rules(family):
    (block,) = blocks(3, 4, family, depth=1).layers
    features = 1 + torch.rand(2, block.core.project.out_features)
    length = block.core.parts(features).queries.norm(dim=-1)
    torch.testing.assert_close(length, torch.full_like(length, block.core.keys**-0.5))


@torch.no_grad()
def test_state_space_models_in_blocks_act_on_their_inputs():
    """S4D has no projection, and D of LRU and S5 is diagonal."""
    x = randn(2, 6)
    for family in ("lru", "s5"):
        (block,) = blocks(3, 6, family, depth=1).double().layers
        project = block.core.project
        close(project(x), torch.cat([x @ project.weight.T, project.skip * x], 1))
    (block,) = blocks(3, 6, "s4d", depth=1, state_size=4).double().layers
    assert block.core.project(x) is x


@torch.no_grad()
def test_the_convolution_of_a_minimal_cell_precedes_its_maps():
    (block,) = blocks(3, 4, "mingru", depth=1).double().layers
    core, xs = block.core, randn(7, 2, 3)
    e = block.embed(xs)
    u, _ = block.convolution.run(block.norm(e), torch.zeros(2, 4, 4, dtype=torch.float64))
    z, n = core.maps(u).chunk(2, -1)
    h, expected = torch.zeros(2, 4, dtype=torch.float64), []
    for z_t, n_t in zip(torch.sigmoid(z), n, strict=True):
        h = (1 - z_t) * h + z_t * torch.where(n_t >= 0, n_t + 0.5, torch.sigmoid(n_t))
        expected.append(h)
    close(ms.scan(block, xs)[0], block.last(e + block.out(torch.stack(expected))))


def test_bad_blocks_are_refused():
    for make, message in [
        (lambda: blocks(3, 4, "gru"), "one of s4d, .*, slstm, but is 'gru', which has no block.$"),
        (lambda: blocks(3, 4, "mamba3"), "one of s4d, .*, which is no cell. Did you mean 'mamba'[?]$"),
        (lambda: blocks(3, 4, "mingru", heads=2), "has no option 'heads'. Its options: none"),
        (lambda: blocks(3, 4, "rwkv7", key_size=2), "has no option 'key_size'. Its options: heads = 1.$"),
        (lambda: blocks(3, 4, depth=0), "depth must be"),
        (
            lambda: blocks(3, 4, "gla", architecture="h3"),
            '"s4d" and "mamba" one of plain, h3, mamba, but is \'h3\' for',
        ),
        (lambda: blocks(3, 4, "mamba", architecture="h4"), "plain, h3, mamba, but is 'h4'"),
        (lambda: blocks(0, 4), "input_size must be .* at least 1, but is 0"),
        (lambda: blocks(3, 4, heads=0), "heads must be .* at least 1, but is 0"),
        (lambda: blocks(3, 4, key_size=0), "key_size must be .* at least 1, but is 0"),
        (lambda: Block(GLA(3, 4), width=4), "must take 4 inputs, but this GLA takes 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    for method in ("advance", "read"):
        with pytest.raises(NotImplementedError, match=f"Recurrence must define {method}"):
            getattr(Recurrence(), method)(randn(1, 3), None)


class Halving:
    """A mixin whose step halves the next state."""

    def advance(self, features, state):
        return map_state(lambda part: part / 2, super().advance(features, state))


class MixedSLSTM(Halving, SLSTM):
    """An sLSTM whose step comes from a mixin."""


class HalfSLSTM(SLSTM):
    """An sLSTM whose step halves the next state."""

    def advance(self, features, state):
        return map_state(lambda part: part / 2, super().advance(features, state))


@pytest.mark.parametrize("heads", [1, 2])
def test_an_slstm_on_whole_sequences_is_its_steps_where_no_scan_is_fused(heads, monkeypatch):
    core = SLSTM(4, 6, heads=heads).double()
    state = map_state(torch.rand_like, core.initial_state(2))
    features = core.project(randn(7, 2, 4))
    fused = core.run(features, state, MASK)
    monkeypatch.setattr(SLSTM, "_why_not_fused", lambda *arguments: "a test asks for the loop")
    looped = core.run(features, state, MASK)
    for one, other in zip(leaves(fused), leaves(looped), strict=True):
        close(one, other)


@pytest.mark.parametrize("kind", [HalfSLSTM, MixedSLSTM])
def test_a_block_around_another_slstm_runs_its_steps(kind):
    block, xs = Block(kind(3, 4), 3, Surroundings(projection=True)), torch.randn(5, 2, 3)
    outputs, _, route = ms.scan(block, xs, explain=True)
    assert not route.fused
    assert f"{kind.__name__} takes no whole sequences" in str(route)
    assert torch.equal(outputs, ms.scan(block, xs, backend="loop")[0])


def test_a_step_that_is_replaced_on_the_recurrence_of_a_block_is_used():
    block, xs = Block(SLSTM(3, 4), 3, Surroundings(projection=True)), torch.randn(5, 2, 3)
    before = block.core._advance
    block.core._advance = lambda u, state: map_state(lambda part: part / 2, before(u, state))
    outputs, _, route = ms.scan(block, xs, explain=True)
    assert "was replaced on the instance" in str(route)
    assert torch.equal(outputs, ms.scan(block, xs, backend="loop")[0])
