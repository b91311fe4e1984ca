"""What counting a session's first step finds, and that it changes nothing."""

import contextlib
import io
import os
import sys
import types
import unittest

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils import _python_dispatch
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402
from paceline import flops  # noqa: E402
from paceline.alone import AloneEngine  # noqa: E402

STEPS = 3
KINDS = ("half", "matrices", "convolutions", "other")


class CountingEngine(AloneEngine):
    """Wants to know what a step costs."""

    def __init__(self, counts, passes):
        super().__init__(steps=STEPS, batch=2, seed=0, passes=passes)
        self.counts_flops = counts
        self.told = []

    def set_flops(self, *per_sample):
        self.told.append({kind: one for kind, one in zip(KINDS, per_sample) if one})


def mean_square(model, x):
    return model(x).square().mean()


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))


MLP_FLOPS = 2 * (2 * 4 * 8 + 3 * 8 * 3)  # Nobody needs the gradient of the input.


class Wrapped(nn.Module):
    """torch.compile leaves out what is only of torch's own modules."""

    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return self.inner(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 24, bias=False)

    def forward(self, x):
        parts = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.inner(x).chunk(3, -1))
        return nn.functional.scaled_dot_product_attention(*parts)


class Again(nn.Module):
    """Computes its second layer again in the backward pass."""

    def __init__(self, use_reentrant):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 8)
        self.use_reentrant = use_reentrant

    def forward(self, x):
        return checkpoint(lambda x: self.second(x.relu()), self.first(x),
                          use_reentrant=self.use_reentrant)


class Recurrent(nn.LSTM):
    def forward(self, input, hx=None):  # pylint: disable=redefined-builtin
        return super().forward(input, hx)[0]


