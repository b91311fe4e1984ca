"""The wheels, as somebody uses them who has never seen our sources: built, chosen and installed by
pip without a network, on a bare machine that has Python, a shell and the C and C++ libraries alone,
by a user without rights whose home is read-only; beside other packages; removed.

    wheel_test.py BUILD.PY PROGRAMS

PROGRAMS is the folder of the built programs. Without root there is no bare machine.
"""

import glob
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import unittest
import zipfile
from importlib.metadata import version
from unittest import mock

BUILD, PROGRAMS = map(os.path.abspath, sys.argv[1:3])
SITE = os.path.realpath(sysconfig.get_path("purelib"))
PYTHON = os.path.realpath("/usr/bin/python3")
PLATFORM = "manylinux_2_35_x86_64"
OWN_TORCH = ".".join(version("torch").split(".")[:2])
MOST_MIB = 60
# Libraries that any machine with Python and torch has.
LIBRARIES = re.compile(
    r"/(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|util|z|expat|ffi|stdc\+\+|gcc_s))\.so")
USER = 1000

# Prints who runs it, and which other Python processes there are.
HELLO = """
import os, sys
mine = os.stat("/proc/self/exe").st_ino
pythons = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat(f"/proc/{pid}/exe").st_ino == mine:
            pythons.append(int(pid))
    except OSError:
        pass
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "in", sys.prefix,
      "alone" if pythons == [os.getpid()] else pythons, "as", os.getuid(),
      "watched" if os.path.exists(os.environ["PYTHONPATH"] + "/sitecustomize.py") else "")
sys.exit(7)
"""
JOB = """
name: digits
ranks: 2
model: {kind: mlp, hidden: [16]}
data: {train: /srv/digits/digits-train.shard}
batch_per_rank: 16
steps: 20
optimizer: {kind: sgd, learning_rate: 0.01}
threads_per_rank: 1
"""
TRAIN = """
export PACELINE_DEV_DIR=/tmp/cluster
paceline --quiet data import-digits --csv /srv/digits.csv.gz --size 8 --out /srv/digits
paceline --quiet dev up --workers 1 --slots 2
paceline submit /srv/job.yaml --follow; code=$?
paceline job describe digits; paceline job logs digits
paceline --quiet dev down --purge
exit $code
"""

# Mounts what a machine has, in namespaces of its own, and becomes a user's program in them.
ENTER = r"""
set -e
root=$1; shift
for folder in /usr/lib/python3* /usr/share/python-wheels; do
  mkdir -p "$root$folder"
  mount --bind -o ro "$folder" "$root$folder"
done
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  shift 2
done
shift
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
for node in null zero full random urandom; do
  touch "$root/dev/$node"
  mount --bind "/dev/$node" "$root/dev/$node"
done
ln -s /proc/self/fd "$root/dev/fd"
ip link set lo up
exec chroot --userspec=1000:1000 --groups= "$root" "$@"
"""


def output(*argv, **options):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def tree(folder):
    """All that is in a folder, but for what Python has compiled."""
    return {os.path.join(parent, name) for parent, folders, files in os.walk(folder)
            for name in folders + files if "__pycache__" not in os.path.join(parent, name)}


