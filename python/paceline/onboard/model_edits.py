"""The model, the optimizer and the loader of a script as those of a session."""

from __future__ import annotations

import ast
from typing import List, Optional, Set, Union

from paceline.onboard.loop_edits import Names, Note
from paceline.onboard.ranks import Ranks
from paceline.onboard.script import (Assignment, Script, calls_method, ends_with, keyword, stop,
                                     text_of)
from paceline.onboard.source import Edits
from paceline.onboard.training_loop import Kinds, TrainingLoop

_WRAPPERS = ("DistributedDataParallel", "DataParallel")
_OF_DATALOADER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers",
                  "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn")
_NOT_OF_RUN = ("sampler", "batch_sampler", "drop_last", "in_order")
_TOGETHER = ("bring model, optimizer, loader and loop into one function, or change the script by "
             "hand, as docs/session.md shows")


class ModelEdits:
    """Edits of what is trained, and of what it is trained on. Raises Unclear where it is not
    found."""

    def __init__(self, script: Script, kinds: Kinds, loop: TrainingLoop, names: Names,
                 ranks: Ranks, edits: Edits) -> None:
        self._script, self._kinds, self._loop, self._run = script, kinds, loop, names.run
        self._source, self._ranks, self._edits = script.source, ranks, edits
        self.notes: List[Note] = []
        self.batches = ""       # What step.batches goes over.
        self.counted_by = ""    # The loader, if it has a length.
        self.tells_epoch = False  # Whether it is of run.loader.
        self.batch_size: Optional[ast.expr] = None
        self.hoisted: List[str] = []  # Lines for before the loop.
        self.model = ""
        self.is_sharded = False
        self.unused_parameters = False
        self.made: List[ast.stmt] = []  # Where the model is made.

    def make(self) -> None:
        self._find_model()
        self._unwrap()
        self._shard()
        self._read_batches()
        self._drop_samplers()
        self._tell_checkpoints()

    def attach(self) -> str:
        """The line that attaches all of it."""
        others = [name for name in sorted(self._kinds.schedulers) if self._is_here(name)]
        others += [f"*([{name}] if {name} is not None else [])" if name in self._kinds.maybe_none
                   else name for name in sorted(self._kinds.scalers) if self._is_here(name)]
        others += sorted({one.target for one in self._script.assignments if ends_with(
            self._script.called(one.value), "AveragedModel") and self._is_here(one.target)})
        for one in self._script.assignments:
            if ends_with(self._script.called(one.value), "ReduceLROnPlateau"):
                self._must(one.statement, "each rank would give it a number of its own, and learning "
                           "rates have to be alike: give it the mean over run.process_group, or "
                           "take a schedule by steps")
        unused = ["unused_parameters=True"] if self.unused_parameters else []
        return (f"{self._run}.attach("
                f"{', '.join([self.model, self._loop.optimizer, *others, *unused])})")

    def _is_here(self, name: str) -> bool:
        return any(self._script.scope(one.statement) is self._loop.scope
                   for one in self._script.assigned(name))

    def _find_model(self) -> None:
        """By the optimizer, whose parameters are the model's."""
        made = self._script.assigned(self._loop.optimizer, self._loop.scope)
        if not made and "." in self._loop.optimizer:
            made = self._by_argument()
        if not made:
            raise stop(self._loop.steps, f"the optimizer {self._loop.optimizer} is made in another "
                       "function than the loop", _TOGETHER)
        call = made[0].value
        names = [node.id for node in ast.walk(call) if isinstance(node, ast.Name)]
        others = [one.value for name in names
                  for one in self._script.assigned(name, self._loop.scope)]
        clips = self._script.calls("clip_grad_norm_", of=self._loop.outer)
        found = [name for value in [call, *others, *clips] for node in ast.walk(value)
                 for name in [calls_method(node, "parameters", "named_parameters",
                                           "configure_optimizers")[0]] if name]
        if found:
            self.model = found[0][:-len(".module")] if found[0].endswith(".module") else found[0]
        else:
            raise stop(call, "whose parameters the optimizer has is not said here",
                       f"write {self._run}.attach(model, {self._loop.optimizer}) and the loop by "
                       "hand, as docs/session.md shows")
        if self.model.startswith("self."):
            raise stop(call, f"the model is {self.model}, of a class", _TOGETHER)
        self.made = [one.statement for one in self._script.assigned(self.model, self._loop.scope)]
        if not self.made:
            raise stop(call, f"the model {self.model} is made in another function than the loop",
                       _TOGETHER)
        compiled = self._script.calls("torch.compile", of=self._loop.scope)
        if compiled and self._source.statement(compiled[0]) in self.made:
            self._note(compiled[0], "names of a compiled model begin with _orig_mod. in "
                       f"checkpoints: attach what {self.model} is made of, if that matters")

    def _by_argument(self) -> List[Assignment]:
        """`state = State(model, AdamW(…))`, where the loop uses state.optimizer."""
        name = self._loop.optimizer.split(".")[0]
        for one in self._script.assigned(name, self._loop.scope):
            for node in ast.walk(one.value):
                if isinstance(node, ast.Call) and self._script.called(node).startswith(
                        "torch.optim."):
                    return [one._replace(value=node)]
        return []

    def _unwrap(self) -> None:
        wrapped: Set[str] = set()
        for call in self._script.calls("FullyShardedDataParallel", "FSDP"):
            raise stop(call, "FSDP 1 (FullyShardedDataParallel)",
                       "a session shards by FSDP2: apply fully_shard in its place, as "
                       "docs/session.md shows, and try again")
        for call in self._script.calls(*_WRAPPERS):
            if not self._ranks.is_live(call):
                continue
            statement = self._source.statement(call)
            unused = keyword(call, "find_unused_parameters")
            self.unused_parameters |= isinstance(unused, ast.Constant) and unused.value is True
            if isinstance(statement, ast.Assign):
                wrapped.add(text_of(statement.targets[0]))
                if statement.value is call and text_of(call.args[0]) == text_of(
                        statement.targets[0]):
                    self._edits.drop(statement)
                    continue
            self._edits.keep_part(call, call.args[0])
        for node in ast.walk(self._script.tree):
            if (isinstance(node, ast.Attribute) and node.attr == "module"
                    and text_of(node.value) in wrapped and self._ranks.is_live(node)):
                self._edits.keep_part(node, node.value)
            elif (isinstance(node, ast.Attribute) and node.attr == "no_sync"
                  and self._ranks.is_live(node)):
                raise stop(node, "no_sync of DistributedDataParallel",
                           "a session exchanges gradients in the last pass of a step by itself: "
                           "leave it out, and try again")
        for call in self._script.calls("convert_sync_batchnorm"):
            if self._ranks.is_live(call):
                self._must(call, "SyncBatchNorm is refused by attach, as a session has no default "
                           "process group, without which it is a BatchNorm: leave it out")

    def _shard(self) -> None:
        """fully_shard over run.mesh."""
        for call in self._script.calls("parallelize_module", "PipelineStage"):
            raise stop(call, f"{self._script.called(call)}: parallelism besides that of data and "
                       "shards", "change the script by hand: docs/sharded.md has parallelism of "
                       "tensors")
        for call in self._script.calls("fully_shard"):
            self.is_sharded = True
            mesh = keyword(call, "mesh")
            if mesh is not None:
                self._edits.replace_node(mesh, f"{self._run}.mesh")
            elif call.args:
                end = self._source.end(call.args[-1])
                self._edits.replace(end, end, f", mesh={self._run}.mesh")
            self._ranks.needs_run.append(call)
        if self.is_sharded and self._kinds.scalers:
            self._must(self._loop.steps, "a GradScaler does not go with a sharded model: train in "
                       "bfloat16, by fully_shard's MixedPrecisionPolicy")
        for one in self._script.assignments:
            if not (self.is_sharded and ends_with(self._script.called(one.value),
                                                  "init_device_mesh")):
                continue
            others = [use for use in self._script.uses(one.target)
                      if not self._is_mesh(use)]
            if others:
                self._must(others[0], f"a session has no mesh but {self._run}.mesh")
            else:
                self._edits.drop(one.statement)

    def _is_mesh(self, use: ast.Name) -> bool:
        parent = self._source.parents[use]
        return isinstance(parent, ast.keyword) and parent.arg == "mesh"

    def _read_batches(self) -> None:
        loop = self._loop
        batches = loop.batches
        if loop.fetch is not None:
            call = loop.fetch.value
            assert isinstance(call, ast.Call)
            if self._script.called(call) != "next" or not call.args:
                self._read_drawing(call)
                return
            batches = call.args[0]
            made = self._script.assigned(text_of(batches), loop.scope)
            if len(made) == 1 and self._script.called(made[0].value) == "iter":
                self._edits.drop(made[0].statement)
                assert isinstance(made[0].value, ast.Call)
                batches = made[0].value.args[0]
        if batches is None:
            self.batches = "[None]"
            return
        if isinstance(batches, (ast.Name, ast.Attribute)):
            self.batches = text_of(batches)
            self._read_loader(self.batches)
            return
        self.batches = "batches"
        self.hoisted.append(f"batches = {self._edits.of(batches)}")
        self._note(loop.steps, "a loader of your own: what it gives has to differ by rank, and it "
                   "begins anew after a restart (docs/session.md)")

    def _read_drawing(self, call: ast.Call) -> None:
        self.batches = f"iter(lambda: {self._edits.of(call)}, None)"
        function = self._script.functions.get(self._script.called(call))
        others = [name for node in ast.walk(function or call)
                  for name in [self._script.called(node)]
                  if name.startswith(("numpy.random.", "random."))]
        if others:
            self._must(call, f"batches are drawn by {others[0]}: seed that, too, from the step and "
                       f"the rank, as the line of torch.manual_seed does")
        elif function is None:
            self._note(call, "it is not known here how batches are drawn: they have to differ by "
                       f"rank ({self._run}.rank)")

    def _read_loader(self, name: str) -> None:
        made = [one for one in self._script.assigned(name)
                if ends_with(self._script.called(one.value), "DataLoader", "StatefulDataLoader")]
        # A name that is given a second loader, too, is left alone.
        if len(made) == 1 and len(self._script.assigned(name)) == 1 and isinstance(
                made[0].value, ast.Call):
            if self._script.scope(made[0].statement) is not self._loop.scope:
                raise stop(made[0].statement, f"the loader {name} is made in another function than "
                           "the loop", _TOGETHER)
            call = made[0].value
            dataset = call.args[0] if call.args else keyword(call, "dataset")
            self.batch_size = self._argument(call, "batch_size")
            if dataset is not None and not self._is_iterable(dataset):
                self._write_loader(name, call, dataset)
                self.counted_by, self.tells_epoch = name, True
                return
        else:
            self.counted_by = name
        self._note(self._loop.steps, f"{name} stays a loader of your own: what it gives has to "
                   "differ by rank, and it begins anew after a restart, unless it tells its "
                   f"position and is attached, by {self._run}.attach(…, own=[{name}])")

    def _is_iterable(self, dataset: ast.expr) -> bool:
        """Whether the class of the data set, in this script, gives samples by no index."""
        values = [one.value for one in self._script.assigned(text_of(dataset))] or [dataset]
        made = {self._script.called(one) for one in values}
        return any(isinstance(node, ast.ClassDef) and node.name in made
                   and any("IterableDataset" in text_of(base) for base in node.bases)
                   for node in ast.walk(self._script.tree))

    def _argument(self, call: ast.Call, name: str) -> Optional[ast.expr]:
        at = _OF_DATALOADER.index(name)
        return call.args[at] if len(call.args) > at else keyword(call, name)

    def _write_loader(self, name: str, call: ast.Call, dataset: ast.expr) -> None:
        if self._argument(call, "batch_sampler") is not None:
            raise stop(call, "a batch_sampler, which says what a rank gets",
                       "give step.batches this loader by hand (docs/session.md, loaders of your "
                       "own)")
        shuffle = self._shuffle(call)
        self._edits.replace_node(call.func, f"{self._run}.loader")
        self._ranks.needs_run.append(call)
        arguments: List[Union[ast.expr, ast.keyword]] = [*call.args, *call.keywords]
        arguments.sort(key=self._source.begin)
        removed = [one for one in arguments if self._name_of(one, call) in (
            *_NOT_OF_RUN, "shuffle")]
        for given in call.args[1:]:
            if given not in removed:
                begin = self._source.begin(given)
                self._edits.replace(begin, begin, f"{self._name_of(given, call)}=")
        kept = [one for one in arguments if one not in removed]
        for at, one in enumerate(arguments):
            if one not in removed:
                continue
            if self._name_of(one, call) == "shuffle" and shuffle:
                before = "" if isinstance(one, ast.keyword) else "shuffle="
                value = one.value if isinstance(one, ast.keyword) else one
                self._edits.replace_node(value, before + shuffle)
                shuffle = ""
            elif at:
                self._edits.replace(self._source.end(arguments[at - 1]), self._source.end(one), "")
        if shuffle == "False":
            end = self._source.end(kept[-1])
            self._edits.replace(end, end, ", shuffle=False")
        self._write_datasets(name, dataset)

    def _name_of(self, argument: ast.AST, call: ast.Call) -> str:
        if isinstance(argument, ast.keyword):
            return argument.arg or ""
        return _OF_DATALOADER[call.args.index(argument)]  # type: ignore[arg-type]

    def _shuffle(self, call: ast.Call) -> str:
        """What run.loader's argument is to be. Raises Unclear for samplers that choose."""
        given = self._argument(call, "shuffle")
        sampler = self._argument(call, "sampler")
        if sampler is None:
            return "False" if given is None else self._source.of(given)
        values = [sampler, *(one.value for one in self._script.assigned(text_of(sampler)))]
        found = [node for value in values for node in ast.walk(value)
                 if isinstance(node, ast.Call) and "Sampler" in self._script.called(node)]
        for node in found:
            kind = self._script.called(node).rsplit(".", 1)[-1]
            if kind == "DistributedSampler":
                shuffle = keyword(node, "shuffle")
                return "True" if shuffle is None else self._source.of(shuffle)
            if kind in ("RandomSampler", "SequentialSampler"):
                return str(kind == "RandomSampler")
        raise stop(call, f"the sampler {text_of(sampler)}, of a kind that is not known",
                   "give step.batches this loader by hand (docs/session.md, loaders of your own)")

    def _write_datasets(self, name: str, dataset: ast.expr) -> None:
        for node in ast.walk(self._loop.scope):
            if (isinstance(node, ast.Attribute) and text_of(node.value) == name
                    and not self._edits.is_dropped(node)):
                if node.attr == "dataset" and isinstance(dataset, ast.Name):
                    self._edits.replace_node(node, dataset.id)
                else:
                    self._must(node, f"{text_of(node)}: the loader of run.loader has no "
                               f"{node.attr}; take what it is for in its place")

    def _drop_samplers(self) -> None:
        """DistributedSamplers, of other loaders too: there is no process group to ask."""
        for call in self._script.calls("DataLoader"):
            sampler = keyword(call, "sampler")
            if sampler is None:
                continue
            statement = self._source.statement(call)
            is_training = isinstance(statement, ast.Assign) and text_of(
                statement.targets[0]) == self.batches and self.tells_epoch
            values = [sampler, *(one.value for one in self._script.assigned(text_of(sampler)))]
            if is_training or not self._ranks.is_live(call) or not any(
                    self._script.calls("DistributedSampler", of=value) for value in values):
                continue
            place = next(one for one in call.keywords if one.value is sampler)
            before = max((self._source.end(one) for one in [*call.args, *call.keywords]
                          if self._source.end(one) <= self._source.begin(place)), default=0)
            if before:
                self._edits.replace(before, self._source.end(place), "")
                self._note(call, "each rank goes through all of these samples now; to share an "
                           f"evaluation, write it as a function with @{self._run}.evaluation "
                           "(docs/session.md)")
        for one in self._script.assignments:
            if self._script.calls("DistributedSampler", of=one.value) and self._ranks.is_live(
                    one.statement) and not ends_with(self._script.called(one.value), "DataLoader"):
                self._edits.drop(one.statement)

    def _tell_checkpoints(self) -> None:
        saves = [call for call in self._script.calls("torch.save")
                 if self._ranks.is_live(call)]
        for call in saves:
            if not self._ranks.is_alone(call):
                self._must(call, f"all ranks write this file: put it under `if {self._run}.rank == "
                           "0:`")
        if saves:
            self._note(saves[0], "Paceline saves and restores what is attached by itself, as "
                       "checkpoint in the job's file says; keep this if other programs read it")
        loads = [node for node in ast.walk(self._script.tree) if isinstance(node, ast.Call)
                 and calls_method(node, "load_state_dict")[0] == self._loop.optimizer]
        if loads:
            self._note(loads[0], "a job goes on from its own checkpoint by itself (resume_from in "
                       "the job's file); what is loaded here is only where a new job begins")
        for node in ast.walk(self._script.tree):
            name = self._script.called(node)
            if name.startswith("torch.distributed.checkpoint") and name.rsplit(".", 1)[-1] in (
                    "save", "load", "async_save"):
                self._must(node, f"{name}: Paceline saves and restores what is attached by itself; "
                           "remove it (checkpoint in the job's file says where)")

    def _note(self, node: ast.AST, text: str) -> None:
        self.notes.append(Note(getattr(node, "lineno", 1), text))

    def _must(self, node: ast.AST, text: str) -> None:
        self.notes.append(Note(getattr(node, "lineno", 1), text, must=True))
