"""CUDA kernels: compiled by the environment's nvcc (bazel/venv.bzl), linked as any library.
And tests of what needs a GPU."""

load("//bazel:cc.bzl", "paceline_cc_test")

# Machine code for A100, H100/H200 and B200; PTX for what comes later.
_TARGETS = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_100,code=sm_100",
    "-gencode=arch=compute_100,code=compute_100",
]

# The host's part gets our warnings; -fmad=false: no product is contracted with a sum.
_OPTIONS = ["-std=c++17", "-O3", "-fmad=false", "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror"]

def cuda_library(name, src, hdrs, deps = [], **kwargs):
    """A library of kernels.

    Args:
      name: of the target.
      src: the one .cu file. It includes no header of torch.
      hdrs: its headers, which do not either.
      deps: of the headers.
      **kwargs: as for cc_library.
    """
    object_file = name + ".pic.o"
    native.genrule(
        name = name + "_object",
        srcs = [src] + hdrs,
        outs = [object_file],
        tools = ["@torch//:nvcc", "@torch//:nvcc_parts"],
        cmd = "$(execpath @torch//:nvcc) -ccbin g++ -I. %s %s -c $(execpath %s) -o $@" % (
            " ".join(_OPTIONS),
            " ".join(_TARGETS),
            src,
        ),
    )
    native.cc_library(
        name = name,
        srcs = [object_file],
        hdrs = hdrs,
        # Without it nothing but the launches would keep the registration of the kernels.
        alwayslink = True,
        deps = deps + ["@torch//:cuda_runtime"],
        **kwargs
    )

def paceline_gpu_test(name, **kwargs):
    """A test that every build links and `bazel test //...` leaves out (.bazelrc). Our code is
    linked statically, so that tools/pack-gpu.sh carries single files."""
    paceline_cc_test(
        name = name,
        linkstatic = True,
        tags = ["gpu"],
        visibility = ["//:__pkg__"],
        **kwargs
    )
