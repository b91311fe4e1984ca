"""Prints the tables of docs/job-file.md: the keys of the file itself, then those of each group.

    python tools/job_file_page.py proto/job_spec.proto

They are made of the fields of JobSpec, in their order, with their comments and options
(proto/job_key.proto).
"""

import os.path
import sys
from collections import namedtuple

import protos
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

TYPES = {
    FieldDescriptorProto.TYPE_BOOL: ("true or false", "false"),
    FieldDescriptorProto.TYPE_DOUBLE: ("number", "0"),
    FieldDescriptorProto.TYPE_ENUM: ("choice", "none"),
    FieldDescriptorProto.TYPE_INT32: ("whole number", "0"),
    FieldDescriptorProto.TYPE_INT64: ("whole number", "0"),
    FieldDescriptorProto.TYPE_MESSAGE: ("group of keys", ""),
    FieldDescriptorProto.TYPE_STRING: ("text", "none"),
}

Key = namedtuple("Key", "path type unit default allowed example meaning")


class Keys(list):
    """The keys in the order of the page; a group comes before its keys."""

    def __init__(self, image):
        super().__init__()
        self._messages, self._enums = {}, {}
        for file in image.file:
            comments = protos.Comments(file)
            for i, message in enumerate(file.message_type):
                self._messages[f".{file.package}.{message.name}"] = message, comments, i
            for enum in file.enum_type:
                self._enums[f".{file.package}.{enum.name}"] = [v.name for v in enum.value]
        self._add_group(".paceline.v1.JobSpec", "", "")

    def _add_group(self, name, prefix, remark, kind=""):
        """`remark`: on all its keys; `kind`: the member of a choice that the group is."""
        message, comments, i = self._messages[name]
        members = []
        for k, choice in enumerate(message.oneof_decl):
            if choice.name == "kind":
                members = [f for f in message.field
                           if f.HasField("oneof_index") and f.oneof_index == k]
                meaning = comments.one_line(protos.FILE_MESSAGE, i, protos.MESSAGE_ONEOF, k)
                key = protos.key_of(choice)
                self.append(Key(prefix + "kind", "choice", "",
                                "required" if key.required else key.default,
                                ", ".join(f.name for f in members), key.example, meaning + remark))
        for k, field in enumerate(message.field):
            if field not in members:
                meaning = comments.one_line(protos.FILE_MESSAGE, i, protos.MESSAGE_FIELD, k)
                self._add_field(field, prefix, meaning, remark, kind)
        for field in members:
            self._add_group(field.type_name, prefix, f" Only with kind {field.name}.", field.name)

    def _add_field(self, field, prefix, meaning, remark, kind):
        key = protos.key_of(field)
        only_with = protos.only_with(key)
        if only_with:
            remark = f" {only_with}."
        path = prefix + (key.list_form_of or field.name)
        repeated = field.label == field.LABEL_REPEATED
        is_group = field.type_name in self._messages
        type_name, default = TYPES[field.type]
        if field.type == field.TYPE_MESSAGE and not is_group:
            type_name, default = "labels with values", "none"
        elif repeated:
            type_name, default = f"list of {'group' if is_group else type_name}s", "none"
        elif key.path:
            type_name = "path or address" if key.object else "path"
        bounds = protos.bounds(key)
        allowed = [f"each {bounds}" if bounds and repeated else bounds, key.allowed]
        if key.required:
            default = "required" + (f" with kind {kind}" if kind else "")
        elif key.default or key.derived:
            default = key.default or key.derived
        if field.type == field.TYPE_ENUM:
            names = self._enums[field.type_name]
            cut = os.path.commonprefix(names).rfind("_") + 1
            allowed.insert(0, ", ".join(name[cut:].lower() for name in names[1:]))
            default = default[cut:].lower() if key.default else default
        self.append(Key(path, type_name, key.unit, default, "; ".join(filter(None, allowed)),
                        key.example, meaning + remark))
        if is_group:
            inherited = remark if only_with else ""
            self._add_group(field.type_name, path + ("[]." if repeated else "."), inherited)


def code(text):
    return f"`{text}`" if text else ""


def group_of(key):
    """"chaos" of "chaos[].rank"; empty for a key of the file itself."""
    return key.path.split(".")[0].removesuffix("[]") if "." in key.path else ""


def print_table(keys, group):
    print("| Key | Type | Default | Allowed | Example | Meaning |\n"
          "| --- | --- | --- | --- | --- | --- |")
    for key in keys:
        if group_of(key) != group:
            continue
        words = key.default in ("required", "none") or " " in key.default
        type_name = f"[{key.type}](#{key.path})" if "group" in key.type and not group else key.type
        print(f"| `{key.path}` | {type_name}{key.unit and ', in ' + key.unit} | "
              f"{key.default if words else code(key.default)} | {key.allowed} | "
              f"{code(key.example)} | {key.meaning} |")


def main(file):
    keys = Keys(protos.image_of([file]))
    print_table(keys, "")
    for key in keys:
        if "group" in key.type and not group_of(key):
            print(f"\n### {key.path}\n\n{key.meaning}\n")
            print_table(keys, key.path)


if __name__ == "__main__":
    main(sys.argv[1])
