#!/usr/bin/env python3
"""Completes the Doxyfile, layout.xml and header.html in the current folder: settings.py FOLDER_OF_DOXYGEN_AWESOME_CSS

doxygen itself wrote the two latter, so that they fit its version. Without that folder the site has doxygen's own looks.
"""

import pathlib
import re
import subprocess
import sys


def layout(text):
    """What the tree and the menu show: the pages, the topics, the classes, and the headers."""
    for tab, title in {
        "namespaces": None,
        "concepts": None,
        "examples": None,
        "pages": "Pages",
        "modules": "API by topic",
        "topics": "API by topic",
    }.items():
        text = re.sub(
            rf'<tab type="{tab}" visible="yes" title=""',
            f'<tab type="{tab}" visible="{"yes" if title else "no"}" title="{title or ""}"',
            text,
        )
    for tab in ("namespacemembers", "classindex", "hierarchy", "classmembers", "globals"):
        text = re.sub(rf'<tab type="{tab}" visible="[^"]*"', f'<tab type="{tab}" visible="no"', text)
    for tab, only in {"classes": "classlist", "files": "filelist"}.items():  # lists without a heading over them
        title = "Classes" if tab == "classes" else "Headers"
        text = re.sub(
            rf'<tab type="{tab}".*?</tab>',
            f'<tab type="{only}" visible="yes" title="{title}" intro=""/>',
            text,
            flags=re.S,
        )
    # What a file, a topic or a class says of itself comes before its declarations.
    for part in ("file", "group", "class"):
        begin, end = text.index(f"<{part}>"), text.index(f"</{part}>")
        inner = re.sub(r".*<detaileddescription.*\n", "", text[begin:end])
        inner = re.sub(r"<briefdescription[^>]*/>", '<detaileddescription title=""/>', inner)
        inner = re.sub(r'<nestedgroups visible="yes" title=""', '<nestedgroups visible="yes" title="Parts"', inner)
        text = text[:begin] + inner + text[end:]
    return text


def main():
    awesome = pathlib.Path(sys.argv[1])
    styles, scripts = ["style.css"], []
    if (awesome / "doxygen-awesome.css").exists():
        styles = [
            str(awesome / name)
            for name in (
                "doxygen-awesome.css",
                "doxygen-awesome-sidebar-only.css",
                "doxygen-awesome-sidebar-only-darkmode-toggle.css",
            )
        ] + ["awesome.css", "style.css"]
        scripts = [
            str(awesome / f"doxygen-awesome-{name}.js")
            for name in ("darkmode-toggle", "fragment-copy-button", "paragraph-link", "interactive-toc")
        ]

    known = subprocess.run(["doxygen", "-s", "-g", "-"], capture_output=True, text=True, check=True).stdout
    settings = {
        "HTML_EXTRA_STYLESHEET": " ".join(styles),
        "HTML_EXTRA_FILES": " ".join(scripts),
        "HTML_COLORSTYLE": "LIGHT",
    }
    with open("Doxyfile", "a") as doxyfile:
        doxyfile.writelines(
            f"{key} = {value}\n" for key, value in settings.items() if re.search(rf"^{key}\b", known, re.M)
        )

    path, page = pathlib.Path("layout.xml"), pathlib.Path("input/README.md")
    page.write_text(
        page.read_text().replace("API_PAGE", "topics.html" if '"topics"' in path.read_text() else "modules.html")
    )
    path.write_text(layout(path.read_text()))

    head = [f'<script src="$relpath^{pathlib.Path(script).name}"></script>' for script in scripts]
    if scripts:
        head += [
            "<script>",
            "DoxygenAwesomeDarkModeToggle.init();",
            "DoxygenAwesomeFragmentCopyButton.init();",
            "DoxygenAwesomeParagraphLink.init();",
            "DoxygenAwesomeInteractiveToc.init();",
            "</script>",
        ]
    path = pathlib.Path("header.html")
    text = re.sub(r'<html xmlns="[^"]*"', '<html lang="en" xmlns="http://www.w3.org/1999/xhtml"', path.read_text())
    if "viewport" not in text:
        head.insert(0, '<meta name="viewport" content="width=device-width, initial-scale=1"/>')
    path.write_text(text.replace("</head>", "\n".join(head) + "\n</head>"))


main()
