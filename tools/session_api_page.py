"""Prints the reference of docs/session-api.md, made of the docstrings of the package `paceline`.

    python tools/session_api_page.py FILE.py...

The files are read, not imported. What `import paceline` gives is told, in the order of SHOWN.
"""

import ast
import re
import sys

SHOWN = ("init", "Run", "Step", "Loader", "Score", "Regroup", "TrainingError")
WIDTH = 100
ARGUMENT = re.compile(r"^([a-z_]+): ")


def text_of(docstring):
    """Markdown of a docstring: its paragraphs, and lists of what begins with `name: `."""
    parts = []
    for paragraph in docstring.split("\n\n"):
        items = []  # Lines that belong together.
        for line in paragraph.split("\n"):
            if items and not ARGUMENT.match(line):
                items[-1] += " " + line.strip()
            else:
                items.append(line.strip())
        parts.append("\n".join(ARGUMENT.sub(r"- `\1`: ", item) for item in items))
    return "\n\n".join(parts)


def is_property(node):
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def signature(node, prefix):
    """As it is called, with types: in one line, or with a line for each argument."""
    arguments = node.args
    arguments.args = [one for one in arguments.args if one.arg != "self"]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{prefix}{node.name}({ast.unparse(arguments)}){returns}"
    if len(line) <= WIDTH:
        return line
    each = re.split(r", (?=\*|\w+: |\w+=)", ast.unparse(arguments))
    return f"{prefix}{node.name}(\n" + "".join(f"    {one},\n" for one in each) + f"){returns}"


def print_call(node, prefix, level):
    told = ast.get_docstring(node)
    if told is None:
        sys.exit(f"{prefix}{node.name} has no docstring")
    print(f"\n{level} {prefix}{node.name}\n")
    if is_property(node):
        told = f"`{ast.unparse(node.returns)}`. {told}"
    else:
        print(f"```python\n{signature(node, prefix)}\n```\n")
    print(text_of(told))


def print_class(node):
    prefix = f"{node.name.lower()}."
    bases = f"({', '.join(ast.unparse(base) for base in node.bases)})" if node.bases else ""
    print(f"\n## {node.name}{bases}\n\n{text_of(ast.get_docstring(node))}")
    for field, told in zip(node.body, node.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(told, ast.Expr):
            value = f" = {ast.unparse(field.value)}" if field.value else ""
            print(f"\n### {prefix}{field.target.id}\n\n`{ast.unparse(field.annotation)}{value}`. "
                  + " ".join(told.value.value.split()))
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            if not any(ast.unparse(how) == "overload" for how in one.decorator_list):
                print_call(one, prefix, "###")


def main():
    found = {}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            found.update((node.name, node) for node in ast.parse(file.read()).body
                         if isinstance(node, (ast.ClassDef, ast.FunctionDef)))
    for name in SHOWN:
        if isinstance(found[name], ast.ClassDef):
            print_class(found[name])
        else:
            print_call(found[name], "paceline.", "##")


if __name__ == "__main__":
    main()
