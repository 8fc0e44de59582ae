"""Modules of the packages mambapy, minGRU-pytorch and xlstm as cells."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells.state import leaves, map_state
from tests.cells.test_patching import assert_same
from tests.slow import representatives

WORDS = 11


def mambapy(block):
    module = pytest.importorskip("mambapy.mamba", reason="mambapy is not installed: pip install mambapy")
    config = module.MambaConfig(d_model=6, n_layers=2, d_state=4)
    return getattr(module, block)(config)


def min_rnn(name, *sizes, **options):
    reason = "minGRU-pytorch is not installed: pip install minGRU-pytorch"
    return getattr(pytest.importorskip(f"minGRU_pytorch.{name}", reason=reason), name)(*sizes, **options)


def xlstm(name):
    package = pytest.importorskip("xlstm", reason="xlstm is not installed: pip install xlstm")
    conv = {"conv1d_kernel_size": 4, "num_heads": 2}
    mlstm = package.mLSTMLayerConfig(qkv_proj_blocksize=4, **conv)
    slstm = package.sLSTMLayerConfig(backend="vanilla", **conv)
    sizes = {
        "mlstm_block": package.mLSTMBlockConfig(mlstm=mlstm),
        "slstm_block": package.sLSTMBlockConfig(slstm=slstm, feedforward=package.FeedForwardConfig(proj_factor=1.3)),
        "num_blocks": 2,
        "slstm_at": [1],
        "embedding_dim": 8,
        "context_length": 16,
    }
    if name == "lm":
        return package.xLSTMLMModel(package.xLSTMLMModelConfig(vocab_size=WORDS, **sizes))
    stack = package.xLSTMBlockStack(package.xLSTMBlockStackConfig(**sizes))
    torch.nn.init.constant_(stack.blocks[0].xlstm.mlstm_cell.igate.bias, -3)  # so that the scale m matters
    return {"stack": stack, "mlstm": stack.blocks[0], "slstm": stack.blocks[1].xlstm}[name]


MODULES = {
    "mambapy-block": lambda: mambapy("MambaBlock"),
    "mambapy-residual": lambda: mambapy("ResidualBlock"),
    "mambapy": lambda: mambapy("Mamba"),
    "minGRU": lambda: min_rnn("minGRU", 6, 1.5),
    "minLSTM": lambda: min_rnn("minLSTM", 6),
    "minLM": lambda: min_rnn("minLM", num_tokens=WORDS, dim=6, depth=2),
    "xlstm-mlstm": lambda: xlstm("mlstm"),
    "xlstm-slstm": lambda: xlstm("slstm"),
    "xlstm-stack": lambda: xlstm("stack"),
    "xlstm-lm": lambda: xlstm("lm"),
}


@representatives("mambapy-block", "mambapy", "minGRU", "minLM")
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of torch, in forward mode
@pytest.mark.parametrize("name", MODULES)
def test_steps_equal_the_whole_sequence_and_have_derivatives(name):
    torch.manual_seed(0)
    module = MODULES[name]().double()
    cell = ms.adapt(module)
    size = cell.input_size
    xs = torch.randint(0, WORDS, (2, 6)) if size is None else torch.randn(2, 6, size, dtype=torch.float64)
    with torch.no_grad():
        outputs, state = ms.scan(module, xs)
        assert cell.has_readout == (size is None)
        assert_same(outputs, cell.whole(xs))
        assert_same(outputs[1:], ms.scan(module, xs[1:])[0])
        assert outputs.std() > 1e-3
    kept = map_state(torch.clone, state)
    tangent = map_state(lambda part: part * torch.randn_like(part), state)
    _, change = torch.func.jvp(lambda s: cell(xs[:, 3], s).output, (state,), (tangent,))
    _, pull = torch.func.vjp(lambda s: cell(xs[:, 3], s).output, state)
    cotangent = torch.randn_like(change)
    pulled = sum((a * b).sum() for a, b in zip(leaves(pull(cotangent)[0]), leaves(tangent), strict=True))
    torch.testing.assert_close(pulled, (cotangent * change).sum(), rtol=1e-12, atol=1e-12)
    rows = torch.func.jacrev(lambda s: cell(xs[:, 3], s).output[0, :2])(state)
    first = torch.zeros_like(change)
    first[0, 0] = 1
    assert_same(map_state(lambda part: part[0], rows), pull(first)[0])
    assert all(torch.equal(a, b) for a, b in zip(leaves(kept), leaves(state), strict=True))


@torch.no_grad()
def test_the_fault_of_the_mlstm_that_the_page_names_is_in_the_package():
    torch.manual_seed(0)
    block, xs = xlstm("mlstm").double(), torch.randn(2, 6, 8, dtype=torch.float64)
    state, outputs = {}, []
    for x in xs.split(1, dim=1):
        output, state = block.step(x, **state)
        outputs.append(output)
    assert 1e-10 < float((torch.cat(outputs, 1) - block(xs)).abs().max()) < 1e-6


def test_a_language_model_with_convolutions_that_it_does_not_return_is_refused():
    with pytest.raises(TypeError, match="build it with enable_conv=False"):
        ms.adapt(min_rnn("minLM", num_tokens=WORDS, dim=6, depth=1, enable_conv=True))


def test_a_part_of_a_model_that_is_no_recurrence_is_refused():
    with pytest.raises(TypeError, match=r"mambapy\.mamba\.RMSNorm is not one of the modules of mambapy"):
        ms.adapt(mambapy("ResidualBlock").norm)
