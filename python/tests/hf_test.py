"""transformers' Trainer as a session, without a daemon: it computes what transformers' own does,
also where steps are cut off, and tells what does not go with it.

Usage: hf_test.py ADAPTERS_PAGE
"""

import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import accelerate
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, TrainerCallback, TrainingArguments

sys.path.insert(0, os.path.abspath("python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paceline  # noqa: E402
from cutting_engine import CuttingEngine  # noqa: E402
from loader_recipes_cases import (  # noqa: E402  # pylint: disable=unused-import
    LoaderRecipesTest,  # noqa: F401
    Recipes,
)
from paceline import hf  # noqa: E402

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
SAMPLES = [{"input_ids": ids, "labels": ids.clone()}
           for ids in torch.randint(0, 40, (40, 12), generator=generator)]
# Of different numbers of tokens that count.
for number, sample in enumerate(SAMPLES):
    sample["labels"][:number % 5] = -100


class Calls(TrainerCallback):
    """Notes the events of a training."""

    def __init__(self):
        self.names = []

    def __getattribute__(self, name):
        if name.startswith("on_") and name != "on_init_end":
            return lambda args, state, control, **_others: self.names.append(
                (name, state.global_step))
        return super().__getattribute__(name)


def make(kind, callbacks=(), dropout=0.0, samples=None, compute_metrics=None, run=None, **changes):
    transformers.set_seed(1)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
        eos_token_id=0, attn_pdrop=dropout, embd_pdrop=dropout, resid_pdrop=dropout))
    arguments = {"output_dir": FOLDER.name, "max_steps": 8, "per_device_train_batch_size": 4,
                 "logging_steps": 1, "report_to": [], "use_cpu": True, "seed": 1,
                 "learning_rate": 1e-2, "train_sampling_strategy": "sequential",
                 "save_strategy": "no", "disable_tqdm": True, "dataloader_pin_memory": False,
                 **changes}
    others = {} if run is None else {"run": run}
    return kind(model=model, args=TrainingArguments(**arguments),
                train_dataset=SAMPLES if samples is None else samples,
                callbacks=list(callbacks), compute_metrics=compute_metrics, **others)


def logs_of(trainer):
    return [{name: entry[name] for name in ("loss", "grad_norm", "learning_rate", "epoch", "step")}
            for entry in trainer.state.log_history if "loss" in entry]


