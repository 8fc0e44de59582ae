"""A cell with one affine step for each token, as a test writes it down."""

import torch
from torch import nn

from mnemoscope.cells.affine import AffineCell, Parts


class Planted(AffineCell):
    """An affine cell whose inputs (time, batch, 1) are token numbers, and whose parts are rows of a table."""

    def __init__(self, table: Parts) -> None:
        heads, keys = table.queries.shape[-2:]
        super().__init__(1, heads * table.values.shape[-1], heads, keys)
        self.project, self.table = nn.Identity(), table
        self.weight = nn.Parameter(torch.zeros(1, dtype=table.values.dtype))  # sets the precision of the state

    def parts(self, features):
        token = features[..., 0].long()
        rows = [part[token] for part in (self.table.queries, self.table.keys, self.table.values, self.table.log_decays)]
        erase = None if self.table.erase is None else tuple(part[token] for part in self.table.erase)
        return Parts(*rows, erase, None, self.table.micro_steps)


def delta_tokens(keys, betas, decays=None, values=1):
    """Return the table of delta rules with these keys (tokens, [micro,] size) and betas (tokens, [micro])."""
    keys, betas = torch.tensor(keys, dtype=torch.float64), torch.tensor(betas, dtype=torch.float64)[..., None]
    g = torch.zeros_like(betas) if decays is None else torch.tensor(decays, dtype=torch.float64)[..., None]
    queries = keys if keys.dim() == 2 else keys[:, 0]
    k, g, beta = (x.unsqueeze(-2) for x in (keys, g, betas))  # one head
    v = torch.ones(*k.shape[:-1], values, dtype=torch.float64)
    micro = 1 if keys.dim() == 2 else keys.shape[1]
    return Planted(Parts(queries.unsqueeze(-2), beta * k, v, g, (-beta * k, torch.exp(g) * k), None, micro))


def tokens(*rows):
    """Return inputs (time, batch, 1) from one row of token numbers for each sequence."""
    return torch.tensor(rows, dtype=torch.float64).T.unsqueeze(-1)
