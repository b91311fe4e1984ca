"""Makes page_text.cc: one HTML file with its styles and code in it, and a policy that allows
these and nothing else:

    make_page.py page.html style.css library.css library.js LICENSE script.js...
"""

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


def library_code(code, licence):
    """With its licence, which copies must keep, in place of the first comment, which has an address
    that would look as if the page loaded something."""
    text = read(code)
    assert text.startswith("/*!")
    licence = read(licence)
    assert "Copyright" in licence and "*/" not in licence
    return "/* uPlot\n\n%s\n*/%s\n" % (licence, text.split("*/", 1)[1])


def main(page, style, library_style, library, licence, *scripts):
    style = read(library_style) + read(style)
    code = library_code(library, licence) + "".join(read(path) for path in scripts)
    script = "'use strict';\n(() => {\n%s})();\n" % code
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
