"""Stacked matrix layers, feed-forward and recurrent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from mnemoscope.base.array_types import Float
from mnemoscope.cells.matrix.bilinear import Bilinear, Shape, checked_shape
from mnemoscope.cells.matrix.rnn import MatrixRNN
from mnemoscope.cells.nonlinearities import make_nonlinearity
from mnemoscope.cells.stack import Stack


class MatrixLayers(nn.Module):
    """A feed-forward matrix network: `phi(U^T X V + B)`, layer by layer (Renanse et al. 2021, Eq 1).

    `shapes` are those of the input and of each layer's output, and `last` is the nonlinearity of the last layer. Inputs
    and outputs are flattened row by row, so that it can encode the inputs of a `Model`.

    >>> import torch
    >>> MatrixLayers([(28, 28), (10, 10), (5, 2)])(torch.zeros(7, 784)).shape
    torch.Size([7, 10])
    """

    def __init__(self, shapes: Sequence[Shape], nonlinearity: str = "tanh", last: str = "linear") -> None:
        super().__init__()
        shapes = _at_least_two(shapes)
        names = [nonlinearity] * (len(shapes) - 2) + [last]
        self.input_size, self.output_size = prod(shapes[0]), prod(shapes[-1])
        self.maps = nn.ModuleList(Bilinear(one, other) for one, other in pairwise(shapes))
        self.phis = nn.ModuleList(
            make_nonlinearity(name, prod(shape)) for name, shape in zip(names, shapes[1:], strict=True)
        )
        self.shapes = shapes

    def forward(self, xs: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch outputs"]:
        if xs.shape[-1] != self.input_size:
            raise ValueError(
                f"These layers take matrices of shape {self.shapes[0]}, flat: {self.input_size} features, but the "
                f"inputs have shape {tuple(xs.shape)}."
            )
        for shape, layer, phi in zip(self.shapes, self.maps, self.phis, strict=False):
            xs = phi(layer(xs.unflatten(-1, shape)).flatten(-2))
        return xs


def stack_matrix_rnns(shapes: Sequence[Shape], nonlinearity: str = "tanh", last: str = "linear") -> Stack:
    """Return stacked matrix RNNs, the last of which is the readout.

    `shapes` are those of the input and of the state of each cell, and `last` is the nonlinearity of the last cell.
    Tasks take logits of bits, so that it should be "linear": "logistic" has no negative outputs, and every bit would be
    predicted as 1. Renanse et al. (2021), Table 1, has such networks with 5 x 5 inputs and outputs, one of 2,175 and
    one of 5,675 parameters.

    >>> published = stack_matrix_rnns([(5, 5), (15, 15), (15, 15), (5, 5)])
    >>> sum(weight.numel() for weight in published.parameters())
    2175
    """
    shapes = _at_least_two(shapes)
    names = [nonlinearity] * (len(shapes) - 2) + [last]
    pairs = zip(pairwise(shapes), names, strict=True)
    return Stack([MatrixRNN(below, above, name) for (below, above), name in pairs], has_readout=True)


def _at_least_two(shapes: Sequence[Shape]) -> list[Shape]:
    if len(shapes) < 2:
        raise ValueError(f"Shapes of an input and of at least one layer are needed, but there are {list(shapes)}.")
    return [checked_shape(shape) for shape in shapes]
