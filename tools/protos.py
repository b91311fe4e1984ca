"""The .proto files as pages tell of them: their comments, and the options of a job file's keys."""

import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool

# Numbers of the fields of descriptors, as paths of comments use them.
FILE_MESSAGE, MESSAGE_FIELD, MESSAGE_ONEOF = 4, 2, 8


def image_of(files):
    """The files with their imports and comments, as protoc understands them."""
    with tempfile.NamedTemporaryFile() as image:
        subprocess.run(["protoc", "-I.", "--include_imports", "--include_source_info",
                        "-o", image.name, *files], check=True)
        data = image.read()
    # Options are read by who knows them.
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        if file.name == "proto/job_key.proto":
            descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    return descriptor_pb2.FileDescriptorSet.FromString(data)


class Comments:
    """The comments of one file, by the path of what they belong to."""

    def __init__(self, file):
        self._texts = {}
        for location in file.source_code_info.location:
            # After the thing only if there is nothing before it: "int32 a = 1;  // Such."
            text = location.leading_comments or location.trailing_comments
            self._texts.setdefault(tuple(location.path), text)

    def lines(self, *path):
        text = self._texts.get(path, "")
        return [line.removeprefix(" ").rstrip() for line in text.rstrip("\n").split("\n")]

    def one_line(self, *path):
        return escaped(" ".join(line.strip() for line in self.lines(*path) if line.strip()))

    def paragraphs(self, *path):
        return escaped("\n".join(self.lines(*path)))


def escaped(text):
    for character in "\\<|*":
        text = text.replace(character, "\\" + character)
    return text


def key_of(thing):
    """The JobKey of a field, or of a oneof."""
    of_field = isinstance(thing, descriptor_pb2.FieldDescriptorProto)
    name = "paceline.v1." + ("job_key" if of_field else "job_choice")
    return thing.options.Extensions[descriptor_pool.Default().FindExtensionByName(name)]


def only_with(key):
    """"Only with command", of a key that jobs of built-in models do not have; else empty."""
    scope = key.DESCRIPTOR.enum_types_by_name["Scope"].values_by_number[key.scope].name
    return {"COMMAND": "Only with command",
            "SCRIPT": "Only with command, not with session"}.get(scope, "")


def bounds(key):
    """As BoundsText of common/job_spec/job_key.h."""
    if key.HasField("min") and key.HasField("max"):
        return f"{key.min} to {key.max}"
    low = f"{key.min} <=" if key.HasField("min") else f"{key.above} <"
    if key.HasField("max") or key.HasField("below"):
        return f"{low} x <= {key.max}" if key.HasField("max") else f"{low} x < {key.below}"
    if key.HasField("min"):
        return f"{key.min} and more"
    return f"more than {key.above}" if key.HasField("above") else ""


def rules(field):
    """What the page of the API says of a field that is a key, behind its comment."""
    key = key_of(field)
    allowed = "; ".join(filter(None, [bounds(key), key.allowed]))
    told = ["Required" if key.required else "",
            f"Default `{key.default}`" if key.default else "",
            f"Default {key.derived}" if key.derived else "",
            f"Unit {key.unit}" if key.unit and key.unit not in field.name else "",
            f"Allowed: {escaped(allowed)}" if allowed else "",
            "An absolute path" + (", or an address" if key.object else "") if key.path else "",
            only_with(key)]
    return "".join(f"{text}. " for text in told if text).rstrip()
