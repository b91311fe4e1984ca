"""Repositories made of wheels in the project's virtual environment."""

_TORCH_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(["python.sh"])

# The wheel ships a copy of protobuf's headers under include/google: left out, it must not shadow the system's.
cc_library(
    name = "headers",
    hdrs = glob(
        ["site/torch/include/**/*.h", "site/torch/include/**/*.hpp", "site/torch/include/**/*.cuh"],
        exclude = ["site/torch/include/google/**"],
    ),
    defines = ["USE_DISTRIBUTED", "USE_C10D_GLOO"],
    includes = ["site/torch/include", "site/torch/include/torch/csrc/api/include"],
)

# Linked by path, not as srcs: the wheel's libraries find each other by a path relative to where they lie.
cc_library(
    name = "torch_cpu",
    linkopts = ["-L{site}/torch/lib", "-Wl,-rpath,{site}/torch/lib", "-ltorch_cpu", "-lc10",
                "-l:libgomp.so.1", "-Wl,--allow-shlib-undefined"],
    deps = [":headers"],
)

# For extensions of Python: the interpreter brings Python's own symbols.
cc_library(
    name = "torch_python",
    includes = ["python"],
    hdrs = glob(["python/**/*.h"]),
    linkopts = ["-ltorch_python"],
    deps = [":torch_cpu"],
)

# Of CCCL only <nv/target>, which cuda_fp16.h includes.
cc_library(
    name = "cuda_runtime",
    hdrs = glob(
        ["site/nvidia/cu13/include/**", "site/nvidia/nccl/include/**"],
        exclude = ["site/nvidia/cu13/include/cccl/**"],
    ) + glob(["site/nvidia/cu13/include/cccl/nv/**"]),
    includes = [
        "site/nvidia/cu13/include",
        "site/nvidia/cu13/include/cccl",
        "site/nvidia/nccl/include",
    ],
    linkopts = ["-L{site}/nvidia/cu13/lib", "-Wl,-rpath,{site}/nvidia/cu13/lib",
                "-l:libcudart.so.13"],
)

# Nothing may refer to libtorch_cuda by name for its kernels to be registered: hence --no-as-needed.
cc_library(
    name = "torch_cuda",
    defines = ["USE_C10D_NCCL"],
    linkopts = ["-Wl,--no-as-needed", "-ltorch_cuda", "-lc10_cuda", "-Wl,--as-needed"],
    deps = [":torch_cpu", ":cuda_runtime"],
)

# The compiler of kernels (bazel/cuda.bzl). It finds its parts beside itself.
filegroup(name = "nvcc", srcs = ["site/nvidia/cu13/bin/nvcc"])

filegroup(
    name = "nvcc_parts",
    srcs = glob(
        ["site/nvidia/cu13/bin/*", "site/nvidia/cu13/nvvm/**", "site/nvidia/cu13/include/*",
         "site/nvidia/cu13/include/crt/**"],
        exclude = ["site/nvidia/cu13/bin/nvcc"],
    ),
)
"""

# Runs a script with the environment's Python: the program of sh_test and sh_binary targets in
# Python. When Bazel ends it because its time is over, it tells the stacks of its threads.
_PYTHON = """#!/bin/sh
exec {root}/bin/python -c '
import faulthandler, os, runpy, signal, sys
faulthandler.register(signal.SIGTERM, chain=True)
del sys.argv[0]
sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
' "$@"
"""

_GOOGLEAPIS_BUILD = """
package(default_visibility = ["//visibility:public"])

filegroup(name = "rpc_src", srcs = glob(["site/google/rpc/*.proto"]))

genrule(
    name = "rpc_gen",
    srcs = [":rpc_src"],
    outs = ["google/rpc/" + f + e for f in ["status", "error_details"] for e in [".pb.h", ".pb.cc"]],
    cmd = "protoc -I external/googleapis/site --cpp_out=$(RULEDIR) google/rpc/status.proto google/rpc/error_details.proto",
)

# google.rpc.Status and the details that go with an error.
cc_library(
    name = "rpc",
    srcs = ["google/rpc/status.pb.cc", "google/rpc/error_details.pb.cc"],
    hdrs = ["google/rpc/status.pb.h", "google/rpc/error_details.pb.h"],
    includes = ["."],
    deps = ["@system//:protobuf"],
)
"""

def _site_packages(ctx, package):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    lib = root.get_child(ctx.attr.venv).get_child("lib")
    pythons = [d for d in lib.readdir()] if lib.exists else []
    if len(pythons) != 1:
        fail("no virtual environment at %s: run tools/setup.sh" % ctx.attr.venv)
    site = pythons[0].get_child("site-packages")
    if not site.get_child(package).exists:
        fail("%s is not installed in %s: run tools/setup.sh" % (package, ctx.attr.venv))
    return site

def _python_headers(ctx, root):
    found = ctx.execute([root.get_child("bin").get_child("python"), "-c",
                         "import sysconfig; print(sysconfig.get_paths()['include'], end='')"])
    if found.return_code:
        fail("no headers of Python: run tools/setup.sh")
    return found.stdout

def _torch_repository_impl(ctx):
    own = _site_packages(ctx, "torch")
    root = own.dirname.dirname.dirname

    # Engines for others than the environment's own (tools/wheel.sh).
    site = ctx.path(ctx.os.environ.get("PACELINE_TORCH") or str(own))
    headers = ctx.os.environ.get("PACELINE_PYTHON_HEADERS") or _python_headers(ctx, root)
    if not site.get_child("torch").get_child("include").exists:
        fail("no torch with headers in %s" % site)
    if not ctx.path(headers).get_child("Python.h").exists:
        fail("no Python.h in %s: run tools/setup.sh, or install the headers of this Python" % headers)
    ctx.symlink(site, "site")
    ctx.symlink(headers, "python")
    ctx.file("BUILD", _TORCH_BUILD.replace("{site}", str(site)))
    ctx.file("python.sh", _PYTHON.replace("{root}", str(root)), executable = True)

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    attrs = {"venv": attr.string(mandatory = True)},
    environ = ["PACELINE_TORCH", "PACELINE_PYTHON_HEADERS"],
    local = True,
)

def _googleapis_repository_impl(ctx):
    ctx.symlink(_site_packages(ctx, "google"), "site")
    ctx.file("BUILD", _GOOGLEAPIS_BUILD)

googleapis_repository = repository_rule(
    implementation = _googleapis_repository_impl,
    attrs = {"venv": attr.string(mandatory = True)},
    local = True,
)