class HfTest(unittest.TestCase):
    def assert_same(self, one, other):
        self.assertEqual(logs_of(one), logs_of(other))
        for (name, mine), its in zip(one.model.named_parameters(), other.model.parameters()):
            self.assertTrue(torch.equal(mine, its), name)

    def test_it_computes_what_transformers_does(self):
        for changes in ({}, {"gradient_accumulation_steps": 2}, {"bf16": True},
                        {"max_grad_norm": 0.0}, {"lr_scheduler_type": "cosine", "warmup_steps": 3},
                        {"num_train_epochs": 2, "max_steps": -1, "logging_strategy": "epoch"}):
            with self.subTest(changes=changes):
                mine, its = make(hf.Trainer, **changes), make(transformers.Trainer, **changes)
                ended, expected = mine.train(), its.train()
                self.assert_same(mine, its)
                self.assertEqual((ended.global_step, ended.training_loss),
                                 (expected.global_step, expected.training_loss))
                self.assertEqual(mine.state.total_flos, its.state.total_flos)

    def test_its_callbacks_see_the_same_events(self):
        for changes in ({}, {"gradient_accumulation_steps": 2, "logging_steps": 3}):
            mine, its = Calls(), Calls()
            make(hf.Trainer, [mine], num_train_epochs=2, **{**changes, "max_steps": -1}).train()
            make(transformers.Trainer, [its], num_train_epochs=2,
                 **{**changes, "max_steps": -1}).train()
            self.assertEqual(mine.names, its.names)
        straddling = Calls()
        make(hf.Trainer, [straddling], gradient_accumulation_steps=3).train()
        self.assertEqual([event for event in straddling.names if "epoch" in event[0]],
                         [("on_epoch_begin", 0), ("on_epoch_end", 4), ("on_epoch_begin", 4),
                          ("on_epoch_end", 7), ("on_epoch_begin", 7)])

    def test_steps_that_are_cut_off_are_made_again(self):
        for passes in (1, 3):
            changes = {"gradient_accumulation_steps": passes, "dropout": 0.1,
                       "train_sampling_strategy": "random"}
            undisturbed = make(hf.Trainer, **changes)
            undisturbed.train()
            trainer = make(hf.Trainer, **changes)
            trainer.run._engine = CuttingEngine(
                trainer.run, [("backward", 0), ("backward", 3), ("backward", 3),
                              ("before_update", 7)], passes)
            trainer.train()
            self.assertEqual(trainer.run._engine.cuts, 4)
            self.assert_same(trainer, undisturbed)

    def test_what_it_attaches_goes_on_in_another_process(self):
        class Counts(TrainerCallback, transformers.trainer_callback.ExportableState):
            count = 0

            def on_step_end(self, args, state, control, **others):
                self.count += 1

            def state(self):
                return {"args": {}, "attributes": {"count": self.count}}

        first = make(hf.Trainer, [Counts()])
        first.train()
        second = make(hf.Trainer, [Counts()], max_steps=9)
        second._loader = second.run.loader(SAMPLES)
        second._attach()
        saved = first._progress.state_dict()
        second._progress.load_state_dict(json.loads(json.dumps(saved)))
        self.assertEqual(second.state.global_step, 8)
        self.assertEqual(second.state.max_steps, 9)
        self.assertEqual(second.state.log_history, first.state.log_history)
        self.assertEqual(second.callback_handler.callbacks[1].count, 8)
        self.assertEqual(second._progress.state_dict(), saved)

    def test_an_evaluation_is_the_sessions(self):
        def accuracy(predictions):
            right = predictions.predictions.argmax(-1) == predictions.label_ids
            return {"accuracy": right.mean()}

        trainer = make(hf.Trainer, compute_metrics=accuracy)
        trainer.eval_dataset = SAMPLES[:10]
        told = Calls()
        trainer.add_callback(told)
        trainer.train()
        entry = next(entry for entry in trainer.state.log_history if "eval_loss" in entry)
        self.assertEqual(told.names.count(("on_evaluate", 8)), 1)
        numbers = torch.get_rng_state()
        make(hf.Trainer).train()
        self.assertTrue(torch.equal(torch.get_rng_state(), numbers))
        alone = trainer.evaluate()
        self.assertEqual((entry["eval_loss"], entry["eval_accuracy"]),
                         (alone["eval_loss"], alone["eval_accuracy"]))

    def test_a_training_step_of_ones_own(self):
        class Doubled(hf.Trainer):
            def compute_loss(self, model, inputs, **others):
                return 2 * super().compute_loss(model, inputs, **others)

        class Two(hf.Trainer):
            def training_step(self, model, inputs, num_items_in_batch=None):
                super().training_step(model, inputs, num_items_in_batch)
                return super().training_step(model, inputs, num_items_in_batch)

        class Own(hf.Trainer):
            def training_step(self, model, inputs, num_items_in_batch=None):
                loss = self.compute_loss(model, self._prepare_inputs(inputs))
                loss.backward()
                return loss.detach()

        class Steps(hf.Trainer):
            def training_step(self, model, inputs, num_items_in_batch=None):
                loss = super().training_step(model, inputs, num_items_in_batch)
                self.optimizer.step()
                return loss

        plain, doubled = make(hf.Trainer), make(Doubled)
        plain.train()
        doubled.train()
        self.assertEqual(doubled.state.log_history[0]["loss"],
                         2 * plain.state.log_history[0]["loss"])
        for kind, expected in ((Two, "called once for each batch"), (Own, "backward 0 times"),
                               (Steps, "was updated already")):
            with self.assertRaisesRegex(RuntimeError, expected):
                make(kind).train()

    def test_it_replaces_no_method_by_accident(self):
        names = {name for name in vars(hf.Session)
                 if hasattr(transformers.Trainer, name) and not name.startswith("__")}
        self.assertEqual(names, {"_inner_training_loop", "is_local_process_zero",
                                 "is_world_process_zero", "save_model", "train"})

        def private(source):
            return set(re.findall(r"self\.(_\w+)", inspect.getsource(source)))

        self.assertEqual(private(hf.Session) & private(transformers.Trainer),
                         {"_initial_num_input_tokens_seen", "_track_num_input_tokens"})

    def test_a_trainer_of_others(self):
        class Theirs(transformers.Trainer):
            def compute_loss(self, model, inputs, **others):
                return 2 * super().compute_loss(model, inputs, **others)

        class Mine(hf.Session, Theirs):
            pass

        mine, its = make(Mine), make(Theirs)
        mine.train()
        its.train()
        self.assert_same(mine, its)

    def test_a_spare_that_is_not_needed(self):
        trainer = make(hf.Trainer)
        trainer.run._engine.rank, trainer.run._engine._next = -1, 8
        self.assertEqual(trainer.train().training_loss, 0.0)
        self.assertEqual(trainer.state.log_history, [])

    def test_a_run_that_the_script_has_made(self):
        run = paceline.init(steps=3, batch_per_rank=2, seed=4)
        trainer = make(hf.Trainer, run=run, max_steps=-1, per_device_train_batch_size=8)
        self.assertEqual(trainer.train().global_step, 3)
        self.assertEqual(trainer.args.per_device_train_batch_size, 2)
        with self.assertRaisesRegex(ValueError, "max_steps=5 of TrainingArguments and steps: 3"):
            make(hf.Trainer, run=paceline.init(steps=3), max_steps=5)

    def test_a_model_is_written_by_rank_0_alone(self):
        trainer = make(hf.Trainer)
        trainer.train()
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.object(type(trainer.run), "rank", 1):
                trainer.save_model(folder)
                self.assertEqual(os.listdir(folder), [])
            trainer.save_model(folder)
            self.assertIn("model.safetensors", os.listdir(folder))


