"""The client's code for etcd's API, of the proto files that tools/setup.sh has unpacked."""

_BUILD = """
package(default_visibility = ["//visibility:public"])

_FILES = ["kv", "auth", "rpc"]

genrule(
    name = "rpc_gen",
    srcs = [
        "site/etcdserver/etcdserverpb/rpc.proto",
        "site/mvcc/mvccpb/kv.proto",
        "site/auth/authpb/auth.proto",
    ],
    outs = ["etcd/" + f + ".pb" + e for f in _FILES for e in [".h", ".cc"]] +
           ["etcd/rpc.grpc.pb.h", "etcd/rpc.grpc.pb.cc"],
    cmd = " && ".join([
        "/usr/bin/python3 $(execpath @paceline//bazel:etcd_protos.py) $(RULEDIR)/ready/etcd $(SRCS)",
        "protoc -I $(RULEDIR)/ready --cpp_out=$(RULEDIR) " + " ".join(["etcd/" + f + ".proto" for f in _FILES]),
        "protoc -I $(RULEDIR)/ready --grpc_out=$(RULEDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin etcd/rpc.proto",
    ]),
    tools = ["@paceline//bazel:etcd_protos.py"],
)

# Services KV, Lease, Watch and Maintenance, in C++ namespaces etcdserverpb and mvccpb.
cc_library(
    name = "rpc",
    srcs = ["etcd/" + f + ".pb.cc" for f in _FILES] + ["etcd/rpc.grpc.pb.cc"],
    hdrs = ["etcd/" + f + ".pb.h" for f in _FILES] + ["etcd/rpc.grpc.pb.h"],
    includes = ["."],
    deps = ["@system//:grpc"],
)
"""

def _etcd_repository_impl(ctx):
    protos = ctx.path(Label("//:WORKSPACE")).dirname
    for part in ctx.attr.protos.split("/"):
        protos = protos.get_child(part)
    if not protos.get_child(".complete").exists:
        fail("no proto files of etcd at %s: run tools/setup.sh" % ctx.attr.protos)
    ctx.symlink(protos, "site")
    ctx.file("BUILD", _BUILD)

etcd_repository = repository_rule(
    implementation = _etcd_repository_impl,
    attrs = {"protos": attr.string(mandatory = True)},
    local = True,
)
