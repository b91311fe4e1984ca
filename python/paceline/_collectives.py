"""Reports to the daemon which collectives the process has entered, from torch's flight recorder.

Once there is a process group, a thread blocks in open(2) of a pipe in PACELINE_DIR until the daemon
writes a number to it. Then it writes the answer, a RankCollectives message as JSON. An error that
ends the script also leaves one. Before that, nothing is done and no descriptor is open.
"""

import atexit
import json
import os
import sys
from _thread import start_new_thread
from functools import wraps
from importlib import import_module

ASK = "collectives.ask"
ANSWER = "collectives"

MOST_GROUPS = 16
MOST_RANKS = 256
MOST_COLLECTIVES = 8  # Per group.
MOST_TEXT = 60

TYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16",
         "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
         "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128"}


def cut(text, most=MOST_TEXT):
    text = str(text)
    return text if len(text) <= most else text[:most - 3] + "..."


def recorded():
    """Entries of torch's recorders, oldest first: one is for NCCL, one for all other backends."""
    recorders = import_module("torch._C._distributed_c10d")
    dumps = [getattr(recorders, name) for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json")
             if hasattr(recorders, name)]
    if not dumps:
        raise LookupError("it has no flight recorder")
    entries = []
    for dump in dumps:
        entries += json.loads(dump(True, False)).get("entries", ())
    entries.sort(key=lambda entry: entry["time_created_ns"])
    return entries


def input_of(entry):
    sizes = entry.get("input_sizes") or ()
    kinds = entry.get("input_dtypes") or ()
    texts = ["%s %s" % (TYPES.get(kind, kind.lower()), size)
             for kind, size in zip(kinds, sizes)] or [str(size) for size in sizes]
    if len(texts) > 2:
        texts[2:] = ["%d more" % (len(texts) - 2)]
    return cut(", ".join(texts))


def collective(number, entry):
    name = entry["profiling_name"].rpartition(":")[2].lstrip("_")
    return {"number": number, "operation": cut(name), "input": input_of(entry),
            "finished": bool(entry.get("retired")) or entry.get("state") == "completed"}


def those_that_matter(entries):
    """A group's collectives from just before the first unfinished one on; and its last number."""
    of_number = {}
    for entry in entries:  # Parts of a coalesced one share its number; the whole is last.
        of_number[entry["collective_seq_id"]] = entry
    all_ = [collective(number, of_number[number]) for number in sorted(of_number)]
    first = next((at for at, one in enumerate(all_) if not one["finished"]), len(all_))
    return all_[max(first - 1, 0):][:MOST_COLLECTIVES], all_[-1]["number"] if all_ else 0


def entered(group):
    """How many collectives the group has entered, for when its entries do not say."""
    try:
        return group._get_sequence_number_for_group()
    except Exception:  # Not every backend counts.
        return 0


def groups_of(world, entries):
    by_name = {}
    for entry in entries:
        if not entry.get("is_p2p"):
            by_name.setdefault(str(entry["process_group"][0]), []).append(entry)
    newest = next((str(entry["process_group"][0]) for entry in reversed(entries)
                   if not entry.get("is_p2p")), None)
    groups = []
    for group, name in list(world.pg_names.items()):  # Another thread may add one.
        name = str(name)
        own = by_name.get(name, [])
        matter, last = those_that_matter(own)
        ranks = sorted(world.pg_group_ranks.get(group, ()))
        groups.append({
            "name": cut(name),
            "description": cut(own[-1]["process_group"][1] if own
                               else getattr(group, "group_desc", "")),
            "ranks": ranks if len(ranks) <= MOST_RANKS else [],
            "last": last or entered(group),
            "newest": name == newest,
            "collectives": matter})
    # Groups in which the rank is waiting come first.
    groups.sort(key=lambda group: all(one["finished"] for one in group["collectives"]))
    return groups[:MOST_GROUPS]


def summary(c10d):
    for _ in range(2):  # The very first collective may be entered between the two looks.
        entries = recorded()
        answer = {"rank": c10d.get_rank(), "groups": groups_of(c10d._world, entries)}
        if entries or not any(group["last"] for group in answer["groups"]):
            return answer
    raise LookupError("its flight recorder has no entry of " + c10d.get_backend()
                      + (", as TORCH_FR_BUFFER_SIZE=0" if
                         os.environ.get("TORCH_FR_BUFFER_SIZE") == "0" else ""))


def is_of_collective(error):
    """Whether the error is a failed collective, which torch may count as finished."""
    text = str(error)
    return isinstance(error, RuntimeError) and any(
        word in text for word in ("gloo", "NCCL", "nccl", "ollective", "rocess group", "ProcessGroup"))


class Collectives:
    """Reports the collectives of this process, which has a process group."""

    def __init__(self, c10d, directory):
        self.c10d = c10d
        self.process = os.getpid()  # A forked child has neither thread nor groups.
        self.ask = os.path.join(directory, ASK)
        self.answer = os.path.join(directory, ANSWER)

    def start(self):
        # If several processes of the rank make groups, the last one answers.
        try:
            os.unlink(self.ask)
        except FileNotFoundError:
            pass
        os.mkfifo(self.ask, 0o600)
        start_new_thread(self.serve, ())
        atexit.register(self.at_exit)

    def serve(self):
        try:
            while True:
                with open(self.ask, "rb", buffering=0) as pipe:
                    asked = pipe.read(64).split()
                if asked and asked[-1].isdigit():
                    self.write(int(asked[-1]))
        except Exception:  # The daemon reports that nobody answers.
            pass

    def write(self, wanted, error=None):
        try:
            answer = summary(self.c10d)
            for group in answer["groups"]:
                if group["newest"] and is_of_collective(error):
                    group["collectives"][-1]["finished"] = False
        except Exception as own:
            version = sys.modules["torch"].__version__
            answer = {"rank": -1, "unavailable": cut("torch %s: %s" % (version, own), 200)}
        answer["wanted"] = wanted
        with open(self.answer + ".new", "w", encoding="utf-8") as file:
            json.dump(answer, file)
        os.rename(self.answer + ".new", self.answer)

    def leave(self, error):
        """Leaves an answer when `error` ends the script or its process groups."""
        try:
            if os.getpid() == self.process:
                self.write(0, error)
        except Exception:  # Not worth reporting beside the script's own error.
            pass

    def at_exit(self):
        error = getattr(sys, "last_value", None)  # Uncaught, and reported by Python.
        if error is not None and self.c10d.is_initialized():
            self.leave(error)


def hook(directory):
    """Starts reporting at the process's first group. Requires: torch has been imported."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None:  # This torch was built without it.
        return
    update = c10d._update_default_pg
    known = []

    @wraps(update)
    def _update_default_pg(group):
        try:
            if group is None and known and sys.exc_info()[1] is not None:
                known[0].leave(sys.exc_info()[1])  # Torn down in a `finally`.
            elif group is not None and not known:
                known.append(Collectives(c10d, directory))
                known[0].start()
        except Exception:  # The daemon reports that nobody answers.
            pass
        return update(group)

    c10d._update_default_pg = _update_default_pg
