"""What `paceline init` proposes for the scripts in tests/onboard: NAME.expected for NAME.py.

`PYTHONPATH=python python3 python/tests/onboard_test.py --write` writes these files anew.
"""

import io
import os
import pathlib
import sys
import textwrap
import tokenize
import unittest
from typing import NamedTuple

sys.path.insert(0, os.path.abspath("python"))
from paceline.onboard.job_file import job_name  # noqa: E402
from paceline.onboard.proposal import diff, propose  # noqa: E402

FOLDER = pathlib.Path("python/tests/onboard")
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))

HEAD = textwrap.dedent("""\
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler
    from net import Net, data, loader
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    """)
LOOP = textwrap.dedent("""\
    for x in loader:
        model(x).backward()
        optimizer.step()
        optimizer.zero_grad()
    """)


def text_of(name):
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


def shown(name):
    """All of a proposal but the job file."""
    one = propose(text_of(name), f"{name}.py")
    lines = [f"outcome: {one.outcome}"]
    lines += [f"{what}: {where}" for what, where in one.found.items()]
    if one.stopped:
        lines += [f"line {one.line}: {one.stopped}", f"remedy: {one.remedy}"]
    lines += [f"{'do' if note.must else 'see'} line {note.line}: {note.text}" for note in one.notes]
    changes = diff(text_of(name), one.edited, "before", "after") if one.edited else ""
    return "\n".join(lines) + "\n" + changes


def comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens
            if token.type == tokenize.COMMENT and not token.line[:token.start[1]].strip()]


def proposal(text):
    return propose(text, "train.py")


class Step(NamedTuple):
    number: int
    passes: int


class ExpectedTest(unittest.TestCase):
    """Each script of the folder."""

    maxDiff = None

    def test_proposals(self):
        self.assertGreaterEqual(len(SCRIPTS), 16)
        for name in SCRIPTS:
            with self.subTest(name):
                expected = (FOLDER / f"{name}.expected").read_text(encoding="utf-8")
                self.assertEqual(shown(name), expected)

    def test_job_files(self):
        # cli/job_file/job_file_test.cc reads them by the project's own rules.
        for name in SCRIPTS:
            with self.subTest(name):
                path = FOLDER / f"{name}.yaml"
                expected = path.read_text(encoding="utf-8") if path.exists() else None
                self.assertEqual(proposal_of(name).job, expected)

    def test_what_is_proposed_is_a_session(self):
        for name in SCRIPTS:
            with self.subTest(name):
                edited = proposal_of(name).edited
                if edited is not None:
                    compile(edited, name, "exec")
                    self.assertEqual(proposal(edited).outcome, "session")
                    self.assertIsNone(proposal(edited).edited)

    def test_comments_of_their_own_stay(self):
        kept = 0
        for name in SCRIPTS:
            edited = proposal_of(name).edited
            if edited is not None:
                for comment in comments(text_of(name)):
                    self.assertIn(comment, comments(edited), name)
                    kept += 1
        self.assertGreater(kept, 5)

    def test_form_does_not_matter(self):
        """Tabs, other ends of lines, other widths, and no end of the last line."""
        forms = {"tabs": lambda text: text.replace("    ", "\t"),
                 "two blanks": lambda text: text.replace("    ", "  "),
                 "CRLF": lambda text: text.replace("\n", "\r\n"),
                 "no last newline": lambda text: text[:-1]}
        for name in SCRIPTS:
            plain = proposal_of(name)
            for form, change in forms.items():
                with self.subTest(name, form=form):
                    edited = proposal(change(text_of(name))).edited
                    wanted = plain.edited and change(plain.edited)
                    if wanted and form == "no last newline":
                        edited, wanted = edited.rstrip("\n"), wanted.rstrip("\n")
                    self.assertEqual(edited, wanted)


def proposal_of(name):
    return propose(text_of(name), f"{name}.py")


