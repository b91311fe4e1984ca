"""What `paceline init` proposes for a script: text in, edits and a job file out."""

from __future__ import annotations

import ast
import difflib
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from paceline.onboard.job_file import Job, Said, ranks_of, text_of_job, whole
from paceline.onboard.loop_edits import LoopEdits, Names, Note
from paceline.onboard.loop_parts import Parts, divide
from paceline.onboard.model_edits import ModelEdits
from paceline.onboard.ranks import Ranks
from paceline.onboard.script import Script, calls_method, ends_with, text_of
from paceline.onboard.source import Edits, Unclear
from paceline.onboard.training_loop import Kinds, TrainingLoop, find_loop

_STEPS = 1000
_EVALUATES = ("eval", "valid", "estimate_loss")
# Packages with loops of their own: what makes the loop there, and what to do.
_ADAPTERS = (
    ("transformers", ("Trainer", "Seq2SeqTrainer"), "the Trainer of transformers",
     "use the adapter paceline.hf, which makes its loop a session"),
    ("trl", ("SFTTrainer", "DPOTrainer", "GRPOTrainer"), "a Trainer of trl",
     "use the adapter paceline.hf, which makes its loop a session"),
    ("lightning", ("Trainer",), "the Trainer of Lightning",
     "use the adapter paceline.lightning, whose Strategy makes its loop a session"),
    ("pytorch_lightning", ("Trainer",), "the Trainer of Lightning",
     "use the adapter paceline.lightning, whose Strategy makes its loop a session"),
    ("accelerate", ("Accelerator",), "the Accelerator of accelerate",
     "write the loop as docs/session.md shows, without the Accelerator"),
    ("deepspeed", ("initialize",), "DeepSpeed",
     "its engine shards and steps by itself, so the script is no session"),
)


class Proposal(NamedTuple):
    """What was found in a script, and what is proposed."""

    outcome: str  # proposed, session (is one already), adapter, unclear.
    script: str   # Its file name.
    found: Dict[str, str]  # What was found, and where: "optimizer": "optimizer, line 12".
    edited: Optional[str]  # The script's new text; None: it stays.
    job: Optional[str]     # The job file; None: none is proposed.
    notes: List[Note]
    line: int = 0      # Where the analysis stopped; 0: nowhere.
    stopped: str = ""  # What is there.
    remedy: str = ""   # What a person can do.


def propose(text: str, script: str, venv: str = "") -> Proposal:
    """Proposes edits and a job file. Runs nothing of the script.

    script: its file name. venv: the virtual environment that the job file names.
    """
    try:
        parsed = Script(text)
    except SyntaxError as error:
        return Proposal("unclear", script, {}, None, None, [], error.lineno or 1,
                        f"not a script of Python {_python()}: {error.msg}",
                        "mend it, or activate an environment with the Python of the script")
    if is_session(parsed):
        return Proposal("session", script, {}, None, _job_of_session(parsed, script, venv), [])
    for package, names, what, remedy in _ADAPTERS:
        line = _line_of(parsed, package, names)
        if line:
            return Proposal("adapter", script, {}, None, None, [], line, what, remedy)
    try:
        return _Proposing(parsed, script, venv).make()
    except Unclear as problem:
        return Proposal("unclear", script, {}, None, None, [], problem.line, problem.what,
                        problem.remedy)


def _line_of(script: Script, package: str, names: Sequence[str]) -> int:
    """Where one of these classes is made, or derived from; 0: nowhere."""
    used = [node.func for node in ast.walk(script.tree) if isinstance(node, ast.Call)]
    used += [base for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef)
             for base in node.bases]
    return min((node.lineno for node in used for name in [script.full_name(node)]
                if name.startswith(f"{package}.") and name.rsplit(".", 1)[-1] in names), default=0)


