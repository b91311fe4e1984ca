"""Prints the services and messages of docs/api.md, made of the comments of the .proto files.

    python tools/api_page.py FILE.proto...

These are the services of the controller that people and programs call, and every message that can
be reached from them.
"""

import sys

from google.protobuf import descriptor_pb2

import protos

PACKAGE = ".paceline.v1."

# Used between Paceline's own processes.
INTERNAL = {"WorkerService"}

# Numbers of the fields of descriptors, as paths of comments use them.
FILE_ENUM, FILE_SERVICE, FILE_SYNTAX = 5, 6, 12
MESSAGE_NESTED, MESSAGE_ENUM = 3, 4
ENUM_VALUE, SERVICE_METHOD = 2, 2


def slug(heading):
    return heading.lower().replace(".", "").replace(" ", "-")


class Page:
    def __init__(self, image):
        self._files = [file for file in image.file if file.package == PACKAGE.strip(".")]
        self._files.sort(key=lambda file: file.name)
        self._messages = {}  # Full name: descriptor.
        self._reached = set()
        for file in self._files:
            for message in file.message_type:
                self._index(PACKAGE + message.name, message)
        for file in self._files:
            for service in self._public(file):
                for method in service.method:
                    self._reach(method.input_type)
                    self._reach(method.output_type)

    @staticmethod
    def _public(file):
        return [service for service in file.service if service.name not in INTERNAL]

    def _index(self, name, message):
        self._messages[name] = message
        for nested in message.nested_type:
            self._index(f"{name}.{nested.name}", nested)

    def _reach(self, name):
        if name in self._reached or not name.startswith(PACKAGE):
            return
        self._reached.add(name)
        message = self._messages.get(name)
        for field in message.field if message else []:
            self._reach(field.type_name)

    def _linked(self, name):
        if not name.startswith(PACKAGE):
            return f"`{name.lstrip('.')}`"
        short = name.removeprefix(PACKAGE)
        return f"[{short}](#{slug(short)})"

    def _type(self, field):
        kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
        message = self._messages.get(field.type_name)
        if message and message.options.map_entry:
            key, value = message.field
            return f"map of {self._type(key)} to {self._type(value)}"
        text = self._linked(field.type_name) if field.type_name else kind.lower()[len("type_"):]
        if field.label == field.LABEL_REPEATED:
            return "repeated " + text
        return "optional " + text if field.proto3_optional else text

    def _message(self, name, message, comments, path):
        if name not in self._reached or message.options.map_entry:
            return
        print(f"\n### {name.removeprefix(PACKAGE)}\n")
        told = comments.paragraphs(*path)
        if told:
            print(f"{told}\n")
        if message.field:
            print("| Field | No. | Type | Meaning |\n| --- | ---: | --- | --- |")
        else:
            print("No fields.")
        for i, field in enumerate(message.field):
            what = comments.one_line(*path, protos.MESSAGE_FIELD, i)
            if field.HasField("oneof_index") and not field.proto3_optional:
                choice = message.oneof_decl[field.oneof_index]
                default = ", the default" if protos.key_of(choice).default == field.name else ""
                what = f"One of `{choice.name}`{default}. {what}".rstrip()
            what = f"{what} {protos.rules(field)}".rstrip()
            print(f"| `{field.name}` | {field.number} | {self._type(field)} | {what} |")
        for i, nested in enumerate(message.nested_type):
            self._message(f"{name}.{nested.name}", nested, comments, (*path, MESSAGE_NESTED, i))
        for i, enum in enumerate(message.enum_type):
            self._enum(f"{name}.{enum.name}", enum, comments, (*path, MESSAGE_ENUM, i))

    def _enum(self, name, enum, comments, path):
        if name not in self._reached:
            return
        print(f"\n### {name.removeprefix(PACKAGE)}\n")
        told = comments.paragraphs(*path)
        if told:
            print(f"{told}\n")
        print("| Value | No. | Meaning |\n| --- | ---: | --- |")
        for i, value in enumerate(enum.value):
            what = comments.one_line(*path, ENUM_VALUE, i)
            print(f"| `{value.name}` | {value.number} | {what} |")

    def _service(self, service, comments, index):
        print(f"\n## {service.name}\n")
        told = comments.paragraphs(FILE_SERVICE, index)
        if told:
            print(f"{told}\n")
        print("| Call | Takes | Gives | Meaning |\n| --- | --- | --- | --- |")
        for i, method in enumerate(service.method):
            stream = "stream of " if method.server_streaming else ""
            print(f"| `{method.name}` | {self._linked(method.input_type)} | "
                  f"{stream}{self._linked(method.output_type)} | "
                  f"{comments.one_line(FILE_SERVICE, index, SERVICE_METHOD, i)} |")

    def print(self):
        for file in self._files:
            for i, service in enumerate(file.service):
                if service.name not in INTERNAL:
                    self._service(service, protos.Comments(file), i)
        for file in self._files:
            names = {PACKAGE + thing.name for thing in [*file.message_type, *file.enum_type]}
            if not names & self._reached:
                continue
            comments = protos.Comments(file)
            print(f"\n## {file.name}\n\n{comments.paragraphs(FILE_SYNTAX)}")
            for i, enum in enumerate(file.enum_type):
                self._enum(PACKAGE + enum.name, enum, comments, (FILE_ENUM, i))
            for i, message in enumerate(file.message_type):
                self._message(PACKAGE + message.name, message, comments, (protos.FILE_MESSAGE, i))


if __name__ == "__main__":
    Page(protos.image_of(sorted(sys.argv[1:]))).print()