class AloneTest(unittest.TestCase):
    """What it needs of a session without a daemon."""

    @staticmethod
    def make():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        return model, torch.optim.SGD(model.parameters(), lr=0.1)

    def test_several_batches_make_a_step(self):
        def train(passes, batches):
            run = paceline.init(steps=2, accumulation_steps=passes)
            model, optimizer = self.make()
            run.attach(model, optimizer)
            for step in run.steps():
                self.assertEqual(step.passes, passes)
                with step:
                    for x in step.batches(batches):
                        step.backward(model(x).square().mean())
                    step.update()
            return list(model.parameters())

        first, second = torch.ones(2, 4), torch.full((2, 4), 3.0)
        both = torch.cat([first, second])
        torch.testing.assert_close(train(2, [first, second]), train(1, [both]))
        with self.assertRaisesRegex(ValueError, "accumulation_steps is 0"):
            paceline.init(accumulation_steps=0)

    def test_a_parameter_of_two_modules_is_clipped_once(self):
        norms = []
        for tied in (True, False):
            run = paceline.init(steps=1)
            model, _ = self.make()
            if tied:
                model.again = model[1]
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            before = [p.clone() for p in model.parameters()]
            run.attach(model, optimizer)
            for step in run.steps():
                with step:
                    for x in step.batches([torch.ones(2, 4)]):
                        step.backward(model[:2](x).square().mean())
                    step.update(clip=1e-3)
            norms.append(torch.nn.utils.get_total_norm(
                [p - q for p, q in zip(model.parameters(), before)]))
        torch.testing.assert_close(norms, [torch.tensor(1e-3)] * 2, rtol=1e-2, atol=0)


class PageTest(Recipes):
    """The Trainers of docs/adapters.md. lightning_test.py has Lightning's."""

    def test_transformers(self):
        with tempfile.TemporaryDirectory() as folder:
            former, plain = os.getcwd(), make(transformers.Trainer)
            os.chdir(folder)
            self.run_block("from paceline.hf import Trainer", model=plain.model,
                           arguments=plain.args, dataset=SAMPLES, held_out=SAMPLES[:4])
            self.assertIn("model.safetensors", os.listdir("trained"))
            os.chdir(former)

    def test_accelerate(self):
        # A process has one state of Accelerate's, and the Trainers have made it.
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        before = self.net.weight.clone()
        done = self.run_block("Accelerator(cpu", Accelerator=accelerate.Accelerator, net=self.net,
                              dataset=self.samples)
        self.assertEqual(done["step"].number, 19)
        self.assertFalse(torch.equal(self.net.weight, before))
        self.assertEqual(accelerate.Accelerator(cpu=True).num_processes, 1)


