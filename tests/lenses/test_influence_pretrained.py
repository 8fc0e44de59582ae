"""The influence of tokens in models of transformers with random weights."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import affine_layers
from mnemoscope.inspection import InspectionOptions
from mnemoscope.lenses.exact_influence.layer_derivatives import full_path
from mnemoscope.lenses.exact_influence.value_path import value_paths
from tests.lenses.test_influence import full_by_autograd
from tests.lenses.test_value_paths import reads_as_used
from tests.slow import SLOW

pytest.importorskip("transformers", reason="the extra hf is not installed")
from tests.cells.tiny_models import CONFIGURATIONS, WORDS, causal_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def built(name):
    torch.manual_seed(0)
    return causal_model(name).double().requires_grad_(False)


def test_the_influence_of_tokens_is_the_derivative_by_their_embeddings():
    model, tokens = built("mamba"), torch.randint(WORDS, (1, 3))
    found = ms.influence(model, tokens, full=False)
    embedded = model.get_input_embeddings()(tokens)
    J = torch.autograd.functional.jacobian(lambda e: model(inputs_embeds=e).logits, embedded)
    torch.testing.assert_close(found.model, J[0, :, :, 0].square().sum((1, 3)).float())
    for layer in affine_layers(model, tokens):
        torch.testing.assert_close(value_paths(layer).reads(), reads_as_used(layer), rtol=1e-10, atol=1e-12)


@SLOW
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_full_influence_of_a_mixer_is_its_jacobian(name):
    layer = affine_layers(built(name), torch.randint(WORDS, (1, 7)))[0]
    reads = reads_as_used(layer)
    assert (value_paths(layer).reads() - reads).abs().max() <= 1e-10 * reads.abs().max()
    energies = full_path(layer, 0).energies
    if layer.scales is None:
        torch.testing.assert_close(energies, full_by_autograd(layer, (layer.start,)), rtol=1e-9, atol=1e-13)
    else:
        assert bool((energies >= -1e-12 * energies.max()).all())


@SLOW
def test_a_language_model_has_a_page(tmp_path):
    found = ms.inspect(built("qwen3-next"), torch.randint(WORDS, (2, 9)), options=InspectionOptions(progress=False))
    page = found.save(tmp_path / "page.html")
    assert len(found.influence.layers) == 3
    assert "Qwen3NextForCausalLM" in page.read_text()
