"""The study of formulas about orthogonal and unitary matrices."""

import torch

from mnemoscope.replication import Finished
from mnemoscope.studies.kerg2022.unitary_families import STUDY, cayley


def test_the_transform_of_cayley_is_its_own_inverse():
    A = torch.tensor([[0.0, 2.0], [-2.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(cayley(cayley(A)), A)
    torch.testing.assert_close(cayley(A), torch.tensor([[-0.6, -0.8], [0.8, -0.6]], dtype=torch.float64))


def test_identities_hold_for_matrices_of_any_size_and_two_printed_gradients_do_not(tmp_path):
    (trial,) = STUDY.trials(STUDY.presets["smoke"].settings, (0,))
    result = STUDY.run(trial, tmp_path, progress=False)
    assert {row.judgement.obstacle for row in STUDY.summarise([Finished(trial, result)])} == {
        "other conditions than published"
    }
    failing = {
        quantity
        for quantity, value in result.items()
        if "dimension" not in quantity and value not in STUDY.claim(quantity).agreement
    }
    assert failing == {
        "Stiefel gradient: change of the loss by a small step, per step and gradient",
        "expRNN: cosine of printed and computed gradient",
    }
    assert result["exponential of skew-Hermitian matrices, n = 8: dimension"] == 4**2
    assert result["uRNN, n = 8: dimension"] <= 4**2
