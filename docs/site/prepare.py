#!/usr/bin/env python3
"""Writes what doxygen reads: prepare.py TARGET

Headers: the comment with which a file begins becomes the file's documentation, and indented lines of comments are code. What is not
public is left out.
Pages: headings get names, by which links find them as they do on GitHub. Links to sources lead to pages that show them.
"""
import html
import os
import pathlib
import re
import sys

import check_links

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ["core/**/*.h", "handlers/*.h", "programs/**/*.h", "ranks/*.h", "backends/cpu/own_kernels.h", "core.h", "stave.h"]
PAGES = ["README.md", "HACKING.md", "handlers/README.md", "docs/*.md", "docs/guides/*.md", "examples/data/README.md"]


def files(patterns):
    return sorted({path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)})


# ---- headers --------------------------------------------------------------------------------------------------


def escaped(text):
    """A line of prose, in which doxygen shall find nothing but Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\@#<>%&]|::|--)", lambda m: m[0].replace("--", r"\--") if m[0] == "--" else
                          ("\\" + m[0]), parts[i])
    return "".join(parts)


def as_documentation(lines):
    """Comment lines without their slashes -> the same as doxygen reads them."""
    out, code, previous = [], False, ""
    for line in lines:
        text = line[1:] if line.startswith(" ") else line
        indented = text.startswith("  ")
        if code and text and not indented:
            out.append("@endcode")
            code = False
        if not code and indented and (not previous or previous.endswith(":")):
            out.append("@code{.cpp}")
            code = True
        out.append(text if code else escaped(text))
        previous = text.strip()
    return out + (["@endcode"] if code else [])


INTERNAL = re.compile(r"^namespace stave_detail \{\n.*?^\}  // namespace stave_detail\n|^template <>\nstruct fmt::.*?^\};\n", re.M | re.S)


def header(text):
    lines, out = text.split("\n"), []
    i = 0
    while i < len(lines) and lines[i].startswith("//"):
        i += 1
    if i:
        out += ["/// @file"] + ["/// " + line for line in as_documentation([line[2:] for line in lines[:i]])] + [""]
    while i < len(lines):
        indent = re.match(r" *", lines[i])[0]
        comment = []
        while i < len(lines) and re.match(r" *///(?![/<])", lines[i]):
            comment.append(lines[i].strip()[3:])
            i += 1
        if comment:
            out += [indent + "/// " + line for line in as_documentation(comment)]
            continue
        before, mark, after = lines[i].partition("///<")
        out.append(before + mark + escaped(after))
        i += 1
    return INTERNAL.sub(lambda match: f"/// @cond\n{match[0]}/// @endcond\n", "\n".join(out))


# ---- pages ----------------------------------------------------------------------------------------------------


def name_of(page, anchor=""):
    return re.sub(r"\W", "_", page.removesuffix(".md")) + (("__" + anchor) if anchor else "")


def page(path, text, headers, pages, sources):
    def target(match):
        label, link = match[1], match[2]
        if re.match(r"\w+:", link):
            return match[0]
        file, _, anchor = link.partition("#")
        found = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if found in pages:
            return f"[{label}](@ref {name_of(found, anchor)})"
        if found in headers:
            return f"[{label}](@ref {found})"
        if (ROOT / found).is_file():
            sources.add(found)
            return f'<a href="{source_page(found)}">{marked(label)}</a>'
        return label  # a folder

    out, fenced, names = [], False, check_links.Names()
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = line.replace("```text", "```").replace("```sh", "```")
        elif not fenced and not line.lstrip().startswith("<!--"):
            line = re.sub(r"(?<!`)\[([^\]]*)\]\(([^)\s]+)\)", target, line)
            heading = re.match(r"(#+) (.*)", line)
            if heading:
                anchor = names.of(heading[2])
                if len(names) == 1:
                    anchor = ""  # the page's
                line = f"{heading[1]} {heading[2]} {{#{name_of(path, anchor)}}}"
        if not line.lstrip().startswith("<!--"):
            out.append(line)
    return "\n".join(out)


def marked(label):
    return re.sub(r"`([^`]*)`", lambda m: f"<code>{html.escape(m[1])}</code>", label)


def source_page(path):
    return "source_" + re.sub(r"\W", "_", path) + ".html"


def main():
    target = pathlib.Path(sys.argv[1])
    headers, pages, sources = files(HEADERS), files(PAGES), set()

    def write(path, text):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text)

    for path in headers:
        write("input/" + path, header((ROOT / path).read_text()))
    for path in pages:
        write("input/" + path, page(path, (ROOT / path).read_text(), headers, pages, sources))
    for path in sorted(sources):
        text = html.escape((ROOT / path).read_text())
        write("html/" + source_page(path), f'<!DOCTYPE html><html><head><meta charset="utf-8"/><title>{path}</title>'
              f'<link href="style.css" rel="stylesheet"/></head><body><a href="index.html">Stave</a><pre class="source">'
              f"{text}</pre></body></html>\n")


main()