def is_session(script: Script) -> bool:
    """Whether a script calls paceline.init() and goes through run.steps()."""
    loops = [node.iter for node in ast.walk(script.tree) if isinstance(node, ast.For)]
    runs = {one.target for one in script.assignments if script.called(one.value) == "paceline.init"}
    return any(calls_method(one if isinstance(one, ast.Call) else None, "steps")[0] in runs
               for one in loops) and bool(runs)


def diff(before: str, after: str, old: str, new: str) -> str:
    """As `diff -u` prints it."""
    lines: List[str] = []
    for line in difflib.unified_diff(before.splitlines(keepends=True),
                                     after.splitlines(keepends=True), old, new):
        lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _python() -> str:
    import sys  # pylint: disable=import-outside-toplevel

    return ".".join(map(str, sys.version_info[:2]))


def _free(script: Script, *names: str) -> str:
    """The first of these names that the script does not use."""
    return next((one for one in names if one not in script.names), names[-1] + "_")


class _Proposing:
    """The edits of one script."""

    def __init__(self, script: Script, name: str, venv: str) -> None:
        self._script, self._name, self._venv = script, name, venv
        self._source = script.source
        self._edits = Edits(script.source)
        self._names = Names(_free(script, "run", "session", "paceline_run"),
                            _free(script, "step", "session_step", "job_step"))
        self._kinds = Kinds(script)

    def make(self) -> Proposal:
        loop = find_loop(self._script, self._kinds)
        parts = divide(self._script, self._kinds, loop)
        ranks = Ranks(self._script, loop.scope, self._names, self._edits)
        ranks.make()
        model = ModelEdits(self._script, self._kinds, loop, self._names, ranks, self._edits)
        model.make()
        session = LoopEdits(self._script, self._kinds, loop, parts, self._names, self._edits)
        session.make(model.batches, model.counted_by, model.tells_epoch)
        self._write_beginning(loop, parts, ranks, model)
        before = self._above(loop.outer.lineno)
        indent = self._source.indent(loop.outer.lineno)
        for line in [model.attach(), *model.hoisted, *session.hoisted]:
            self._edits.insert(before, indent + line)
        again = self._checked(loop)
        notes = [one for one in [*ranks.notes, *model.notes]
                 if not self._edits.has_dropped(one.line)]
        notes += [*session.notes, *self._more_notes(loop, parts, ranks, model),
                  *self._lost(again)]
        return Proposal("proposed", self._name, self._found(loop, model),
                        again.source.text,
                        text_of_job(self._job(loop, parts, model)),
                        sorted(set(notes), key=lambda one: (one.line, one.text)))

    def _checked(self, loop: TrainingLoop) -> Script:
        """The new script, which has to be a session."""
        edited = self._edits.apply()
        remedy = "change the loop by hand, as docs/session.md shows"
        try:
            compile(edited, self._name, "exec", dont_inherit=True)
            again = Script(edited)
        except SyntaxError as error:
            raise Unclear(loop.outer.lineno, "the loop cannot be divided without breaking its form "
                          f"({error.msg})", remedy) from error
        if not is_session(again):
            raise Unclear(loop.outer.lineno, "the loop, once changed, is no session", remedy)
        return again

    def _lost(self, again: Script) -> List[Note]:
        """Uses of variables that nothing sets any longer."""
        gone = self._script.bound() - again.bound()
        return [Note(use.lineno, f"{name} is no longer set; take what it is for in its place", True)
                for name in sorted(gone) if again.uses(name)
                for use in self._script.uses(name) if not self._edits.is_dropped(use)]

    def _above(self, line: int) -> int:
        """The line of the comments right before a line, or itself."""
        indent = self._source.indent(line)
        while line > 1 and self._source.lines[line - 2].startswith(f"{indent}#") and (
                line - 1 not in self._source.in_string):
            line -= 1
        return line

    def _write_beginning(self, loop: TrainingLoop, parts: Parts, ranks: Ranks,
                         model: ModelEdits) -> None:
        """`import paceline`, and `run = paceline.init()` before what needs it."""
        needs = [*ranks.needs_run, *model.made, loop.outer, *([ranks.group] if ranks.group else [])]
        needs = [one for one in needs if self._script.scope(one) is loop.scope]
        body = loop.scope.body
        first = next(one for one in body if any(
            need is one or one in self._source.ancestors(need) for need in needs))
        line = self._above(first.lineno)
        indent = self._source.indent(first.lineno)
        run = self._names.run
        self._edits.insert(self._behind_imports(), "import paceline")
        self._edits.insert(line, f"{indent}{run} = paceline.init("
                           f"{self._steps_of(parts, first.lineno)})")
        if ranks.fixed_device:
            if ranks.fixed_device_line < line:
                self._edits.insert(line, f"{indent}{ranks.fixed_device} = str({run}.device)")
            else:
                for one in self._script.assigned(ranks.fixed_device, loop.scope):
                    if ranks.is_live(one.statement) and isinstance(one.value, ast.Constant):
                        self._edits.replace_node(one.value, f"str({run}.device)")

    def _behind_imports(self) -> int:
        line = 1
        if self._source.text.startswith("#!"):
            line = 2
        for at, one in enumerate(self._script.tree.body):
            is_doc = at == 0 and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
            if not (is_doc or isinstance(one, (ast.Import, ast.ImportFrom))):
                break
            line = (one.end_lineno or one.lineno) + 1
        return line

    def _steps_of(self, parts: Parts, line: int) -> str:
        """How many steps the script makes alone, if it says so before this line."""
        if parts.count is None or parts.counts_epochs:
            return ""
        for node in ast.walk(parts.count):
            if isinstance(node, ast.Call):
                return ""
            if isinstance(node, ast.Name) and not any(
                    one.statement.lineno < line for one in self._script.assigned(node.id)):
                return ""
        return f"steps={self._source.of(parts.count)}"

    def _more_notes(self, loop: TrainingLoop, parts: Parts, ranks: Ranks,
                    model: ModelEdits) -> List[Note]:
        notes: List[Note] = []
        for node in ast.walk(loop.outer):
            if isinstance(node, ast.Assign) and text_of(node.targets[0]).endswith("['lr']"):
                notes.append(Note(node.lineno, "the learning rate is set by hand: that goes with "
                                  "every strategy but slipstream and auto"))
            elif isinstance(node, ast.If) and ranks.is_main(node.test):
                called = [self._script.called(one).lower() for one in ast.walk(node)]
                if any(word in name for name in called for word in _EVALUATES):
                    notes.append(Note(node.lineno, "one rank evaluates while the others wait, for "
                                      "collective_timeout_s at most; a function with @"
                                      f"{self._names.run}.evaluation shares it (docs/session.md)"))
        by_epochs = [one for one in parts.epoch_tail if model.is_sharded
                     and calls_method(getattr(one, "value", None), "step")[0] in
                     self._kinds.schedulers]
        return notes + [Note(one.lineno, "a scheduler of a sharded model makes one step in each "
                             "step: count it in steps, and move it behind "
                             f"{self._names.step}.update()", must=True) for one in by_epochs]

    def _found(self, loop: TrainingLoop, model: ModelEdits) -> Dict[str, str]:
        last = loop.outer.end_lineno or loop.outer.lineno
        found = {"loop": f"lines {loop.outer.lineno}-{last}",
                 "model": f"{model.model}, line {model.made[0].lineno}",
                 "optimizer": self._where(loop.optimizer)}
        schedulers = sorted(self._kinds.schedulers)
        if schedulers:
            found["scheduler"] = "; ".join(map(self._where, schedulers))
        if loop.scaler:
            found["GradScaler"] = self._where(loop.scaler)
        for title, names in (("DDP", ("DistributedDataParallel",)), ("FSDP2", ("fully_shard",)),
                             ("process group", ("init_process_group",)),
                             ("sampler", ("DistributedSampler",)),
                             ("checkpoints by hand", ("torch.save", "checkpoint.save"))):
            calls = self._script.calls(*names)
            if calls:
                found[title] = f"line {calls[0].lineno}"
        found["batches"] = model.batches
        return found

    def _where(self, name: str) -> str:
        made = self._script.assigned(name)
        return f"{name}, line {made[0].statement.lineno}" if made else name

    def _job(self, loop: TrainingLoop, parts: Parts, model: ModelEdits) -> Job:
        return Job(script=self._name, steps=self._steps(loop, parts),
                   batch=self._said(model.batch_size) or self._batch_by_name(loop),
                   accumulation=self._accumulation(parts, model), is_sharded=model.is_sharded,
                   has_scaler=bool(loop.scaler), names_cuda=names_cuda(self._script),
                   venv=self._venv, required=tuple(self._script.required_flags()))

    def _said(self, node: Optional[ast.expr]) -> Optional[Said]:
        value = self._script.value(node)
        number = whole(value.number) if value else None
        if value is None or number is None:
            return None
        name = f"As {value.name} says" if value.name else "As it is"
        return Said(number, f"{name} in line {value.line}.", False)

    def _steps(self, loop: TrainingLoop, parts: Parts) -> Said:
        said = self._said(parts.count)
        where = f"line {loop.outer.lineno}"
        if not parts.counts_epochs:
            return said or Said(_STEPS, f"the loop of {where} does not say it in a number", True)
        start = self._script.value(parts.start)
        first = int(start.number) if start else 0
        epochs = f"{said.number - first} epochs in {where}" if said else f"epochs in {where}"
        return Said(_STEPS, f"{epochs}; give epochs x samples / (ranks x batch x accumulation)",
                    True)

    def _batch_by_name(self, loop: TrainingLoop) -> Optional[Said]:
        """Of a function that draws batches, whose size is a variable's."""
        del loop
        for name in ("batch_size", "micro_batch_size", "BATCH_SIZE"):
            said = self._said(ast.parse(name, mode="eval").body)
            if said is not None:
                return said
        return None

    def _accumulation(self, parts: Parts, model: ModelEdits) -> Optional[Said]:
        if parts.accumulation is None:
            return None
        said = self._said(parts.accumulation)
        name = text_of(parts.accumulation)
        if said is None:
            return Said(1, f"{name} in line {parts.accumulation.lineno} is not known here", True)
        ranks = ranks_of(model.is_sharded)
        shared = any(isinstance(node, ast.AugAssign) and isinstance(node.op, ast.FloorDiv)
                     and text_of(node.target) == name for node in ast.walk(self._script.tree))
        if shared and said.number % ranks == 0:
            return Said(said.number // ranks, f"{said.number} in {name}, divided by ranks", True)
        return said


def names_cuda(script: Script) -> bool:
    """Whether a script speaks of GPUs."""
    return any(ends_with(script.full_name(node), "torch.cuda")
               or isinstance(node, ast.Constant) and str(node.value).split(":")[0] == "cuda"
               or isinstance(node, ast.Attribute) and node.attr == "cuda"
               for node in ast.walk(script.tree))


def _job_of_session(script: Script, name: str, venv: str) -> str:
    call = script.calls("paceline.init")[0]
    steps: Tuple[int, str] = (_STEPS, "the script's file does not say it")
    for one in call.keywords:
        value = script.value(one.value) if one.arg == "steps" else None
        number = whole(value.number) if value else None
        if number is not None:
            steps = (number, f"as the script makes them alone, in line {call.lineno}")
    return text_of_job(Job(
        script=name, steps=Said(*steps, True), is_sharded=bool(script.calls("fully_shard")),
        has_scaler=bool(script.calls("GradScaler")), names_cuda=names_cuda(script), venv=venv,
        required=tuple(script.required_flags())))
