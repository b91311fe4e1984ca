"""A session without Paceline: one rank, nothing connected."""

import types

import torch


class AloneEngine:
    """As paceline._engine.Engine (python/csrc/engine.h), for a script that runs by itself."""

    rank, world_size, generation, openings = 0, 1, 1, 0
    recovers = is_broken = False

    def __init__(self, *, steps, batch, seed):
        self.steps, self.batch, self.seed = steps, batch, seed
        self.device = torch.device("cpu")
        self.spec = "{}"
        self.position = (0, 0)
        self._parameters = []
        self._next = 0
        self._evaluates = False
        self._evaluated = False

    def load(self, *, parameters, evaluates, **_unused):
        self._parameters = [p for _, p in parameters]
        self._evaluates = evaluates

    def sampler(self, **options):
        return _Sampler(self.seed, **options)

    def set_position(self, epoch, offset):
        self.position = (epoch, offset)

    def set_optimizer_slots(self, slots):
        pass

    def next(self, _learning_rate):
        order = types.SimpleNamespace(
            kind="step", number=self._next, updates=True, generation=1, rank=0, world_size=1,
            batch=self.batch, passes=1)
        for parameter in self._parameters:
            parameter.grad = None
        if self._next >= self.steps:
            order.kind = "evaluate" if self._evaluates and not self._evaluated else "done"
            self._evaluated = True
        return order

    def begin_pass(self):
        pass

    def begin_forward(self, samples, tokens):
        pass

    def backward(self, loss, _shown):
        loss.backward()

    def before_update(self, clip):
        if clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, clip)

    def updated(self):
        self._next += 1

    def end_step(self):
        pass

    def end_evaluation(self, loss, correct, predictions, samples):
        accuracy = f" accuracy={correct / predictions:.4f}" if correct >= 0 else ""
        print(f"evaluation loss={loss / predictions:.9g}{accuracy}", flush=True)

    def cut_off(self, _what, _collective):
        return False

    def fail(self, what):
        pass

    def finish(self):
        return 0


class _Sampler:
    """As paceline._engine.Sampler, in another order."""

    def __init__(self, seed, *, samples, batch, shuffle, epoch, offset, **_one_rank):
        self._seed, self._samples, self._batch, self._shuffle = seed, samples, batch, shuffle
        self.position = (epoch, offset)

    def next(self):
        epoch, offset = self.position
        if offset > self._samples - self._batch:
            epoch, offset = epoch + 1, 0
        self.position = (epoch, offset + self._batch)
        order = range(self._samples)
        if self._shuffle:
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order = torch.randperm(self._samples, generator=generator).tolist()
        return list(order[offset:offset + self._batch])