class BareMachine:
    """Each command has a network and processes of its own, which end with it."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "machine")
        for name in ["proc", "dev", "usr/bin", "tmp", "srv", "home/ann"]:
            os.makedirs(self.path("/" + name))
        programs = [PYTHON, os.path.realpath("/bin/sh")]
        libraries = set(re.findall(r"(/\S+\.so[.\d]*)", output(
            "ldd", *programs, f"{SITE}/torch/lib/libtorch_cpu.so",
            *glob.glob(f"/usr/lib/{os.path.basename(PYTHON)}/lib-dynload/*.so"))))
        for library in filter(LIBRARIES.search, libraries):
            os.makedirs(os.path.dirname(self.path(library)), exist_ok=True)
            shutil.copy(library, self.path(library))
        for program in programs:
            shutil.copy(program, self.path("/usr/bin"))
        os.symlink("usr/bin", self.path("/bin"))
        os.symlink(os.path.basename(programs[1]), self.path("/usr/bin/sh"))
        os.symlink(os.path.basename(PYTHON), self.path("/usr/bin/python3"))
        for path in ["/tmp", "/srv"]:
            os.chmod(self.path(path), 0o1777)
        self.mounts = []
        self.bin = "/usr/bin"

    def path(self, path):
        return self.root + path

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *argv, code=0):
        """Runs a command to its end, which has to be this exit code; all that it wrote. Nothing
        can be written to the home folder."""
        done = subprocess.run(
            ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c",
             ENTER, "sh", self.root, *self.mounts, "--", *argv],
            env={"HOME": "/home/ann", "LANG": "C.UTF-8", "PATH": f"{self.bin}:/usr/sbin:/usr/bin"},
            cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False, text=True, timeout=300)
        if done.returncode != code:
            raise AssertionError(f"{argv}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout


def pip(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-cache-dir",
         "install", "--no-index", "--no-compile", "--root-user-action=ignore", *arguments],
        **{"check": True, "stdout": subprocess.PIPE, "text": True, **options})


class SourcesTest(unittest.TestCase):
    """The source archive, which pip builds where no wheel fits."""

    def test_without_a_torch_it_says_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(f"{folder}/paceline-1.0.tar.gz", "w:gz") as archive:
                for path in ["pyproject.toml", "deploy/wheel/backend.py"]:
                    archive.add(os.path.realpath(path), f"paceline-1.0/{path}")
                named = tarfile.TarInfo("paceline-1.0/PKG-INFO")
                text = b"Metadata-Version: 2.4\nName: paceline\nVersion: 1.0\n"
                named.size = len(text)
                archive.addfile(named, io.BytesIO(text))
            # Pip builds in an environment of its own, without torch.
            done = pip(f"--target={folder}/target", f"{folder}/paceline-1.0.tar.gz",
                       check=False, stderr=subprocess.STDOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "paceline's sources (are built against your own torch, and "
                         "there is none here|build only on Debian 12)")
        self.assertNotIn("Traceback", done.stdout)

    def test_on_another_system_it_says_which_wheels_run_where(self):
        sys.path.insert(0, os.path.dirname(BUILD))
        backend = importlib.import_module("backend")
        with mock.patch.object(backend, "_system", return_value="rhel 9.4 on x86_64"):
            with self.assertRaisesRegex(SystemExit, "no wheel for this machine.*only on Debian 12.*"
                                        "here is rhel 9.4 on x86_64: wheels run on Linux"):
                backend.build_wheel("nowhere")
        self.assertRegex(backend._system(), r"^\S.* on \w+$")


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # Stand-ins for engines of other versions: their files' names decide.
        engines = os.path.join(cls.folder, "engines")
        for place in [f"3.13/{OWN_TORCH}", "3.13/2.9", "3.11/2.9", "3.11/2.10"]:
            os.makedirs(f"{engines}/{place}")
            shutil.copy(f"{PROGRAMS}/python/paceline/_engine.so", f"{engines}/{place}")
        subprocess.run([sys.executable, BUILD, PROGRAMS, cls.folder, "1.0", engines], check=True)
        cls.wheel = cls.name("cp311-cp311")

    @classmethod
    def name(cls, tag):
        return f"{cls.folder}/paceline-1.0-{tag}-{PLATFORM}.whl"

    def test_pip_picks_the_wheel_for_its_python_or_that_for_any(self):
        tags = ["cp311-cp311", "cp313-cp313", "py3-none"]
        self.assertEqual(sorted(glob.glob(f"{self.folder}/*.whl")), list(map(self.name, tags)))
        for python, tag in [("3.11", "cp311-cp311"), ("3.13", "cp313-cp313"), ("3.9", "py3-none"),
                            ("3.12", "py3-none"), ("3.14", "py3-none")]:
            report = json.loads(pip(
                "--dry-run", "--ignore-installed", "--report=-", "--only-binary=:all:",
                f"--find-links={self.folder}", f"--python-version={python}", "--target=none",
                "paceline").stdout)
            [picked] = report["install"]
            self.assertEqual(picked["download_info"]["url"], "file://" + self.name(tag))

    def test_each_has_the_engines_that_it_tells_of(self):
        engines = {tag: [] for tag in ["cp311-cp311", "cp313-cp313", "py3-none"]}
        built = {}
        for tag, found in engines.items():
            with zipfile.ZipFile(self.name(tag)) as archive:
                found += sorted(re.findall(r"^paceline/(.*_engine.*\.so)$",
                                           "\n".join(archive.namelist()), re.M))
                told = {}
                exec(archive.read("paceline/_built_for.py"), told)  # pylint: disable=exec-used
            built[tag] = told["PYTHON"], told["PYTHONS"], list(told["ENGINES"].items())
        pythons = ("3.11", "3.13")
        own = OWN_TORCH.replace(".", "_")
        of_device = ["cpu", "cuda"] if os.path.exists(
            f"{PROGRAMS}/python/paceline/_engine_cuda.so") else ["cpu"]
        self.assertEqual(built, {
            "cp311-cp311": ("3.11", pythons,
                            [("2.9", ["cpu"]), ("2.10", ["cpu"]), (OWN_TORCH, of_device)]),
            "cp313-cp313": ("3.13", pythons, [("2.9", ["cpu"]), (OWN_TORCH, ["cpu"])]),
            "py3-none": (None, pythons, [])})
        self.assertEqual(engines["py3-none"], [])
        self.assertEqual(engines["cp313-cp313"], [
            f"_torch_{torch}/_engine.cpython-313-x86_64-linux-gnu.so" for torch in [own, "2_9"]])
        self.assertIn(f"_torch_{own}/_engine{sysconfig.get_config_var('EXT_SUFFIX')}",
                      engines["cp311-cp311"])

    def test_has_what_it_says_and_no_torch(self):
        for tag in ["cp311-cp311", "py3-none"]:
            with self.subTest(tag=tag):
                self.has_what_it_says(self.name(tag))

    def has_what_it_says(self, wheel):
        self.assertLess(os.path.getsize(wheel), MOST_MIB << 20)
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            metadata = archive.read("paceline-1.0.dist-info/METADATA").decode()
            shared = [name for name in names if name.startswith("paceline.libs/lib")]
            bill = archive.read("paceline-1.0.dist-info/sboms/auditwheel.cdx.json").decode()
        self.assertNotIn("Requires-Dist", metadata)
        self.assertIn("Requires-Python: >=3.9\n", metadata)
        self.assertNotRegex(" ".join(shared), "torch|c10|gomp|cud|nvidia|stdc")
        for package in re.findall(r"pkg:deb/debian/([^@]+)@", bill):
            self.assertIn("paceline-1.0.dist-info/licenses/third-party/"
                          + package.replace("%2B", "+"), names)
        for name in ["bin/paceline-shim", "bin/torch/paceline-trainer", "site/sitecustomize.py",
                     "watch.py", "dcp.py", "_engine.pyi", "py.typed", "share/prometheus/alerts.yaml",
                     "share/examples/digits-mlp.yaml", "share/examples/scripts/ddp.py",
                     "share/grafana/dashboards/paceline-fleet.json"]:
            self.assertIn("paceline/" + name, names)

    def test_beside_another_protobuf_in_one_interpreter(self):
        target = os.path.join(self.folder, "beside")
        pip("--target", target, self.wheel)
        others = "import google.protobuf.descriptor_pb2 as p, numpy; p.FileDescriptorProto()\n"
        ours = "import paceline, paceline.watch, subprocess\n"
        version = f"print(subprocess.check_output(['{target}/bin/paceline', '--version']))\n"
        for lines in [others + ours + version, ours + version + others]:
            said = output(sys.executable, "-c", lines, env={**os.environ, "PYTHONPATH": target})
            self.assertIn("paceline ", said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_life_on_a_bare_machine(self):
        machine = BareMachine(self.folder)
        for venv in ["/srv/a venv", "/srv/other"]:
            machine.run("python3", "-m", "venv", venv)
        machine.write("/srv/hello.py", HELLO)
        machine.write("/srv/job.yaml", JOB)
        shutil.copy(os.path.join(SITE, "sklearn/datasets/data/digits.csv.gz"), machine.path("/srv"))
        shutil.copy(self.wheel, machine.path("/srv"))
        clean = tree(machine.path("/srv/a venv"))
        for venv in ["/srv/a venv", "/srv/other"]:
            machine.run(f"{venv}/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check",
                        "install", "--no-index", f"/srv/{os.path.basename(self.wheel)}")
        self.serves(machine, "/srv/a venv")
        self.tells_of_torch(machine, "/srv/a venv")
        machine.run("/srv/other/bin/python", "-m", "pip", "--quiet", "uninstall", "--yes", "paceline")
        self.trains(machine, "/srv/a venv")
        machine.run("/srv/a venv/bin/python", "-m", "pip", "--quiet", "uninstall", "--yes", "paceline")
        self.assertEqual(tree(machine.path("/srv/a venv")), clean)
        self.assertEqual(os.listdir(machine.path("/tmp")), [])

    def serves(self, machine, venv):
        for name in ["paceline", "paceline-controller", "paceline-worker"]:
            self.assertRegex(machine.run(f"{venv}/bin/{name}", "--version"), r"\d\.\d")
        self.assertIn("paceline ", machine.run(f"{venv}/bin/python", "-m", "paceline", "--version"))
        # It runs in the environment of its command, though it is not active. No other Python runs.
        for command in [[f"{venv}/bin/paceline"], [f"{venv}/bin/python", "-m", "paceline"]]:
            said = machine.run(*command, "run", "/srv/hello.py", code=7)
            self.assertIn(f"rank 0 of 1 in {venv} alone as {USER} watched\n", said)

    def tells_of_torch(self, machine, venv):
        """A built-in job without the torch that its trainer is made for says so."""
        machine.bin = f"{venv}/bin"
        [site] = glob.glob(machine.path(f"{venv}/lib/python3*/site-packages"))
        with open(f"{site}/paceline/bin/paceline-trainer", encoding="utf-8") as file:
            made_for = re.search(r"^made_for=(.*)", file.read(), re.M).group(1)
        self.assertIn(f"made for torch {made_for}, and there is none: pip install",
                      machine.run("/bin/sh", "-c", TRAIN, code=1))
        machine.write(f"{site}/torch/version.py"[len(machine.root):], "__version__ = '2.3.1+cpu'\n")
        self.assertIn(f"made for torch {made_for}, and here is '2.3.1+cpu'",
                      machine.run("/bin/sh", "-c", TRAIN, code=1))
        shutil.rmtree(f"{site}/torch")

    def trains(self, machine, venv):
        """With the environment's torch."""
        [site] = glob.glob(machine.path(f"{venv}/lib/python3*/site-packages"))
        for name in ["torch", "nvidia"]:
            machine.mounts += [f"{SITE}/{name}", f"{site}/{name}"[len(machine.root):]]
        self.assertIn("SUCCEEDED", machine.run("/bin/sh", "-c", TRAIN))
        machine.mounts = []
        for name in ["torch", "nvidia"]:
            os.rmdir(f"{site}/{name}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
