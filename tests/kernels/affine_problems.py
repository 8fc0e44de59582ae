"""Random affine recurrences of every family, for the tests of their kernels."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mnemoscope.kernels import affine_scan

FAMILIES = ("mamba-2", "gla", "deltanet", "gated deltanet", "kda", "rwkv-7", "deltaproduct")


@dataclass(frozen=True)
class Problem:
    """Arguments of `affine_scan`; `leaves` are those with a gradient."""

    leaves: tuple[Tensor, ...]
    """Queries, keys, values, log decays, perhaps a and b, and the initial state."""
    micro_steps: int = 1
    resets: Tensor | None = None

    def scan(self, *leaves, **options):
        """Return outputs and final state."""
        queries, keys, values, log_decays, *erase, state = leaves or self.leaves
        sequences = (queries, keys, values, log_decays, tuple(erase) or None)
        return affine_scan(*sequences, state=state, micro_steps=self.micro_steps, resets=self.resets, **options)

    def results(self, **options):
        """Return outputs, final state and the gradients of all leaves, for fixed random gradients."""
        found = self.scan(**options)
        generator = torch.Generator().manual_seed(1)
        into = [torch.randn(x.shape, generator=generator).to(x) for x in found]
        return (*found, *torch.autograd.grad(found, self.leaves, into))

    def to(self, *target):
        """Return the problem in another dtype or on another device."""
        leaves = tuple(x.detach().to(*target).requires_grad_() for x in self.leaves)
        device = leaves[0].device
        return replace(self, leaves=leaves, resets=None if self.resets is None else self.resets.to(device))


def problem(family, tokens, *, batch=2, heads=2, keys=4, values=3, decay=1.0, forget=0.0, packed=False):
    """Return a random problem in float64, with beta up to 2 and log decays down to `-decay`.

    A share `forget` of the log decays is -inf.
    """
    micro_steps = 3 if family == "deltaproduct" else 1
    steps = (tokens * micro_steps, batch, heads)
    q = torch.randn(tokens, batch, heads, keys, dtype=torch.float64) / keys**0.5
    k, v = torch.randn(*steps, keys, dtype=torch.float64) / keys**0.5, torch.randn(*steps, values, dtype=torch.float64)
    unit, beta = normalize(torch.randn_like(k), dim=-1), 2 * torch.rand(*steps, 1, dtype=torch.float64)
    rates = keys if family in ("gla", "kda", "rwkv-7") else 1
    g = -decay * torch.rand(*steps, rates, dtype=torch.float64) ** 4
    if family == "deltaproduct":
        g.unflatten(0, (tokens, micro_steps))[:, 1:] = 0
    if forget:
        g = torch.where(torch.rand_like(g) < forget, -torch.inf, g)
    erase = ()
    if family == "deltanet":
        g, erase, k = 0 * g, (-beta * unit, unit), beta * unit
    elif family == "rwkv-7":
        erase = (-torch.rand_like(k) * unit, unit)
    elif family not in ("mamba-2", "gla"):
        erase, k = (-beta * unit, g.exp() * unit), beta * unit
    state = torch.randn(batch, heads, keys, values, dtype=torch.float64)
    leaves = tuple(x.requires_grad_() for x in (q, k, v, g, *erase, state))
    return Problem(leaves, micro_steps, torch.rand(tokens, batch) < 0.2 if packed else None)


def equal_keys(family, tokens, size=64):
    """Return a problem in float32 whose keys are all the same, with beta 2 and no decay: every step is a reflection."""
    q, v = (torch.randn(tokens, 1, 1, size) for _ in range(2))
    k = normalize(torch.randn(1, 1, 1, size), dim=-1).expand(tokens, -1, -1, -1)
    g = torch.zeros(tokens, 1, 1, size if family == "kda" else 1)
    leaves = (q, 2 * k, v, g, -2 * k, k.clone(), torch.randn(1, 1, size, size))
    return Problem(tuple(x.requires_grad_() for x in leaves))


def errors(found, expected):
    """Return the error of each tensor relative to its norm."""
    return [
        ((x.double() - y.double()).norm() / y.double().norm().clamp(min=1e-300)).item()
        for x, y in zip(found, expected, strict=True)
    ]
