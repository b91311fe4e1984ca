"""Tries the engines of wheels: for each Python and each torch, in an environment of its own, pip
picks a wheel, and sessions train with it: one of two ranks, and with torch 2.11 and later one of
two replicas of two, which FSDP2 shards. A rank of each is killed. No test of Bazel's: it downloads
up to 4 GB for each pair, which it removes behind it.

    make wheel ALL=1
    .venv/bin/python tests/deploy/engines_trial.py build/wheel [PYTHON/TORCH, as 3.12/2.9 ...]
"""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN_PYTHON = "{}.{}".format(*sys.version_info[:2])

# Trains, and says with what, and what has become of the weights.
SCRIPT = """
import hashlib, os, torch, paceline
from torch.distributed.fsdp import fully_shard
run = paceline.init()
torch.manual_seed(run.seed)
model = torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.BatchNorm1d(9), torch.nn.Linear(9, 1))
sharded = os.environ["SHARDS"] != "1"
if sharded:
    fully_shard(model, mesh=run.mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
run.attach(model, optimizer)
x = torch.randn(512, 8)
loader = run.loader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)))
for step in run.steps():
    with step:
        for x, y in step.batches(loader):
            step.backward((model(x) - y).square().mean())
        step.update()
own = [p.detach().to_local() if sharded else p.detach() for p in model.parameters()]
weights = torch.cat([part.flatten().view(torch.uint8) for part in own])
if run.rank >= 0:  # A spare gets here, too.
    with open(f"{os.environ['OUT']}/{run.rank}", "w") as file:
        print(type(run._engine).__module__, hashlib.sha256(bytes(weights.tolist())).hexdigest(),
              file=file)
"""
JOB = """
name: {name}
ranks: {ranks}
threads_per_rank: 1
command: [python3, train.py]
venv: {venv}
session: true
steps: 60
batch_per_rank: 16
shards: {shards}
environment: {{OUT: {out}, SHARDS: "{shards}"}}
recovery: {{max_failures: 3, spares: 1}}
"""
KILL = """
allow_chaos: true
chaos: [{rank: 1, step: 20, kind: kill, generation: 1}]
"""


def call(*argv, **options):
    done = subprocess.run(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{argv} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def interpreter(python):
    """An installed one, if there is one: those of build/wheel-inputs need libffi.so.7, which Debian
    12 has not."""
    if python == OWN_PYTHON:
        return os.path.realpath(sys.executable)
    candidates = [shutil.which(f"python{python}"),
                  shutil.which(ROOT / f"build/wheel-inputs/python-{python}/bin/python{python}")]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", "import ctypes"], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return candidate
    return sys.exit(f"no CPython {python} that can import ctypes: put one into PATH")


def torch_versions():
    """Exact versions by minor ones."""
    versions = {version("torch")}
    for path in (ROOT / "deploy/wheel").glob("torch-*.txt"):
        versions.add(re.search(r"^torch==(\S+)", path.read_text(encoding="utf-8"), re.M)[1])
    return {".".join(one.split(".")[:2]): one for one in versions}


class Trial:
    def __init__(self, wheels, work):
        self.wheels = wheels
        self.work = work
        self.venv = work / "venv"
        # Without the contexts and the cluster of whoever runs this.
        self.environment = {**os.environ, "HOME": str(work), "PACELINE_DEV_DIR": f"{work}/cluster",
                            "PATH": f"{self.venv}/bin:/usr/bin:/bin"}

    def run(self, python, torch):
        call(interpreter(python), "-m", "venv", self.venv)
        pip = [self.venv / "bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input"]
        said = call(*pip, "install", "--no-index", f"--find-links={self.wheels}", "paceline")
        tag = f"cp{python.replace('.', '')}"
        expect(f"-{tag}-{tag}-manylinux" in said, f"pip picked another wheel than {tag}: {said}")
        call(*pip, "install", "--quiet", "--no-cache-dir", "--only-binary=:all:",
             f"--constraint={ROOT}/deploy/wheel/trial-constraints.txt", f"torch=={torch}", "numpy")
        (self.work / "train.py").write_text(SCRIPT, encoding="utf-8")
        self.paceline("dev", "up", "--workers", "5", "--slots", "1")
        try:
            module = f"paceline._torch_{'_'.join(torch.split('.')[:2])}._engine"
            shardable = [int(part) for part in torch.split(".")[:2]] >= [2, 11]
            for shards in (1, 2) if shardable else (1,):
                self.compare(module, shards)
        finally:
            self.paceline("dev", "down", "--purge")

    def compare(self, module, shards):
        undisturbed = self.train(f"undisturbed-{shards}", shards, "")
        expect({one for one, _ in undisturbed} == {module},
               f"not the engine {module}: {undisturbed}")
        expect(undisturbed[:shards] == undisturbed[shards:], f"replicas differ: {undisturbed}")
        killed = self.train(f"killed-{shards}", shards, KILL)
        expect(killed == undisturbed, f"a kill has changed the weights: {killed} {undisturbed}")

    def paceline(self, *words):
        return call(self.venv / "bin/paceline", "--quiet", *words, env=self.environment,
                    cwd=self.work)

    def train(self, name, shards, more):
        """Two replicas: the engine's module and the weights' hash of each rank."""
        out = self.work / name
        out.mkdir()
        job = JOB.format(name=name, ranks=2 * shards, shards=shards, venv=self.venv, out=out) + more
        (self.work / "job.yaml").write_text(job, encoding="utf-8")
        self.paceline("submit", "job.yaml", "--wait")
        if more:
            events = self.paceline("job", "events", name)
            expect("SIGKILL" in events, f"nobody was killed: {events}")
        return [tuple(path.read_text(encoding="utf-8").split()) for path in sorted(out.iterdir())]


def expect(holds, what):
    if not holds:
        sys.exit(what)


def main():
    wheels = os.path.abspath(sys.argv[1])
    torchs = torch_versions()
    pythons = [f"{name[0]}.{name[1:]}" for name in re.findall(
        r"-cp(\d+)-cp\d+-", " ".join(sorted(glob.glob(f"{wheels}/paceline-*.whl"))))]
    expect(pythons, f"no wheel with engines in {wheels}: make wheel ALL=1")
    pairs = [pair.split("/") for pair in sys.argv[2:]] or [
        (python, torch) for python in pythons for torch in sorted(torchs)]
    for python, torch in pairs:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="paceline-engines.") as work:
            Trial(wheels, pathlib.Path(work)).run(python, torchs[torch])
        print(f"CPython {python} with torch {torchs[torch]}: trained in "
              f"{time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
