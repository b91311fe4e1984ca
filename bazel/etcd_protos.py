"""Makes etcd's proto files ready for the distribution's protoc.

    etcd_protos.py OUT FILE...

Writes each file into the folder OUT, without what only Go's generators and a gateway read: imports
and options of gogoproto and google.api. Imports of one another become those of neighbours in
etcd/, whatever folder they were in. The messages on the wire stay as they are.
"""

import os
import re
import sys

_FOREIGN = r"(?:gogoproto|google\.api)"
_FOREIGN_IMPORT = re.compile(r'^import "(?:[^"]*/)?(?:gogoproto|google/api)/[^"]*";\n', re.MULTILINE)
_IMPORT = re.compile(r'^import "(?!google/protobuf/)(?:[^"]*/)?([^"/]+\.proto)";', re.MULTILINE)
_OPTION = re.compile(rf"[ \t]*option \({_FOREIGN}[\w.]*\)[\w.]* *= *")
_FIELD_OPTIONS = re.compile(r" *\[([^\[\]]*)\](?= *;)")


def _end_of_value(text, begin):
    """Behind the `;` that ends the option whose value begins there; braces may be in it."""
    depth = 0
    for i in range(begin, len(text)):
        if text[i] == "{":
            depth += 1
        elif text[i] == "}":
            depth -= 1
        elif text[i] == ";" and depth == 0:
            return i + 1
    raise ValueError("an option without an end")


def _without_options(text):
    while True:
        option = _OPTION.search(text)
        if option is None:
            return text
        text = text[:option.start()] + text[_end_of_value(text, option.end()):].lstrip("\n")


def _own_field_options(match):
    own = [option for option in match[1].split(",")
           if not re.match(rf"\s*\({_FOREIGN}", option)]
    return f" [{','.join(own)}]" if own else ""


def ready(text):
    text = _IMPORT.sub(r'import "etcd/\1";', _FOREIGN_IMPORT.sub("", text))
    return _FIELD_OPTIONS.sub(_own_field_options, _without_options(text))


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            text = ready(file.read())
        with open(os.path.join(out, os.path.basename(path)), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
