"""An engine that cuts steps off, for tests of one process."""

import torch

import paceline
from paceline.alone import AloneEngine


class CuttingEngine(AloneEngine):
    """Cuts steps off at these moments, (call, step), as if a rank were lost there."""

    recovers = True

    def __init__(self, run, moments, passes=1):
        super().__init__(steps=run.total_steps, batch=run.batch_per_rank, seed=run.seed,
                         passes=passes)
        self._moments = list(moments)
        self._state = self._random = None
        self.cuts = 0

    def load(self, **parts):
        super().load(**parts)
        self._state = parts["state"]

    def next(self, learning_rate):
        order = super().next(learning_rate)
        self._state.keep()
        self._random = torch.get_rng_state()
        return order

    def backward(self, loss, shown):
        self._cut("backward")
        super().backward(loss, shown)

    def before_update(self, clip):
        self._cut("before_update")
        return super().before_update(clip)

    def cut_off(self, what, collective):
        self.cuts += 1
        self.position = self._began
        self.openings += 1
        self._state.undo()
        torch.set_rng_state(self._random)
        return True

    def _cut(self, call):
        if (call, self._next) in self._moments:
            self._moments.remove((call, self._next))
            raise paceline.Regroup("a rank is lost")
