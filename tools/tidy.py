"""Runs clang-tidy and clang's -Wthread-safety over our C++ files.

One parse does both: thread-safety warnings are clang-diagnostic-* to clang-tidy. Files that
reach torch's headers take too long for that and are left out; those of them that also reach
absl::Mutex get the compiler's pass alone. Most of a parse are headers, so the files of a folder
are first looked at together, and apart only where that finds anything: two of them may well have
one name for two things. A file that passed is not looked at again until it, an own header or
proto that it reaches, or .clang-tidy changes: what passed is kept by content under
~/.cache/paceline/tidy.

Usage: tidy.py [FILE.cc...], default all; run from the root, after tools/setup.sh.
"""
import collections
import concurrent.futures
import functools
import glob
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GENERATED = pathlib.Path("build/check/gen")
ETCD = "build/etcd-protos"
CACHE = pathlib.Path.home() / ".cache/paceline/tidy"
SITE = glob.glob(".venv/lib/python3*/site-packages")[0]
# Not Debian's: from version 21 on it skips the system's headers, which is four times as fast.
CLANG_TIDY = ".venv/bin/clang-tidy"
CLANG = "clang++-14"
BATCH = 8  # Files that are checked together.
FLAGS = [
    "-std=c++17", "-Wall", "-Wextra", "-Wthread-safety", "-Wno-deprecated-declarations", "-I.",
    "-isystem", str(GENERATED),
    "-DSPDLOG_SHARED_LIB", "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL",
    "-DCPPHTTPLIB_BROTLI_SUPPORT", "-DCPPHTTPLIB_OPENSSL_SUPPORT", "-DCPPHTTPLIB_ZLIB_SUPPORT",
]
TORCH_FLAGS = [
    "-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO", "-DUSE_C10D_NCCL", "-isystem", f"{SITE}/torch/include",
    "-isystem", f"{SITE}/torch/include/torch/csrc/api/include",
    "-isystem", "third_party/gloo_stub",
    *(flag for path in glob.glob(f"{SITE}/nvidia/*/include") for flag in ("-isystem", path)),
]
OUR_CODE = r"(^|/)(bench|cli|common|controller|tests|worker)/.*\.(h|cc)$"
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
TORCH = re.compile(r"^(torch|c10|ATen|gloo|caffe2)/|^(cuda|nccl|cuda_runtime\w*)\.h$")


@functools.lru_cache(maxsize=None)
def text(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


@functools.lru_cache(maxsize=None)
def includes(path):
    return tuple(INCLUDE.findall(text(path)))


def closure(path):
    """Own files that `path` reaches, itself included, and the other headers they name."""
    own, foreign, left = {path}, set(), [path]
    while left:
        for name in includes(left.pop()):
            if not os.path.isfile(name):
                foreign.add(name)
            elif name not in own:
                own.add(name)
                left.append(name)
    return own, foreign


@functools.lru_cache(maxsize=None)
def our_files(pattern):
    """Paths that match, tracked or not, without those that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", pattern],
        check=True, capture_output=True, text=True).stdout.split()
    return sorted(path for path in listed if os.path.isfile(path))


def generate_protos():
    """The headers that our files include as "proto/x.pb.h" and "etcd/x.pb.h", and google.rpc's."""
    shutil.rmtree(GENERATED, ignore_errors=True)
    etcd = GENERATED / "etcd"
    etcd.mkdir(parents=True)
    published = glob.glob(f"{ETCD}/**/*.proto", recursive=True)
    subprocess.run([sys.executable, "bazel/etcd_protos.py", etcd, *published], check=True)
    subprocess.run(
        ["protoc", "-I.", f"-I{GENERATED}", f"-I{SITE}", f"--cpp_out={GENERATED}",
         f"--grpc_out={GENERATED}", "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
         *our_files("*.proto"), *(f"etcd/{path.name}" for path in etcd.glob("*.proto")),
         "google/rpc/status.proto", "google/rpc/error_details.proto"], check=True)
    # As proto/BUILD does.
    subprocess.run(
        f"protoc -I. --descriptor_set_out={GENERATED}/methods.pb proto/*.proto && "
        "protoc --decode=google.protobuf.FileDescriptorSet google/protobuf/descriptor.proto "
        f"< {GENERATED}/methods.pb | awk -f proto/methods.awk > {GENERATED}/proto/methods.h", shell=True, check=True)


@functools.lru_cache(maxsize=None)
def command_for(path):
    """What to run over the file; nothing when it needs no pass."""
    _, foreign = closure(path)
    if not any(TORCH.match(name) for name in foreign):
        return [CLANG_TIDY, "--quiet", path, "--", *FLAGS]
    if "absl/synchronization/mutex.h" in foreign:
        return [CLANG, "-fsyntax-only", "-Werror=thread-safety", *FLAGS, *TORCH_FLAGS, path]
    return None


def mark(path, version):
    """The file that tells that this one, as it is now, has passed."""
    own, foreign = closure(path)
    protos = our_files("*.proto") if any("pb.h" in name for name in foreign) else []
    key = hashlib.sha256("\0".join(
        [version, text(".clang-tidy"), *command_for(path), *(name + "\0" + text(name)
         for name in sorted(own) + sorted(protos))]).encode()).hexdigest()
    return CACHE / key


def batches(paths):
    """Lists of files to look at together: of one folder, tests apart."""
    groups = collections.defaultdict(list)
    for path in paths:
        alone = path if command_for(path)[0] != CLANG_TIDY else ""
        groups[os.path.dirname(path), path.endswith("_test.cc"), alone].append(path)
    return [group[first:first + BATCH] for group in groups.values()
            for first in range(0, len(group), BATCH)]


def pass_together(paths):
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as joined:
        joined.write("".join(f'#include "{path}"\n' for path in paths))
        joined.flush()
        return subprocess.run(
            [CLANG_TIDY, "--quiet", "--config-file=.clang-tidy",
             "--checks=-bugprone-suspicious-include", "--header-filter=" + OUR_CODE, joined.name,
             "--", *FLAGS], capture_output=True, check=False).returncode == 0


def check(paths, version):
    """The complaints about these files."""
    if len(paths) > 1:
        if not pass_together(paths):
            half = len(paths) // 2
            return check(paths[:half], version) + check(paths[half:], version)
    else:
        result = subprocess.run(command_for(paths[0]), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            return [result.stdout + (result.stderr if not result.stdout else "")]
    for path in paths:
        mark(path, version).touch()
    return []


def main():
    generate_protos()
    CACHE.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(
        [CLANG_TIDY, "--version"], check=True, capture_output=True, text=True).stdout
    paths = [path for path in sys.argv[1:] or our_files("*.cc")
             if command_for(path) and not mark(path, version).exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for complaints in pool.map(lambda batch: check(batch, version), batches(paths)):
            failed += len(complaints)
            for complaint in complaints:
                print(complaint.strip(), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