class MistakesTest(unittest.TestCase):
    """Each is told, with what to do instead."""

    def test_arguments(self):
        for changes, expected in (
                ({"auto_find_batch_size": True}, "auto_find_batch_size .* batch_per_rank"),
                ({"push_to_hub": True}, "push_to_hub .* behind trainer.train"),
                ({"save_strategy": "best", "metric_for_best_model": "loss"},
                 "save_strategy 'best'"),
                ({"lr_scheduler_type": "reduce_lr_on_plateau", "eval_strategy": "epoch",
                  "metric_for_best_model": "loss"}, "follows an evaluation"),
                ({"eval_strategy": "steps", "eval_steps": 2}, "evaluation.every of the job's file"),
                ({"load_best_model_at_end": True, "eval_strategy": "steps",
                  "save_strategy": "steps"}, "load_best_model_at_end .*export")):
            with self.subTest(changes=changes), self.assertRaisesRegex(ValueError, expected):
                make(hf.Trainer, **changes)

    def test_arguments_of_other_parallelism(self):
        arguments = TrainingArguments(FOLDER.name, use_cpu=True, report_to=[])
        for name in ("deepspeed", "fsdp", "parallelism_config"):
            with mock.patch.object(arguments, name, "something", create=True):
                with self.assertRaisesRegex(ValueError, f"{name} of TrainingArguments"):
                    hf.Trainer(torch.nn.Linear(1, 1), arguments)

    def test_other_launchers(self):
        for name in ("RANK", "WORLD_SIZE", "ACCELERATE_USE_FSDP"):
            with mock.patch.dict(os.environ, {name: "true" if "USE" in name else "1"}):
                with self.assertRaisesRegex(RuntimeError, f"{name} of torchrun or `accelerate"):
                    hf.Trainer(torch.nn.Linear(1, 1))

    def test_a_loop_of_ones_own(self):
        class Loops(hf.Trainer):
            def _inner_training_loop(self, *arguments, **keywords):
                pass

        with self.assertRaisesRegex(TypeError, "Loops._inner_training_loop changes the Trainer's"):
            make(Loops)

    def test_resuming_by_the_trainers_own_means(self):
        trainer = make(hf.Trainer)
        for given in (True, FOLDER.name):
            with self.assertRaisesRegex(ValueError, "goes on from its own checkpoints"):
                trainer.train(resume_from_checkpoint=given)
        trainer.train(resume_from_checkpoint=False)
        with self.assertRaisesRegex(RuntimeError, "called before; a session trains once"):
            trainer.train()

    def test_samples_that_cannot_be_divided(self):
        Stream = type("Stream", (torch.utils.data.IterableDataset,), {"__iter__": lambda self: None})
        self.assertRaisesRegex(TypeError, "Stream, an IterableDataset",
                               make(hf.Trainer, samples=Stream()).train)
        with self.assertRaisesRegex(TypeError, "no dict"):
            make(lambda **given: hf.Trainer(**{**given, "eval_dataset": {"a": SAMPLES}}))
        grouped = make(hf.Trainer, train_sampling_strategy="group_by_length")
        self.assertRaisesRegex(ValueError, "a LengthGroupedSampler draws the", grouped.train)

    def test_a_callback_that_stops(self):
        class Stops(TrainerCallback):
            def on_step_end(self, args, state, control, **others):
                control.should_training_stop = True

        with self.assertRaisesRegex(RuntimeError, "asks to stop behind step 1, and a session"):
            make(hf.Trainer, [Stops()]).train()

    def test_a_callback_that_raises_ends_the_training(self):
        class Raises(TrainerCallback):
            def on_log(self, args, state, control, **others):
                raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            make(hf.Trainer, [Raises()]).train()

    def test_an_installation_without_transformers(self):
        blocked = ("import sys; sys.modules['transformers'] = None\nimport paceline.hf")
        ended = subprocess.run(
            [sys.executable, "-c", blocked], check=False, text=True, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.abspath("python")})
        self.assertRegex(ended.stderr, r"ImportError: paceline.hf needs transformers and accelerate"
                         r".*pip install 'transformers==5")

    def test_the_package_imports_no_adapter(self):
        ended = subprocess.run(
            [sys.executable, "-c", "import paceline, sys; paceline.init; "
             "print({'transformers', 'lightning', 'accelerate'} & set(sys.modules))"],
            check=True, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.abspath("python")})
        self.assertEqual(ended.stdout, "set()\n")


FOLDER = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
