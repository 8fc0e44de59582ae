"""The backward pass of a run: truncated BPTT on this process's shard, summed over the process group."""

from __future__ import annotations

from torch import Tensor

from mnemoscope.cells import Model
from mnemoscope.cells.state import State
from mnemoscope.config.run_config import RunConfig
from mnemoscope.tasks import Batch, Task
from mnemoscope.training.bptt import BatchLoss, backpropagate, cut_windows, penalised_modules
from mnemoscope.training.checkpoint import Counters
from mnemoscope.training.graphed_pass import GraphedPass, warn_without_graphs
from mnemoscope.training.interruption import Interruption
from mnemoscope.training.process_group import GradientSums, ProcessGroup, clear_unused_gradients
from mnemoscope.training.seeding import seeded


class BackwardPass:
    """Callable that runs a batch forward and backward; afterwards the gradients are those of the whole batch.

    The present step of `counters` seeds the random numbers of the pass. The processes agree on a request to stop, in
    `interruption`, together with the gradients.
    """

    def __init__(
        self, model: Model, config: RunConfig, group: ProcessGroup, counters: Counters, interruption: Interruption
    ) -> None:
        self._model, self._config, self._group, self._counters = model, config, group, counters
        self._interruption = interruption
        self._learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._penalised = penalised_modules(model)
        self._shard = None if group.world_size == 1 else group.shard(config.batch_size)
        self._sums: GradientSums | None = None
        graphed = config.device == "cuda" and config.cuda_graphs is not False
        self._asked = config.cuda_graphs is True
        self._graphed = GraphedPass(model, self._penalised, warn=self._asked) if graphed else None
        if self._asked and not graphed:
            warn_without_graphs("they need device = cuda")

    def __call__(self, task: Task, batch: Batch, state: State | None, scored: bool) -> BatchLoss:
        """Return the loss of a batch, and put its gradient into the parameters.

        Until `wait`, the gradient of a parameter that no process used is 0 instead of None.
        """
        config = self._config
        if config.device == "cuda" and not isinstance(batch.inputs, Tensor):
            batch = batch._replace(inputs=batch.inputs.padded())
        # another process must not draw the same numbers for its sequences
        seed = ("step", config.seed, self._counters.step, *((self._group.rank,) if self._group.rank else ()))
        with seeded(*seed, device=config.device):
            if self._graphed is not None:
                windows = cut_windows(task, batch, config.truncate, self._shard, on_gpu=True)
                result = self._graphed(task, windows, state, scored=scored)
            else:
                result = backpropagate(
                    self._model, task, batch, config.truncate, state, scored, self._penalised, self._shard
                )
        if self._group.world_size == 1:
            return result
        numbers = [result.loss, result.accuracy or 0.0, float(self._interruption.requested)]
        self._sums = self._group.sum_gradients(self._learned, numbers)
        loss, accuracy, _ = self._sums.numbers
        return BatchLoss(loss, result.state, accuracy.item() if scored else None)

    def wait(self) -> None:
        """Wait for the sums over the processes: which parameters have a gradient, and whether to stop."""
        if self._sums is not None:
            self._interruption.agreed = self._sums.numbers[2].item() > 0
            clear_unused_gradients(self._learned, self._sums)
