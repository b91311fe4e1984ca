"""C++ code for a .proto file, with the distribution's protoc."""

load("//bazel:cc.bzl", "precompiled")

def _include(dep):
    return " -Iexternal/googleapis/site" if dep.startswith("@googleapis") else ""

def paceline_proto_library(name, src, deps = [], grpc = False, **kwargs):
    """Messages of `src`, and with `grpc` its services too.

    Args:
      name: the cc_library that is made; `deps` are other such libraries.
      src: the .proto file, imported by its path from the root.
      deps: paceline_proto_library targets, or @googleapis//:rpc.
      grpc: also generate the services' code.
      **kwargs: passed to the cc_library.
    """
    stem = src[:-len(".proto")]
    suffixes = [".pb"] + ([".grpc.pb"] if grpc else [])
    plugin = " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin" if grpc else ""
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [d + "_src" for d in deps],
        visibility = ["//visibility:public"],
    )
    native.genrule(
        name = name + "_gen",
        srcs = [":" + name + "_src"],
        outs = [stem + s + e for s in suffixes for e in [".h", ".cc"]],
        cmd = "protoc -I. -Iexternal/googleapis/site --cpp_out=$(GENDIR)%s %s/%s" %
              (plugin, native.package_name(), src),
    )
    pch_copts, pch_deps = precompiled("grpc")
    native.cc_library(
        name = name,
        srcs = [stem + s + ".cc" for s in suffixes],
        hdrs = [stem + s + ".h" for s in suffixes],
        copts = pch_copts,
        deps = deps + ["@system//:grpc" if grpc else "@system//:protobuf"] + pch_deps,
        **kwargs
    )