@torch.library.custom_op("of_a_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_autograd(lambda _context, gradient: gradient * 2)


class Trial(unittest.TestCase):
    def train(self, model, loss_of, batch, counts=True, passes=1):
        """Returns what the engine is told, what is printed of it, and all that counting must not
        change."""
        engine = CountingEngine(counts, passes)
        run = paceline.init(steps=STEPS, batch_per_rank=2)
        run._engine = engine
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        run.attach(model, optimizer)
        losses = []
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            for step in run.steps():
                with step:
                    for x in step.batches([batch]):
                        loss = loss_of(model, x)
                        losses.append(loss.item())
                        step.backward(loss)
                    self.assertIsNone(_python_dispatch._get_current_dispatch_mode())
                    step.update()
                if step.number == 0:
                    self.assertIsNone(run._flops, "later steps are as ever")
        counters = [int(state["step"]) for state in optimizer.state.values()]
        self.assertEqual(set(counters), {STEPS})
        same = [losses, torch.get_rng_state().tolist(),
                [p.tolist() for p in map(torch.Tensor.detach, model.parameters())]]
        return engine.told, text.getvalue(), same

    def check(self, expected, make, loss_of, batch, passes=1):
        """A step costs this per sample; a training that is counted is one that is not."""
        results = []
        for counts in (True, False):
            torch.manual_seed(0)
            results.append(self.train(make(), loss_of, batch, counts, passes))
        (told, text, same), (nothing, _, plain) = results
        self.assertEqual(told, [expected] if expected else [], text)
        self.assertEqual(nothing, [])
        self.assertEqual(same, plain)
        return text


class FlopsTest(Trial):
    def test_layers_and_passes(self):
        for passes in (1, 3):
            text = self.check({"matrices": MLP_FLOPS}, mlp, mean_square, torch.ones(2, 4),
                              passes=passes)
            self.assertIn(f"counted flops_per_sample={MLP_FLOPS} in a step of {2 * passes} "
                          "samples\n", text)

    def test_convolutions_of_groups_and_transposed(self):
        def make():
            return nn.Sequential(nn.Conv2d(4, 8, 3, groups=2, bias=False),
                                 nn.ConvTranspose2d(8, 4, 2, bias=False))

        # Each of 4 x 3 places has the weights of one group applied, or all.
        first, second = 4 * 3 * 8 * 2 * 9, 4 * 3 * 8 * 4 * 4
        self.check({"convolutions": 2 * (2 * first + 3 * second)}, make, mean_square,
                   torch.randn(2, 4, 6, 5))

    def test_attention_without_what_it_computes_again(self):
        self.check({"matrices": 2 * 2 * 5 * 8 * 24 + 3 * 2 * 2 * (2 * 5 * 5 * 4)}, Attention,
                   mean_square, torch.randn(2, 5, 8))

    def test_checkpointed_layers_without_what_they_compute_again(self):
        for use_reentrant in (True, False):
            self.check({"matrices": 2 * (2 * 4 * 8 + 3 * 8 * 8)},
                       lambda again=use_reentrant: Again(again), mean_square, torch.ones(2, 4))

    def test_autocast(self):
        def loss_of(model, x):
            with torch.autocast("cpu", torch.bfloat16):
                y = model(x)
            return y.float().square().mean()

        self.check({"half": MLP_FLOPS}, mlp, loss_of, torch.ones(2, 4))

    def test_a_mode_of_the_scripts_own(self):
        def loss_of(model, x):
            with FlopCounterMode(display=False) as counter:
                loss = mean_square(model, x)
            self.assertEqual(counter.get_total_flops(), 2 * 2 * (4 * 8 + 8 * 3))
            return loss

        self.check({"matrices": MLP_FLOPS}, mlp, loss_of, torch.ones(2, 4))

    def test_what_cannot_be_counted_is_told(self):
        text = self.check(None, lambda: Recurrent(4, 8), mean_square, torch.ones(2, 3, 4))
        self.assertRegex(text, "FLOPs are not counted: the shapes of .*rnn.* do not say what it "
                               "does; flops_per_sample in the job's file gives them")
        text = self.check(None, lambda: nn.LayerNorm(4), mean_square, torch.ones(2, 4))
        self.assertIn("it has no matrix products, convolutions or attention", text)
        text = self.check(None, mlp, lambda model, batch: mean_square(model, batch.x),
                          types.SimpleNamespace(x=torch.ones(2, 4)))
        self.assertIn("do not tell their number of samples; make each a tensor", text)

    def test_what_is_sparse_or_nested_is_told_and_trains_on(self):
        sparse = torch.eye(2).to_sparse()
        text = self.check(None, mlp,
                          lambda model, x: model(torch.sparse.mm(sparse, x)).square().mean(),
                          torch.ones(2, 4))
        self.assertRegex(text, "the shapes of aten._sparse_.* do not say")

        def loss_of_two(model, x):
            y = model(torch.nested.nested_tensor([x[:1], x]))
            return torch.nested.to_padded_tensor(y, 0.0).square().mean()

        text = self.check(None, lambda: nn.Linear(4, 3), loss_of_two, torch.ones(2, 4))
        self.assertIn("the shapes of aten.linear do not say", text)

    def test_products_that_torchs_counter_leaves_out(self):
        def loss_of(model, x):
            y = torch.zeros(2, 3).addmm_(model(x), torch.ones(3, 3))
            return y.square().mean() + torch.addbmm(y, y[None], torch.ones(1, 3, 3)).mean()

        # Of both, the result and the gradient of the first factor.
        self.check({"matrices": MLP_FLOPS + 2 * 2 * (2 * 3 * 3)}, mlp, loss_of, torch.ones(2, 4))
        text = self.check(None, lambda: nn.Bilinear(4, 4, 3), lambda model, x: model(x, x).mean(),
                          torch.ones(2, 4))
        self.assertIn("the shapes of aten._trilinear do not say", text)

    def test_a_pass_in_inference_mode(self):
        teacher = nn.Linear(4, 3)

        def loss_of(model, x):
            with torch.inference_mode():
                wanted = teacher(x)
            return (model(x) - wanted.clone()).square().mean()

        self.check({"matrices": MLP_FLOPS + 2 * 4 * 3}, mlp, loss_of, torch.ones(2, 4))

    def test_sequences_of_different_lengths(self):
        """Three and five of two heads, of width 8; their backward pass costs two forward passes."""
        own = flops._OWN_PACKETS
        x, ends = torch.ones(8, 2, 8), torch.tensor([0, 3, 8], dtype=torch.int32)
        forward = 2 * 2 * 2 * 8 * (3 * 3 + 5 * 5)
        flash = own[torch.ops.aten._flash_attention_backward]
        self.assertEqual(2 * forward, flash(x, x, x, x, x, x, ends, ends, 5, 5, 0.0, False, x, x,
                                            out_val=(x, x, x)))
        efficient = own[torch.ops.aten._efficient_attention_backward]
        x = x[None]
        self.assertEqual(2 * forward, efficient(x, x, x, x, None, x, ends, ends, 5, 5, x, 0.0, x, x,
                                                0, False, out_val=(x, x, x, None)))

    def test_graphs_that_are_replayed(self):
        def make():
            model = mlp()
            forward = model.forward

            def replay(x):
                return forward(x)

            replay.__module__ = "torch.cuda.graphs"  # As that of make_graphed_callables.
            model.forward = replay
            return model

        self.assertIn("parts of it are CUDA graphs", self.check(None, make, mean_square,
                                                                torch.ones(2, 4)))

    def test_operators_of_others_are_named(self):
        text = self.check({"matrices": MLP_FLOPS}, mlp,
                          lambda model, x: twice(model(x)).square().mean(), torch.ones(2, 4))
        self.assertIn("in a step of 2 samples, without of_a_test::twice\n", text)

    def test_a_step_that_fails_leaves_nothing(self):
        run = paceline.init(steps=STEPS, batch_per_rank=2)
        run._engine = CountingEngine(True, 1)
        model = mlp()
        run.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(ValueError, "a mistake"):
            for step in run.steps():
                with step:
                    for x in step.batches([torch.ones(2, 4)]):
                        model(x)
                        raise ValueError("a mistake")
        self.assertIsNone(_python_dispatch._get_current_dispatch_mode())
        with contextlib.redirect_stdout(io.StringIO()):
            for step in run.steps():
                with step:
                    for x in step.batches([torch.ones(2, 4)]):
                        step.backward(mean_square(model, x))
                    step.update()
        self.assertEqual(run._engine.told, [{"matrices": MLP_FLOPS}], "of one whole step")


class CompiledTest(Trial):
    """What torch.compile makes stays compiled, and is not counted."""

    def setUp(self):
        self.graphs = 0
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        self.addCleanup(torch._dynamo.utils.counters.clear)

    def backend(self, graph, _inputs):
        self.graphs += 1
        return graph.forward

    def test_a_compiled_module(self):
        def make():
            model = Wrapped()
            model.compile(backend=self.backend)
            return model

        self.assertIn("TORCH_COMPILE_DISABLE=1",
                      self.check(None, make, mean_square, torch.ones(2, 4)))
        self.assertGreater(self.graphs, 0)

    def test_a_compiled_function(self):
        compiled = torch.compile(lambda model, x: model(x).square().mean(), backend=self.backend)
        torch.manual_seed(0)
        told, text, _ = self.train(Wrapped(), compiled, torch.ones(2, 4))
        self.assertEqual(told, [])
        self.assertIn("not counted: torch.compile makes parts of it", text)
        self.assertGreater(self.graphs, 0, "the first step does not make it give up for good")


class ShardedTest(unittest.TestCase):
    """Counts are those of a rank's own part."""

    def test_fully_sharded(self):
        torch.manual_seed(0)
        told, losses = self.train_sharded(counts=True)
        self.assertEqual(told, [{"matrices": MLP_FLOPS}])
        torch.manual_seed(0)
        self.assertEqual(self.train_sharded(counts=False), ([], losses))

    def train_sharded(self, counts):
        engine = CountingEngine(counts, 1)
        run = paceline.init(steps=STEPS, batch_per_rank=2)
        run._engine = engine
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        for module in (model[0], model[2], model):
            fully_shard(module, mesh=run.mesh)
        run.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        losses = []
        with contextlib.redirect_stdout(io.StringIO()):
            for step in run.steps():
                with step:
                    for x in step.batches([torch.ones(2, 4)]):
                        loss = mean_square(model, x)
                        losses.append(loss.item())
                        step.backward(loss)
                    step.update()
        return engine.told, losses

    def test_a_tensor_that_ranks_share(self):
        torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
        self.addCleanup(torch.distributed.destroy_process_group)
        mesh = init_device_mesh("cpu", (2,))
        weight = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)]).requires_grad_()
        x = distribute_tensor(torch.randn(2, 4), mesh, [Replicate()])
        count = flops.FlopCount()
        count.begin_forward(2)
        y = x @ weight.t()
        count.begin_backward()
        y.to_local().sum().backward()
        count.leave()
        self.assertEqual(count._flops["matrices"], 2 * (2 * 2 * 4 * 8) / 2, "half of both products")


if __name__ == "__main__":
    unittest.main()
