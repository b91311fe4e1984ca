"""`python -m paceline.export`: what it writes, and what it refuses."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import safetensors.torch
import torch

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
sys.path.insert(0, os.path.abspath("python"))
import export_models  # noqa: E402
from paceline.export import Problem, export_step  # noqa: E402
from paceline.export import __main__ as command  # noqa: E402
from paceline.export import compare  # noqa: E402
from paceline.export import step as steps  # noqa: E402
from paceline.export.state import Named, Passes, State  # noqa: E402


class ExportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = str(self.folder / "step.pt2")
        cache = mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder.name + "/cache")
        cache.start()
        self.addCleanup(cache.stop)

    def written(self):
        return sorted(one.name for one in self.folder.iterdir() if one.name != "cache")

    def run_command(self, *arguments):
        """The exit code, and what was printed."""
        text = io.StringIO()
        with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text):
            try:
                code = command.main(list(arguments))
            except SystemExit as ended:
                code = ended.code
        return code, text.getvalue()

    def test_a_package_and_its_weights(self):
        module, inputs, targets = export_models.tokens(2)
        before = {name: one.clone() for name, one in module.state_dict().items()}
        random = torch.random.get_rng_state()
        done = export_step(module, inputs, targets, self.out)
        self.assertEqual(self.written(), ["step.pt2", "step.safetensors"])
        self.assertLess(done.worst, 1e-4)
        self.assertTrue(random.equal(torch.random.get_rng_state()))
        self.assertTrue(module.training)
        for name, value in module.state_dict().items():
            self.assertTrue(value.equal(before[name]), name)

        loader = torch._C._aoti.AOTIModelPackageLoader
        said = loader.load_metadata_from_package(self.out, "train")
        self.assertEqual(said["paceline_inputs"], "I64 2x7")
        self.assertEqual(said["paceline_state"].splitlines(), [
            "parameter F32 - scale", "parameter F32 50x12 embedding.weight",
            "parameter F32 12x12 mix.weight", "parameter F32 12 mix.bias", "changed I64 - passes"])
        self.assertEqual(said["paceline_tied"], "head.weight embedding.weight")
        self.assertEqual(said["paceline_torch"], torch.__version__.split("+")[0])
        weights = safetensors.torch.load_file(done.weights)
        self.assertEqual(set(weights), {"scale", "embedding.weight", "mix.weight", "mix.bias",
                                        "passes"})
        state = [weights[row.split()[-1]] for row in said["paceline_state"].splitlines()]

        # As the trainer: weights that are not those of the export, and a batch without gaps.
        inputs, targets = inputs.contiguous(), targets.contiguous()
        state[0] = torch.tensor(0.5)
        torch.manual_seed(9)
        got = loader(self.out, "train", False, 1, -1).boxed_run([*state, inputs, targets])
        module.scale.data.fill_(0.5)
        torch.manual_seed(9)
        loss = module(inputs, targets)
        loss.backward()
        self.assertAlmostEqual(got[0].item(), loss.item(), places=5)
        for one, parameter in zip(got[1:], module.parameters()):
            self.assertLess((one - parameter.grad).abs().max().item(), 1e-5)
        self.assertEqual(got[-1].item(), 1)
        single = loader(self.out, "single", False, 1, -1).boxed_run(
            [*state, inputs[:1], targets[:1]])
        module.eval()
        self.assertAlmostEqual(single[0].item(), module(inputs[:1], targets[:1]).item(), places=5)

    def test_what_would_be_wrong_is_refused(self):
        for kind, what in {
                "branch": "cannot be traced",
                "number": "forward changes the attribute steps",
                "assigned": "forward assigns the buffer calls",
                "foreign": "neither parameters nor buffers",
                "updates": "forward changes the parameter layer.bias",
                "scores": "returned a tensor [2, 3] of torch.float32",
                "unused": "does not depend on spare.weight, spare.bias",
                "synchronised": "norm is a SyncBatchNorm",
                "hooked": "layer.weight has hooks for its gradient",
                "frozen": "has no parameter that requires gradients",
                "overlap": "one and two are different tensors in the same memory"}.items():
            with self.subTest(kind), self.assertRaises(Problem) as caught:
                export_step(*export_models.strange(kind, 2), self.out)
            self.assertIn(what, str(caught.exception))
        self.assertEqual(self.written(), [])

    def test_what_cannot_be_written_is_refused_before_it_is_compiled(self):
        module, inputs, targets = export_models.strange("", 2)
        taken = self.folder / "taken.pt2"
        taken.mkdir()
        missing = self.folder / "missing"
        with mock.patch.object(steps, "trace", side_effect=AssertionError):
            for out, what in ((missing / "step.pt2", f"{missing} is no folder that can be written"),
                              (taken, f"{taken} is a folder")):
                with self.assertRaises(Problem) as caught:
                    export_step(module, inputs, targets, str(out))
                self.assertIn(what, str(caught.exception))
            with mock.patch.dict(sys.modules, {"safetensors": None}), \
                    self.assertRaises(Problem) as caught:
                export_step(module, inputs, targets, self.out)
            self.assertIn("pip install safetensors", str(caught.exception))

    def test_batches_that_the_trainer_has_not_are_refused(self):
        module, inputs, targets = export_models.strange("", 2)
        for x, y in ((inputs.double(), targets), (inputs, targets.int()), (inputs, targets[:1]),
                     (inputs.flatten(1), targets), (inputs[:0], targets[:0])):
            with self.assertRaises(Problem) as caught:
                export_step(module, x, y, self.out)
            self.assertIn("the trainer's data have", str(caught.exception))

    def test_gradients_that_differ_are_refused(self):
        module, inputs, targets = export_models.strange("", 2)
        state = steps.state_of(module, inputs, targets, "fp32")
        entry = steps.Entry("train", None, 2, [])
        passes = steps.run(module, state, state.values(), inputs, targets, True, "fp32")
        good = [passes.loss, *passes.gradients, *passes.changed]

        def errors(got):
            return compare.errors(state, entry, passes, got, "fp32", False, lambda: compare.changes(
                lambda values: steps.run(module, state, values, inputs, targets, True, "fp32"),
                state.values(), "fp32"))

        self.assertEqual(errors(good)[0], 0)
        for wrong in (passes.gradients[0] * 1.01, passes.gradients[0] * float("nan"),
                      passes.gradients[0].double()):
            with self.assertRaises(Problem) as caught:
                errors([good[0], wrong, *good[2:]])
            self.assertIn("the gradient of layer.weight", str(caught.exception))
        with self.assertRaises(Problem):
            errors(good[:-1])

    def test_rounding_may_decide_on_which_side_of_a_kink_a_value_is(self):
        # The third value of ReLU's input is a hair above 0 in eager mode.
        inputs = torch.tensor([1.0, 1.0, 1.0, 1.0])

        def passes_of(weight):
            weight = weight.detach().requires_grad_(True)
            loss = torch.relu(weight * inputs).sum()
            return Passes(loss.detach(), list(torch.autograd.grad(loss, [weight])), [])

        def eager(values):  # Where a weight is two terms that cancel.
            return passes_of(values[0] - values[1])

        values = [torch.tensor([2.0, 3.0, 1 + 1e-6, -4.0]), torch.tensor([1.0, 1.0, 1.0, 1.0])]
        state = State([Named("weight", values[0], trained=True)], [])
        entry = steps.Entry("train", None, 1, [])
        expected = eager(values)
        below = passes_of(torch.tensor([1.0, 2.0, -1e-6, -5.0]))

        def errors(got):
            return compare.errors(state, entry, expected, [got.loss, *got.gradients], "fp32", True,
                                  lambda: compare.changes(eager, values, "fp32"))

        self.assertGreater(errors(below)[0], 0.5)
        # One of the others is wrong, which no rounding explains.
        for wrong in (torch.tensor([1.0, 1.0, -1.0, 0.0]), torch.tensor([-1.0, 0.0, 0.0, 0.0])):
            with self.assertRaises(Problem) as caught:
                errors(Passes(expected.loss, [wrong * 3], []))
            self.assertIn("weights that move by 0.01% move it by 1", str(caught.exception))
            self.assertIn("Dropout of a tensor that is not contiguous", str(caught.exception))

    def test_the_command_says_what_is_wrong_with_its_arguments(self):
        models = f"{FOLDER}/export_models.py"
        for arguments, code, what in (
                ((f"{models}:tokens", "--batch", "0", "--out", self.out), 2, "--batch is 0"),
                ((f"{models}:tokens", "--batch", "2", "--out", "x.pt"), 2, "must end in .pt2"),
                ((models, "--batch", "2", "--out", self.out), 2, "FILE.py:FUNCTION"),
                ((f"{models}:none", "--batch", "2", "--out", self.out), 1, "no function none"),
                ((f"{models}:nothing", "--batch", "2", "--out", self.out), 1, "must return the"),
                ((f"{models}:half", "--batch", "2", "--out", self.out), 1, "not of 2 samples"),
                ((f"{FOLDER}/no.py:make", "--batch", "2", "--out", self.out), 1, "no.py")):
            got, text = self.run_command(*arguments)
            self.assertEqual(got, code, text)
            self.assertIn(what, text)
        self.assertEqual(self.written(), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
