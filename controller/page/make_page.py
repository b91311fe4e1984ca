"""Makes page_text.cc: one HTML file with its styles and code in it, and a policy that allows
these and nothing else: make_page.py page.html style.css script.js..."""

import base64
import hashlib
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def hash_of(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def literal(text):
    """A C++ string; in parts, as a compiler need not take a long one."""
    parts = [text[i:i + 8000] for i in range(0, len(text), 8000)]
    return "\n".join('R"PAGE(%s)PAGE"' % part for part in parts)


def main(page, style, *scripts):
    style = read(style)
    script = "'use strict';\n(() => {\n%s})();\n" % "".join(read(path) for path in scripts)
    assert "</" not in style and "</script" not in script and ')PAGE"' not in script
    html = read(page)
    for mark, text in (("STYLE", style), ("SCRIPT", script)):
        assert html.count(mark) == 1, mark
        html = html.replace(mark, text)
    policy = "; ".join([
        "default-src 'none'",
        "style-src " + hash_of(style),
        "script-src " + hash_of(script),
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ])
    print('#include "controller/page/page_text.h"\n\nnamespace paceline {\n')
    print("const char kPageHtml[] =\n%s;\n" % literal(html))
    print("const char kPagePolicy[] =\n%s;\n" % literal(policy))
    print("}  // namespace paceline")


main(*sys.argv[1:])