class StoppedTest(unittest.TestCase):
    """What is not understood is told, with its line."""

    def check(self, text, line, words, remedy="docs/session.md"):
        one = proposal(text)
        self.assertEqual((one.outcome, one.edited, one.job), ("unclear", None, None), one.stopped)
        self.assertIn(words, one.stopped)
        self.assertIn(remedy, one.remedy)
        self.assertEqual(one.line, line)

    def test_syntax(self):
        self.check("import torch\nfor x in:\n", 2, "not a script of Python", "mend it")

    def test_no_loop(self):
        self.check(HEAD, 1, "no loss.backward()")
        self.check(HEAD + "model(1).backward()\noptimizer.step()\n", 9, "no loop")

    def test_no_step(self):
        self.check(HEAD + "for x in loader:\n    model(x).backward()\n", 10, "no step of an optimi")

    def test_a_class(self):
        method = textwrap.indent("def fit(self, loader, model, optimizer):\n"
                                 + textwrap.indent(LOOP, "    "), "    ")
        self.check("class Fitting:\n" + method, 4, "class Fitting")

    def test_a_model_from_elsewhere(self):
        self.check("def fit(loader, model, optimizer):\n" + textwrap.indent(LOOP, "    "), 2,
                   "made in another function")

    def test_parameters_of_nobody(self):
        self.check("import torch\nfrom net import loader, model, some\n"
                   "optimizer = torch.optim.SGD(some, lr=1)\n" + LOOP, 3, "whose parameters")

    def test_a_loop_of_one_line(self):
        self.check(HEAD + "for x in loader: model(x).backward(); optimizer.step()\n", 9,
                   "on the line of its head", "lines of its own")

    def test_several_statements_of_a_line(self):
        self.check(HEAD + LOOP.replace("    optimizer.zero_grad()\n", "    x = 1; optimizer."
                                       "zero_grad()\n"), 12, "several statements", "its own")

    def test_other_backward_passes(self):
        self.check(HEAD + LOOP.replace("backward()", "backward(retain_graph=True)"), 10,
                   "with arguments")
        self.check(HEAD + LOOP + LOOP, 14, "a second backward pass")

    def test_else_of_a_loop(self):
        self.check(HEAD + LOOP + "else:\n    print()\n", 14, "an else")

    def test_zip(self):
        self.check(HEAD + LOOP.replace("in loader", "in zip(loader, data)"), 9, "zip")

    def test_use_of_the_norm(self):
        clip = "    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1)\n"
        self.check(HEAD + LOOP.replace("    optimizer.step()\n",
                                       clip + "    optimizer.step()\n    print(norm)\n"), 11,
                   "norm is used", "leave norm out")

    def test_clipping_by_value(self):
        clip = "    torch.nn.utils.clip_grad_value_(model.parameters(), 1)\n"
        self.check(HEAD + LOOP.replace("    optimizer.step()\n", clip + "    optimizer.step()\n"),
                   11, "value by value")

    def test_samplers(self):
        made = "loader = DataLoader(data, sampler=Weighted(data))\n"
        self.check(HEAD.replace(", loader\n", "\n") + "from x import Weighted\n"
                   + made.replace("Weighted", "WeightedRandomSampler") + LOOP, 10, "the sampler")

    def test_spawned_ranks(self):
        self.check(HEAD + LOOP + "torch.multiprocessing.spawn(print, nprocs=2)\n", 13,
                   "starts its ranks", "without spawn")

    def test_no_sync(self):
        self.check(HEAD + "no = model.no_sync\n" + LOOP, 9, "no_sync", "leave it out")

    def test_fsdp_of_old(self):
        self.check("from torch.distributed.fsdp import FullyShardedDataParallel as F\n" + HEAD
                   + "model = F(model)\n" + LOOP, 10, "FSDP 1", "FSDP2")

    def test_helpers_that_return_the_rank(self):
        self.check(HEAD + "def setup():\n    dist.init_process_group()\n    return 1\n"
                   "rank = setup()\n" + LOOP, 12, "setup()", "run.rank")

    def test_an_epoch_in_its_middle(self):
        self.check(HEAD + "for epoch in range(3):\n    if epoch > 1:\n        x = 3\n"
                   + textwrap.indent(LOOP, "    "), 10, "where an epoch begins")

    def test_tensor_parallelism(self):
        head = "from torch.distributed.tensor.parallel import parallelize_module\n" + HEAD
        self.check(head + "parallelize_module(model, None, {})\n" + LOOP, 10, "parallelize_module",
                   "docs/sharded.md")

    def test_scale_of_nothing_known(self):
        self.check(HEAD + LOOP.replace("model(x).", "amp.scale(model(x))."), 10, "amp.scale",
                   "make the GradScaler")


