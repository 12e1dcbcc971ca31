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
import operation_pages
import topics

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ["core/**/*.h", "handlers/**/*.h", "backends/cpu/own_kernels.h"]
ALSO_GUIDES = ["examples/README.md", "examples/python/README.md"]  # where there are such
PAGES = ["README.md", "HACKING.md", "*/README.md", "docs/*.md", "docs/guides/*.md", "examples/*/README.md", "core/*/README.md", "handlers/*/README.md"]


def files(patterns):
    return sorted({path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)})


def public_headers():
    """The headers of topics.py, which must be all that declare something public."""
    public = {path for path in files(HEADERS) if re.search(r"^namespace stave \{", (ROOT / path).read_text(), re.M)}
    listed = {path for _, _, headers in topics.TOPICS for path in headers}
    for path in sorted(public - listed - topics.LEFT_OUT):
        raise SystemExit(f"{path} declares something public, and docs/site/topics.py has no topic for it")
    for path in sorted((listed | topics.LEFT_OUT) - set(files(HEADERS))):
        raise SystemExit(f"docs/site/topics.py has a header that does not exist: {path}")
    return listed


# ---- headers --------------------------------------------------------------------------------------------------


def escaped(text):
    """A line of prose, in which doxygen shall find nothing but Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(
            r"([\\@#<>%&]|::|--)", lambda m: m[0].replace("--", r"\--") if m[0] == "--" else ("\\" + m[0]), parts[i]
        )
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


# What is not for users: the namespace of internals, formatters, what makes options be given by name, and macros that spell out
# declarations. Those between STAVE_NAMES let sin and the like, which have overloads, be given as functions of one tensor.
LEFT_OUT = re.compile(
    r"^namespace stave_detail \{\n(?:.|\n)*?^\}  // namespace stave_detail\n|^template <>\nstruct fmt::(?:.|\n)*?^\};\n"
    r"|^ *\[\[no_unique_address\]\] ByName by_name\{\};\n|(?:^///.*\n)*^#define STAVE_NAMES(?:.|\n)*?^#undef STAVE_NAMES\n"
    r"|(?:^///.*\n)*^#define STAVE_(?:.*\\\n)*.*\n",
    re.M,
)


def first_comment(text):
    return [line[2:] for line in text.split("\n\n")[0].split("\n#")[0].split("\n") if line.startswith("//")]


def group_of(path):
    return "api_" + re.sub(r"\W", "_", path.removesuffix(".h"))


def header(path, text):
    """The header, whose declarations are in the group of its topic."""
    comment, lines = first_comment(text), text.split("\n")
    out = ["/// @file", f"/// [Declarations and description](@ref {group_of(path)})", ""]
    i = len(comment)
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
    text = LEFT_OUT.sub(lambda match: f"/// @cond\n{match[0]}/// @endcond\n", "\n".join(out))
    text = re.sub(
        r"^namespace stave \{$", f"namespace stave {{\n/// @addtogroup {group_of(path)}\n/// @{{\n", text, flags=re.M
    )
    return re.sub(r"^\}  // namespace stave$", "\n/// @}\n}  // namespace stave", text, flags=re.M)


def groups(operations):
    """The topics, and in each a group for every header."""
    out = []
    for number, (title, about, headers) in enumerate(topics.TOPICS):
        out += [f"/// @defgroup topic_{number} {title}", f"/// {about}", ""]
        for path, name in headers.items():
            out += [f"/// @defgroup {group_of(path)} {name}", f"/// @ingroup topic_{number}"]
            out += ["/// " + line for line in as_documentation(first_comment((ROOT / path).read_text()))]
            out += ["///", "/// @code{.cpp}", f"/// #include <stave/{path}>", "/// @endcode"]
            if links := operations.links(path):
                out += [f"/// Pages with examples, dtypes and derivatives: {links}."]
            out += [""]
    return "\n".join(out)


# ---- pages ----------------------------------------------------------------------------------------------------


def name_of(page, anchor=""):
    return re.sub(r"\W", "_", page.removesuffix(".md")) + (("__" + anchor) if anchor else "")


class Page:
    """A Markdown file as Doxygen reads it. `operations` has the header of each function
    whose name, in the first cell of a table, becomes a link to its page."""

    def __init__(self, path, headers, pages, sources, operations={}):
        self.path, self.headers, self.pages, self.sources, self.operations = path, headers, pages, sources, operations
        self.subpages = False

    def target(self, match):
        label, link = match[1], match[2]
        if re.match(r"\w+:", link):
            return match[0]
        file, _, anchor = link.partition("#")
        found = os.path.normpath(os.path.join(os.path.dirname(self.path), file)) if file else self.path
        if found == "README.md" and anchor:
            return f'<a href="index.html#{name_of(found, anchor)}">{marked(label)}</a>'
        if found in self.pages:
            begins = re.fullmatch(r"\s*(\||-|\*|\d+\.)\s*", match.string[: match.start()])
            if self.subpages and begins and not anchor and found.startswith("docs/") and found not in self.listed:
                self.listed.append(found)
                plain = label.replace("`", "").replace('"', "'")
                return f'@subpage {name_of(found)} "{plain}"'
            return f"[{label}](@ref {name_of(found, anchor)})"
        if found in self.headers:
            return f"[{label}](@ref {group_of(found)})"
        if (ROOT / found).is_file():
            self.sources.add(found)
            return f'<a href="{source_page(found)}">{marked(label)}</a>'
        return label  # a folder

    def text(self, text, title=None, subpages=False):
        """`title`: in place of the first heading; `subpages`: pages with which its rows and items begin become parts of it."""
        self.subpages, self.listed, self.sections = subpages, [], len(check_links.headings(text))
        out, fenced, names, in_comment = [], False, check_links.Names(), False
        for line in text.split("\n"):
            comment = line.lstrip().startswith("<!--")
            if line.lstrip().startswith("```"):
                fenced = not fenced
                line = line.replace("```text", "```").replace("```sh", "```")
            elif not fenced and not comment:
                line = re.sub(r"(?<!`)\[([^\]]*)\]\(([^)\s]+)\)", self.target, line)
                line = re.sub(r"^\| `([\w.]+)`", self.operation, line)
                if heading := re.match(r"(#+) (.*)", line):
                    line = self.heading(len(heading[1]), heading[2], names, title)
            if not comment:
                out.append(line)
        return "\n".join(out)

    def operation(self, match):
        header = re.search(
            r"\[(\w+/[\w/]+\.h)\]", match.string
        )  # a row that names another header is of another function
        if match[1] not in self.operations or (header and header[1] != self.operations[match[1]]):
            return match[0]
        return f"| [{match[1]}](@ref {operation_pages.page_name(match[1])})"

    def heading(self, level, text, names, title):
        anchor = names.of(text)
        if len(names) == 1:
            contents = "\n\n[TOC]" if self.path != "README.md" and self.sections > 3 else ""
            return f"# {title or text} {{#{name_of(self.path)}}}{contents}"
        if self.path == "README.md":  # no sections in the tree of the site, whose root is this page
            return f'<h{level} id="{name_of(self.path, anchor)}">{marked(text)}</h{level}>'
        return f"{'#' * level} {text} {{#{name_of(self.path, anchor)}}}"


def marked(label):
    return re.sub(r"`([^`]*)`", lambda m: f"<code>{html.escape(m[1])}</code>", label)


def source_page(path):
    return "source_" + re.sub(r"\W", "_", path) + ".html"


def subpages(paths):
    return "".join(f"- @subpage {name_of(path)}\n" for path in paths)


def main():
    target = pathlib.Path(sys.argv[1])
    headers, pages, sources = public_headers(), files(PAGES), set()
    texts = {path: (ROOT / path).read_text() for path in pages}

    def write(path, text):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text)

    for path in headers:
        write("input/stave/" + path, header(path, (ROOT / path).read_text()))

    # The table of operations and the page of each; accuracy is a table beside it.
    table = next(path for path, text in texts.items() if "| function | dtypes |" in text)
    accuracy = next((path for path, text in texts.items() if "`accuracy --markdown" in text), None)
    operations = operation_pages.Operations(
        texts[table],
        texts.get(accuracy, ""),
        texts.values(),
        as_documentation,
        {path: group_of(path) for path in headers},
        name_of(table),
    )
    write("input/topics.dox", groups(operations))
    for name in operations.order:
        write(f"input/operations/{operation_pages.page_name(name)}.md", operations.page(name))
    for family in operations.families:
        write(f"input/operations/{operation_pages.family_page(family)}.md", operations.family(family))

    # Guides, in the order of their list; then those that it leaves out.
    index = "docs/guides/README.md"
    texts.setdefault(index, "# Guides\n")
    looked_up = [path for path in pages if re.fullmatch(r"docs/[^/]*", path)]  # their tables are of functions
    for path, source in texts.items():
        page = Page(path, headers, pages, sources, operations.headers() if path in looked_up else {})
        text = page.text(source, title="Table of operations" if path == table else None, subpages=path == index)
        if path == index:
            rest = [other for other in pages if other.startswith("docs/guides/") and other not in page.listed + [index]]
            rest += [other for other in pages if other in ALSO_GUIDES]
            text += "\nAlso:\n\n" + subpages(rest) if rest else ""
        if path == "README.md":
            cards = CARDS + (JAX_CARD if "docs/guides/porting_from_jax.md" in pages else "") + CARDS_END
            text = re.sub(r"^(# .*\n)", lambda m: m[1] + cards, text, count=1, flags=re.M)
            parts = [name_of(index), "operations_of_stave", "tables", "contributing"]
            text += (
                '\n<div class="contents-of-site">\n\n'
                + "".join(f"- @subpage {part}\n" for part in parts)
                + "\n</div>\n"
            )
        write("input/" + path, text)
        if path == index:
            listed = page.listed
    write("input/operations/operations_of_stave.md", operations.index(name_of(table)))
    tables = [path for path in looked_up if path not in [table, *listed]]
    write("input/tables.md", "# Tables and background {#tables}\n\n" + subpages(tables))
    others = [path for path in pages if not path.startswith("docs/") and path not in ALSO_GUIDES + ["README.md"]]
    write("input/contributing.md", "# For contributors {#contributing}\n\n" + subpages(others))

    for path in sorted(sources):
        text = html.escape((ROOT / path).read_text())
        write("html/" + source_page(path), SOURCE.format(path=path, text=text))


# Ways into the site, after the title of its first page; settings.py knows the name of API_PAGE.
CARDS = """
@htmlonly
<div class="cards">
<a href="docs_guides_README.html"><b>Guides</b><span>tasks, one by one</span></a>
<a href="operations_of_stave.html"><b>Operations</b><span>a page for each</span></a>
<a href="API_PAGE"><b>API</b><span>declarations by topic</span></a>
"""
JAX_CARD = """<a href="docs_guides_porting_from_jax.html"><b>From JAX</b><span>names and meaning</span></a>
"""
CARDS_END = """</div>
@endhtmlonly
"""

SOURCE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/><title>{path}</title>
<link href="style.css" rel="stylesheet"/></head>
<body class="source"><p><a href="index.html">Stave</a> &middot; {path}</p><pre class="source">{text}</pre></body></html>
"""

main()
