"""Our C++ rules: the native ones with our warnings, which third parties do not get, and in
development builds with a precompiled header."""

# For files with at::parallel_for, which is a loop in the calling thread without it. Torch's own
# runtime has the threads (bazel/venv.bzl links it).
OPENMP = select({
    "//bazel:without_openmp": [],
    "//conditions:default": ["-fopenmp"],
})

WARNINGS = ["-Wall", "-Wextra", "-Werror"]

# Clang alone knows it.
_THREAD_SAFETY = select({
    "//bazel:development": ["-Wthread-safety"],
    "//conditions:default": [],
})

def precompiled(pch):
    """Copts and deps for one of bazel/pch, by its name; None: for none.

    Clang takes one alone. -MMD: system headers, which the precompiled one stands for, are no inputs
    that Bazel follows; their versions are a part of every action's key (tools/setup.sh).
    """
    if not pch:
        return [], []
    return select({
        "//bazel:development": [
            "-include-pch",
            "$(BINDIR)/bazel/pch/%s.pch" % pch,
            "-MMD",
            "-Wno-unused-command-line-argument",
        ],
        "//conditions:default": [],
    }), select({
        "//bazel:development": ["//bazel/pch:" + pch],
        "//conditions:default": [],
    })

def _plays_histories(package):
    """Whether tests play thousands of histories with the package's code: it is optimised a little."""
    parts = package.split("/")
    return "core" in parts or parts[0] == "slipstream" or package in ["bench/stragglers", "tests/sim"]

_SOMEWHAT_OPTIMISED = select({
    "//bazel:development": ["-O1"],
    "//conditions:default": [],
})

def _fitting(deps, copts, suffix = ""):
    """The precompiled header for a target, by its package and what it depends on directly."""

    # One of other flags would be refused.
    if type(copts) == "select" or copts:
        return None
    if _plays_histories(native.package_name()):
        return "core" + suffix
    names = [dep for dep in deps if type(dep) == "string"]
    for dep in names:
        if dep.startswith("@torch"):
            return "torch" + suffix
    for dep in names:
        if dep in ["@system//:grpc", "@system//:protobuf"] or dep.startswith("//proto:"):
            return "grpc" + suffix
    return "base" + suffix

def _compiled(rule, copts, deps, pch, suffix = "", **kwargs):
    if pch == "":
        pch = _fitting(deps, copts, suffix)
    pch_copts, pch_deps = precompiled(pch)
    if pch and pch.startswith("core"):
        pch_copts = _SOMEWHAT_OPTIMISED + pch_copts
    rule(copts = WARNINGS + _THREAD_SAFETY + copts + pch_copts, deps = deps + pch_deps, **kwargs)

def paceline_cc_library(name, copts = [], deps = [], pch = "", **kwargs):
    """As cc_library.

    Args:
      name, copts, deps: as there.
      pch: a precompiled header of bazel/pch, None for none; without it, the one that fits `deps`.
      **kwargs: as there.
    """
    _compiled(native.cc_library, copts, deps, pch, name = name, **kwargs)

def paceline_cc_binary(name, copts = [], deps = [], pch = "", **kwargs):
    _compiled(native.cc_binary, copts, deps, pch, name = name, **kwargs)

def paceline_cc_test(
        name,
        size = "small",
        copts = [],
        deps = [],
        pch = "",
        main = "//bazel/testing:test_main",
        **kwargs):
    """As cc_test: one for a package or a theme, since each costs a link.

    Args:
      name, size, copts, deps, pch: as for a library.
      main: what has its main function; None: its own sources.
      **kwargs: as for cc_test.
    """
    _compiled(
        native.cc_test,
        copts,
        deps + ([main] if main else []) + ["@system//:gtest"],
        pch,
        suffix = "_test",
        name = name,
        size = size,
        **kwargs
    )
