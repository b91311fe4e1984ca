"""The site of the documents: it builds, its links hold, it loads nothing from elsewhere, and its
search works from file://.

    site_test.py PATH/mkdocs.yml
"""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

CONFIG = pathlib.Path(sys.argv[1]).absolute()
ROOT = CONFIG.parent
# What a page loads by itself, by element; links that are followed by a click may lead elsewhere.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Links(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.loaded, self.followed, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if named.get(LOADS.get(tag, "")):
            self.loaded.append(named[LOADS[tag]])
        if tag == "a" and named.get("href"):
            self.followed.append(named["href"])
        if named.get("id"):
            self.ids.add(named["id"])


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        # A copy, since in Bazel's folder of a test the files are links.
        source = pathlib.Path(folder.name) / "source"
        shutil.copytree(ROOT / "docs", source / "docs")
        package = source / "build/npm/node_modules/iframe-worker/shim"
        package.mkdir(parents=True)
        shutil.copy(ROOT.parent / "npm/iframe-worker/shim/index.js", package)
        (source / "tools").mkdir()
        for name in ("mkdocs.yml", "CHANGELOG.md", "SECURITY.md", "tools/site_hooks.py"):
            shutil.copy(ROOT / name, source / name)
        cls.source = source
        cls.built = cls.build()
        assert cls.built.returncode == 0, cls.built.stdout
        cls.site = source / "build/site"
        cls.pages = {path: Links(path.read_text(encoding="utf-8"))
                     for path in cls.site.rglob("*.html") if path.name != "404.html"}

    @classmethod
    def build(cls, *options):
        # A proxy that nobody serves: a build that asks for something from elsewhere fails.
        nobody = "http://127.0.0.1:9"
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "HOME": str(cls.source),
                                    "https_proxy": nobody, "http_proxy": nobody}
        return subprocess.run([sys.executable, "-m", "mkdocs", "build", *options], cwd=cls.source,
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)

    def test_every_page_of_docs_is_there(self):
        sources = {path.relative_to(self.source / "docs").with_suffix(".html")
                   for path in (self.source / "docs").rglob("*.md")}
        renamed = {path.with_name("index.html") if path.name == "README.html" else path
                   for path in sources}
        self.assertLessEqual(renamed, {path.relative_to(self.site) for path in self.pages})

    def test_nothing_is_loaded_from_elsewhere(self):
        self.assertGreater(len(self.pages), 50)
        for path, links in self.pages.items():
            for url in links.loaded:
                self.assertNotRegex(url, r"^([a-z]+:)?//", path)
        for path in self.site.rglob("*.css"):
            self.assertNotRegex(path.read_text(encoding="utf-8"), r"url\([\"']?(https?:)?//", path)

    def test_every_link_holds(self):
        for path, links in self.pages.items():
            for url in links.followed + links.loaded:
                if re.match(r"[a-z]+:", url):
                    continue
                target, _, anchor = url.partition("#")
                file = (path.parent / urllib.parse.unquote(target)).resolve() if target else path
                with self.subTest(page=path.name, url=url):
                    self.assertTrue(file.is_file())
                    # The theme adds anchors such as __codelineno-0-1 in scripts' markup.
                    if anchor and file in self.pages and not anchor.startswith("__"):
                        self.assertIn(urllib.parse.unquote(anchor), self.pages[file].ids)

    def test_a_broken_link_ends_the_build(self):
        page = self.source / "docs/faq.md"
        text = page.read_text(encoding="utf-8")
        self.addCleanup(page.write_text, text, encoding="utf-8")
        for link in ("[x](nowhere.md)", "[x](design.md#nowhere)"):
            page.write_text(text + link + "\n", encoding="utf-8")
            with self.subTest(link):
                built = self.build("--site-dir", "build/broken")
                self.assertNotEqual(built.returncode, 0)
                self.assertIn("nowhere", built.stdout)

    def test_search_finds_pages_without_a_server(self):
        index = (self.site / "search/search_index.js").read_text(encoding="utf-8")
        found = json.loads(index.removeprefix("var __index = "))
        self.assertIn("tutorials/session.html", {one["location"] for one in found["docs"]})
        with tempfile.TemporaryDirectory() as profile:
            shown = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom",
                 f"file://{self.site}/index.html?q=rendezvous"], stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, timeout=120, check=True)
        self.assertRegex(shown.stdout, r"\d+ matching documents")
        self.assertIn("recovery.html", shown.stdout[shown.stdout.index("matching documents"):])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
