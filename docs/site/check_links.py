#!/usr/bin/env python3
"""Checks that no link within the project is broken: check_links.py [folder of a site]

Without a folder: those of all Markdown files, to files and to headings, as GitHub names these. Of a site: those of its HTML.
"""
import html
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Names(set):
    """Those that GitHub gives to the headings of a page, from its first on."""

    def of(self, heading):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        name = first = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = 0
        while name in self:
            count += 1
            name = f"{first}-{count}"
        self.add(name)
        return name


def without_blocks(text):
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.M | re.S)


def headings(text):
    names = Names()
    for heading in re.findall(r"^#+ (.*)", without_blocks(text), flags=re.M):
        names.of(heading)
    return names


def links(text):
    """But those in code; a label may be code."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "`", without_blocks(text)))


def markdown_files():
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    if shutil.which("git") and (listed := subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout):
        return [ROOT / line for line in listed.splitlines() if (ROOT / line).exists()]
    return [path for path in ROOT.rglob("*.md") if "build" not in path.relative_to(ROOT).parts]  # an archive of the sources


def broken_in_markdown():
    for path in sorted(markdown_files()):
        for link in links(path.read_text()):
            if re.match(r"\w+:", link):
                continue
            file, _, anchor = link.partition("#")
            found = path.parent / file if file else path
            if not found.exists():
                yield path.relative_to(ROOT), link, "no such file"
            elif anchor and (found.suffix != ".md" or anchor not in headings(found.read_text())):
                yield path.relative_to(ROOT), link, "no such heading"


def broken_in_site(site):
    pages = {path.name: path.read_text(errors="replace") for path in site.glob("*.html")}
    anchors = {name: set(re.findall(r'(?:id|name)="([^"]*)"', text)) for name, text in pages.items()}
    for name, text in sorted(pages.items()):
        for link in set(re.findall(r'<a [^>]*href="([^"]*)"', text)):
            link = html.unescape(link)
            if re.match(r"\w+:", link) or link == "#nested-classes":  # doxygen's, of classes whose nested ones are private
                continue
            file, _, anchor = link.partition("#")
            file = urllib.parse.unquote(file) or name
            if not (site / file).exists():
                yield name, link, "no such file"
            elif anchor and anchor not in anchors.get(file, {anchor}):
                yield name, link, "no such anchor"


def main():
    broken = list(broken_in_site(pathlib.Path(sys.argv[1])) if len(sys.argv) > 1 else broken_in_markdown())
    for page, link, why in broken:
        print(f"{page}: {link}: {why}", file=sys.stderr)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
