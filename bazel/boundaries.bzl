"""Who may depend on whom, checked for every target of every build.

The aspect follows `deps` and fails the analysis when
  - a target reaches both gRPC and torch: a hung collective must never take a daemon down,
    and the two bring different protobuf headers;
  - a target in a `core` folder reaches anything but other `core` code, `common/core`,
    `common/identity`, `slipstream` and Abseil: core decides, and does no IO. So must those three.
"""

BoundaryInfo = provider(
    "What a target reaches through its dependencies.",
    fields = {"labels": "depset of the labels of all third-party and own library targets"},
)

_GRPC = "@system//:grpc"
_TORCH = "@torch//:headers"

def _name(label):
    package = "//%s:%s" % (label.package, label.name)
    return "@%s%s" % (label.workspace_name, package) if label.workspace_name else package

# As pure as core, under a name of its own.
_PURE = ["common/identity", "slipstream", "slipstream/testing"]

def _is_core(package):
    return "core" in package.split("/") or package in _PURE

# Abseil, and what stands in front of it.
_ABSEIL = ["@system//:absl"] + [
    repository + "//bazel:" + name
    for repository in ["", "@paceline"]
    for name in ["steady_absl", "tsan_absl"]
]

def _allowed_in_core(name):
    if name.startswith("@paceline//bazel/pch:") or name.startswith("//bazel/pch:"):
        return True
    if name in _ABSEIL:
        return True
    if name.startswith("@"):
        return False
    package = name[2:].split(":")[0]
    return package == "common/core" or _is_core(package)

def _boundaries_impl(target, ctx):
    below = []
    for dep in getattr(ctx.rule.attr, "deps", []):
        if BoundaryInfo in dep:
            below.append(dep[BoundaryInfo].labels)
    me = _name(target.label)
    labels = depset([me], transitive = below)
    reached = labels.to_list()
    if _GRPC in reached and _TORCH in reached:
        fail("%s reaches both gRPC and torch; keep them in different processes (docs/design.md)" % me)
    if _is_core(target.label.package) and ctx.rule.kind == "cc_library":
        wrong = [name for name in reached if not _allowed_in_core(name)]
        if wrong:
            fail("%s is core and must not reach %s (docs/design.md)" % (me, ", ".join(wrong)))
    return [BoundaryInfo(labels = labels)]

boundaries = aspect(
    implementation = _boundaries_impl,
    attr_aspects = ["deps"],
)
