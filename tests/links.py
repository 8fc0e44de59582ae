"""Find broken links in Markdown files of the repository and in a built site, without network access."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
ELSEWHERE = ("http:", "https:", "mailto:", "data:")


def broken_in_markdown(page):
    """Return the links of a Markdown file to missing files and headings."""
    found = []
    for link in re.findall(r"\]\(<?([^)\s>]+)>?[^)]*\)", CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(ELSEWHERE):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / unquote(place)).resolve() if place else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            found.append(link)
    return found


@cache
def headings(page):
    """Return the anchors of the headings of a Markdown file."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {_anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def _anchor(title):
    kept = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)).strip().lower()
    return re.sub(r"\s+", "-", kept)


class Parsed(HTMLParser):
    """Links, loaded files and anchors of an HTML page."""

    def __init__(self, page):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("href") and given.get("rel") != "canonical":
            self.loaded.append(given["href"])
        elif given.get("src"):
            self.loaded.append(given["src"])


def broken_in_site(root):
    """Return the broken links of a built site, and the files that it loads from elsewhere, each as (page, link)."""
    pages = {page.resolve(): Parsed(page) for page in sorted(root.rglob("*.html")) if page.name != "404.html"}
    broken, remote = [], []
    for page, parsed in pages.items():
        remote += [(page.name, link) for link in parsed.loaded if link.startswith(("http:", "https:", "//"))]
        for link in (*parsed.links, *parsed.loaded):
            split = urlsplit(link)
            if split.scheme or split.netloc:
                continue
            target = (page.parent / unquote(split.path)).resolve() if split.path else page
            if target.is_dir():
                target /= "index.html"
            anchors = pages[target].anchors if target in pages else set()
            if not target.exists() or (split.fragment and target in pages and unquote(split.fragment) not in anchors):
                broken.append((page.name, link))
    return broken, remote


def markdown_files(root):
    """Return the Markdown files of the repository."""
    return [*root.glob("*.md"), *Path(root, "docs").rglob("*.md"), *Path(root, "benchmarks").rglob("*.md")]