class RulesTest(unittest.TestCase):
    """Single rules, by what is left or comes."""

    def edited(self, text):
        one = proposal(text)
        self.assertEqual(one.outcome, "proposed", one.stopped)
        return one.edited

    def test_ranks(self):
        text = self.edited(HEAD.replace("model = Net()", textwrap.dedent("""\
            dist.init_process_group()
            rank, world = dist.get_rank(), int(os.environ["WORLD_SIZE"])
            is_main = int(os.environ.get("RANK", 0)) == 0
            device = f"cuda:{os.environ['LOCAL_RANK']}"
            print(f"rank {dist.get_rank()}", not is_main, (is_main, 1))
            model = DDP(Net().to(device))""")) + LOOP + "dist.destroy_process_group()\n")
        for line in ("run = paceline.init()\n", "rank, world = run.rank, run.world_size\n",
                     "device = str(run.device)\n", "model = Net().to(device)\n",
                     'print(f"rank {run.rank}", not run.rank == 0, ((run.rank == 0), 1))\n'):
            self.assertIn(line, text)
        for gone in ("process_group", "DDP(", "environ[", "is_main"):
            self.assertNotIn(gone, text)

    def test_blocks_that_lose_all(self):
        text = self.edited(HEAD + "if len(data) > 1:\n    model = DDP(model)\nelse:\n    print()\n"
                           + LOOP)
        self.assertIn("if len(data) > 1:\n    pass\nelse:\n    print()\n", text)
        text = self.edited(HEAD + "if len(data) > 1:\n    model = DDP(model)\n" + LOOP)
        self.assertNotIn("len(data)", text)

    def test_epochs_that_leave_nothing_behind(self):
        text = self.edited(HEAD + "for epoch in range(3):\n" + textwrap.indent(LOOP, "    "))
        self.assertTrue(text.endswith("        step.update()\n"), text)

    def test_what_is_set_once_an_epoch(self):
        text = self.edited(
            HEAD + "rank = int(os.environ['RANK'])\nfor epoch in range(3):\n"
            "    total = torch.zeros(2).to(rank)\n    print('epoch', epoch, rank)\n"
            + textwrap.indent(LOOP, "    ") + "        total += 1\n    print(total)\n")
        self.assertIn("\ntotal = torch.zeros(2).to(run.device)\nfor step in run.steps():\n", text)
        self.assertIn("        if -step.number * step.passes % len(loader) < step.passes:"
                      "  # An epoch begins.\n"
                      "            epoch = ((step.number + 1) * step.passes - 1) // len(loader)\n"
                      "            print('epoch', epoch, run.rank)\n        for x in", text)
        self.assertTrue(text.endswith(
            "        step.update()\n        total += 1\n"
            "        if (step.number + 1) * step.passes % len(loader) < step.passes:"
            "  # An epoch ends.\n"
            "            print(total)\n            total = torch.zeros(2).to(run.device)\n"), text)

    def test_epochs_begin_and_end_in_the_right_steps(self):
        """What is written of epochs, computed for all lengths and passes, beside a count."""
        for first, start in ((0, "3"), (1, "1, 4")):
            text = self.edited(
                HEAD + f"for epoch in range({start}):\n    print('begins', epoch)\n"
                + textwrap.indent(LOOP, "    ") + "        seen.append(epoch)\n"
                "    print('ends', epoch)\n")
            lines = [line.split("  #")[0].strip() for line in text.splitlines()]
            at_head, at_tail = [at for at, line in enumerate(lines) if line.startswith("if ")]
            begins, begun, ends, ended = (lines[at] for at in (
                at_head, at_head + 1, at_tail, at_tail + 1))
            in_pass = next(line for line in lines if "epoch = step.number *" in line)
            for length in range(1, 8):
                for passes in range(1, 6):
                    for number in range(30):
                        batches = range(number * passes, (number + 1) * passes)
                        variables = {"step": Step(number, passes), "loader": range(length)}
                        case = (first, length, passes, number)
                        starts = [one // length for one in batches if one % length == 0]
                        stops = [one // length for one in batches if (one + 1) % length == 0]
                        for test, then, expected in ((begins, begun, starts), (ends, ended, stops)):
                            self.assertEqual(eval(  # pylint: disable=eval-used
                                test[len("if "):-1], variables), bool(expected), case)
                            if expected:
                                exec(then, variables)  # pylint: disable=exec-used
                                self.assertEqual(variables["epoch"], first + expected[-1], case)
                        exec(in_pass, variables)  # pylint: disable=exec-used
                        self.assertEqual(variables["epoch"], first + batches[0] // length, case)

    def test_numbers_of_batches(self):
        """A schedule by the batch of an epoch gets that number; what happens now and then need
        not."""
        batches = ("for epoch in range(3):\n    for i, x in enumerate(loader):\n"
                   "        loss = model(x){}\n        loss.backward()\n        {}\n"
                   "        {}optimizer.step()\n        optimizer.zero_grad()\n")
        exact = "i = step.number * step.passes % len(loader)\n"
        for use, of_epoch in (("schedule.step(epoch + i / len(loader))", True),
                              ("adjust(optimizer, epoch * len(loader) + i)", True),
                              ("x = i if i < 100 else 100", True),
                              ("print(i, f'{i}') if i % 10 == 9 else None", False),
                              ("logging.info('%d', i)", False)):
            one = proposal(HEAD + batches.format("", use, ""))
            with self.subTest(use):
                self.assertEqual(exact in one.edited, of_epoch)
                self.assertEqual("i = step.number\n" in one.edited, not of_epoch)
                self.assertEqual([note for note in one.notes if note.must], [])
        # Steps of several batches have no such number, and a person has to say what is meant.
        for use, must in (("schedule.step(epoch + i / len(loader))", [13]),
                          ("x = 1 if i % 4 == 0 else 2", [13]),
                          ("print(i, i % 100)", [])):
            one = proposal(HEAD + batches.format(" / 4", use, "if i % 4 == 3:\n            "))
            with self.subTest(use):
                self.assertIn("i = step.number\n", one.edited)
                self.assertEqual([note.line for note in one.notes if note.must], must)

    def test_files_that_all_ranks_write(self):
        save = "torch.save(model.state_dict(), 'model.pt')\n"
        one = proposal(HEAD + LOOP + save + "if dist.get_rank() == 0:\n    " + save)
        self.assertEqual([note.line for note in one.notes if note.must], [13])

    def test_divisions_of_the_loss_that_are_not_found(self):
        batches = "for i, (x, y) in enumerate(loader):\n    loss = f(model(x), y){}\n" \
                  "    loss.backward()\n    if (i + 1) % 4 == 0:\n        optimizer.step()\n" \
                  "        optimizer.zero_grad()\n"
        for division, told in ((" / 4", False), (" * 0.25", True), ("", True)):
            one = proposal(HEAD + batches.format(division))
            self.assertEqual(any("divides by the batches" in note.text and note.must
                                 for note in one.notes), told, division)

    def test_epochs_that_end_early(self):
        one = proposal(HEAD + "for epoch in range(3):\n    for i, (x, y) in enumerate(loader):\n"
                       "        f(model(x), y).backward()\n        optimizer.step()\n"
                       "        if i == 200:\n            break\n")
        self.assertIn("an epoch ends before all of its batches", str(one.stopped))

    def test_variables_that_are_gone(self):
        one = proposal(HEAD + "sampler = DistributedSampler(data)\nfor epoch in range(3):\n"
                       + textwrap.indent(LOOP, "    ") + "print(len(sampler), epoch)\n")
        self.assertEqual([(note.line, note.text.split()[0]) for note in one.notes if note.must],
                         [(15, "epoch"), (15, "sampler")])

    def test_samplers_of_other_loaders(self):
        text = self.edited(HEAD + "test = DataLoader(data, 8, sampler=DistributedSampler(data, "
                           "shuffle=False), num_workers=1)\n" + LOOP)
        self.assertIn("test = DataLoader(data, 8, num_workers=1)\n", text)

    def test_arguments_of_loaders(self):
        head = HEAD.replace(", loader\n", "\n")
        for given, wanted in (
                ("data", "data, shuffle=False"),
                ("data, 8, True", "data, batch_size=8, shuffle=True"),
                ("data, sampler=DistributedSampler(data)", "data"),
                ("data, shuffle=(1 > 2), sampler=DistributedSampler(data, shuffle=False)",
                 "data, shuffle=(False)"),
                ("dataset=data, drop_last=True, num_workers=2",
                 "dataset=data, num_workers=2, shuffle=False")):
            text = self.edited(f"{head}loader = DataLoader({given})\n{LOOP}")
            self.assertIn(f"loader = run.loader({wanted})\n", text)

    def test_clipping(self):
        for clip, wanted in (("if 3 > 2:\n        C(1.5)", "clip=1.5 if 3 > 2 else 0.0"),
                             ("if most is not None:\n        C(most)", "clip=most"),
                             ("C(max_norm=2)", "clip=2")):
            clip = clip.replace("C(", "torch.nn.utils.clip_grad_norm_(model.parameters(), ")
            text = self.edited(HEAD + "most = 1\n" + LOOP.replace(
                "    optimizer.step()", f"    {clip}\n    optimizer.step()"))
            self.assertIn(f"        step.update({wanted})\n", text)

    def test_a_scaler_that_may_be_none(self):
        text = self.edited(
            HEAD + "scaler = torch.amp.GradScaler() if len(data) else None\n"
            "for x in loader:\n    loss = model(x)\n    if scaler is not None:\n"
            "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n"
            "        scaler.update()\n    else:\n        loss.backward()\n"
            "        optimizer.step()\n")
        self.assertIn("attach(model, optimizer, *([scaler] if scaler is not None else []))\n", text)
        self.assertTrue(text.endswith(
            "            loss = model(x)\n            step.backward(loss)\n"
            "        step.update()\n"), text)

    def test_a_while_around_the_loader(self):
        one = proposal(HEAD + "done = 0\nwhile done < 300:\n" + textwrap.indent(
            LOOP + "    done += 1\n    if done == 300:\n        break\n", "    "))
        self.assertIn("\n        done = step.number + 1\n", one.edited)
        self.assertIn("import paceline\nrun = paceline.init(steps=300)\n", one.edited)
        self.assertIn("\nsteps: 300 ", one.job)

    def test_a_loss_that_is_used_besides(self):
        one = proposal(HEAD + "total = 0\nfor i, x in enumerate(loader):\n    loss = model(x) / 4\n"
                       "    total += loss.item()\n    loss.backward()\n    if i % 4 == 0:\n"
                       "        optimizer.step()\n        optimizer.zero_grad()\n")
        self.assertIn("            loss = model(x)\n", one.edited)
        self.assertIn("\naccumulation_steps: 4 ", one.job)
        self.assertIn((12, "loss is no longer divided by 4: divide it here", False), one.notes)

    def test_exits_are_told(self):
        one = proposal(HEAD + LOOP + "    if x > 3:\n        break\n")
        self.assertEqual([(note.line, note.text[:19]) for note in one.notes if note.line == 14],
                         [(14, "leaves the training")])

    def test_names_that_are_taken(self):
        text = self.edited(HEAD + "run = step = session = 1\n" + LOOP)
        self.assertIn("for session_step in paceline_run.steps():", text)

    def test_arguments_that_a_script_needs(self):
        one = proposal(HEAD + "import argparse\nparser = argparse.ArgumentParser()\n"
                       "parser.add_argument('data')\nparser.add_argument('--more', nargs='?')\n"
                       "parser.add_argument('-o', '--out', required=True)\n" + LOOP)
        self.assertIn("does not start without data, --out:", one.job)

    def test_names_of_jobs(self):
        for script, name in (("train.py", "train"), ("Train_2 b.py", "train-2-b"),
                             ("7.py", "run-7"), ("_.py", "run"), ("x" * 80 + ".py", "x" * 63)):
            self.assertEqual(job_name(script), name)


def write_expected():
    for name in SCRIPTS:
        (FOLDER / f"{name}.expected").write_text(shown(name), encoding="utf-8")
        job = proposal_of(name).job
        if job is not None:
            (FOLDER / f"{name}.yaml").write_text(job, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_expected()
    else:
        unittest.main(argv=sys.argv[:1])
