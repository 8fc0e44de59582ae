"""How many answers depend on the sequence in which a layer holds the value asked for.

The prediction takes what a layer reads as a sum of two independent parts: the value asked for, and the interference of
all others. A layer above another is not linear in the inputs. What it holds of a value depends on the other values of
the sequence, by the norms and gates below it, and this is lost if the interference is exchanged. Here, the value asked
for is put into another sequence, and what the layers above the first hold of it there replaces what they hold of it in
its own. All else stays, so that every answer that turns is one that the assumption does not decide.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import affine_layers
from mnemoscope.lenses.interference.asked_for import own_parts, reads_inputs
from mnemoscope.lenses.interference.exchange import Recalling, signal_of
from mnemoscope.lenses.interference.trials import RecallTrials


def turned_answers(recalling: Recalling) -> Float[Tensor, " batch"]:
    """Return the share of answers in each sequence that turn from right to wrong, or back; 0 with a single layer."""
    model, trials = recalling.model, recalling.trials
    xs = model.encode(trials.inputs)
    above = [which for which, layer in enumerate(recalling.layers) if not reads_inputs(layer, xs)]
    if not above:
        return torch.zeros(trials.asked.shape[1], dtype=torch.float64)
    turned = []
    for query in recalling.queries():
        moved = in_other_sequences(trials, query.step)
        own = own_parts(model, moved, affine_layers(model, moved.inputs), query.step)
        changes = {
            which: signal_of(recalling.layers[which], own[which], query.step) - query.reads[which].signal
            for which in above
        }
        turned.append((recalling.right(query, changes) - recalling.right(query, {})).abs())
    return torch.stack(turned).nanmean(0)


def in_other_sequences(trials: RecallTrials, step: int) -> RecallTrials:
    """Return the trials with the inputs of another sequence in each, but for the one that is asked for at a step."""
    sequence = torch.arange(trials.inputs.shape[1], device=trials.inputs.device)
    sources = trials.sources[step]
    inputs = trials.inputs.roll(len(sequence) // 2, 1)
    inputs[sources, sequence] = trials.inputs[sources, sequence]
    return trials._replace(inputs=inputs)
