"""Loops that are fast by their compiler: by GCC in each configuration, so that what is tested is
what is released. Clang has neither OpenMP over the runtime that torch brings, nor one function for
several instruction sets."""

load("//bazel:cc.bzl", "OPENMP", "WARNINGS", "paceline_cc_library")

_GCC = "/usr/bin/g++"

def _gcc_object_impl(ctx):
    below = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    arguments = ctx.actions.args()
    arguments.add_all(["-std=c++17", "-fPIC", "-fno-omit-frame-pointer", "-iquote", ".", "-c"])
    arguments.add_all(below.quote_includes, before_each = "-iquote")
    arguments.add_all(below.system_includes, before_each = "-isystem")
    arguments.add_all(below.defines, format_each = "-D%s")
    arguments.add_all(ctx.attr.copts)
    arguments.add(ctx.file.src)
    arguments.add("-o", ctx.outputs.object)
    ctx.actions.run(
        executable = _GCC,
        arguments = [arguments],
        inputs = depset([ctx.file.src] + ctx.files.hdrs, transitive = [below.headers]),
        outputs = [ctx.outputs.object],
        use_default_shell_env = True,
        mnemonic = "GccCompile",
        progress_message = "Compiling %s with GCC" % ctx.file.src.short_path,
    )

_gcc_object = rule(
    implementation = _gcc_object_impl,
    attrs = {
        "src": attr.label(allow_single_file = [".cc"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
    },
    outputs = {"object": "%{name}.pic.o"},
)

def cpu_kernels(name, src, hdrs, copts = [], deps = [], **kwargs):
    """A library of one unit that GCC compiles, with OpenMP.

    Args:
      name, hdrs, copts, deps: as for cc_library.
      src: the unit.
      **kwargs: as for cc_library.
    """
    _gcc_object(
        name = name + "_gcc",
        src = src,
        hdrs = hdrs,
        copts = WARNINGS + ["-O2"] + copts + ["-fopenmp"],
        deps = deps,
        tags = ["manual"],
    )
    paceline_cc_library(
        name = name,
        srcs = select({
            "//bazel:development": [name + "_gcc.pic.o"],
            "//conditions:default": [src],
        }),
        hdrs = hdrs,
        copts = copts + OPENMP,
        # For their tests: the loops have the threads of torch's pool.
        defines = select({
            "//bazel:without_openmp": [],
            "//conditions:default": ["PACELINE_OPENMP"],
        }),
        pch = None,
        deps = deps,
        **kwargs
    )
