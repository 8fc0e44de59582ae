"""Scans of changing matrices: against a loop, and their gradient against autograd."""

import pytest
import torch

from mnemoscope.kernels.block_recurrence import block_scan, block_scan_backward


def loop(A, us):
    h, hs = torch.zeros_like(us[0]), []
    for matrix, u in zip(A, us, strict=True):
        h = (matrix @ h.unsqueeze(-1)).squeeze(-1) + u
        hs.append(h)
    return torch.stack(hs)


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("time", [1, 2, 7, 16, 33])
def test_the_scan_and_its_gradient_are_those_of_a_loop(time, size):
    torch.manual_seed(time)
    A = 0.6 * torch.randn(time, 2, 3, size, size, dtype=torch.float64)
    us = torch.randn(time, 2, 3, size, dtype=torch.float64, requires_grad=True)
    hs, gs = loop(A, us), torch.randn(time, 2, 3, size, dtype=torch.float64)
    torch.testing.assert_close(block_scan(A, us.detach()), hs.detach(), rtol=1e-11, atol=1e-11)
    (expected,) = torch.autograd.grad(hs, us, gs)
    torch.testing.assert_close(block_scan_backward(A, gs), expected, rtol=1e-11, atol=1e-11)


def test_an_orthogonal_matrix_keeps_the_norm_over_many_steps():
    torch.manual_seed(0)
    Q = torch.linalg.qr(torch.randn(1000, 1, 1, 6, 6, dtype=torch.float64))[0]
    us = torch.zeros(1000, 1, 1, 6, dtype=torch.float64)
    us[0] = torch.randn(6)
    norms = block_scan(Q, us).norm(dim=-1)
    torch.testing.assert_close(norms, norms[:1].expand_as(norms), rtol=1e-13, atol=0)
