#!/usr/bin/env python3
"""Leaves out what doxygen writes too much: finish.py FOLDER

Links "More..." go, for the name before each leads to the same place; so does the heading of what a topic, a file or a class says
of itself.
"""

import pathlib
import re
import sys

for path in pathlib.Path(sys.argv[1]).glob("*.html"):
    text = path.read_text(errors="replace")
    mended = re.sub(r' *<a href="[^"]*#[^"]*">More\.\.\.</a>', "", text)
    if path.name.startswith(("group__", "class", "struct")) or path.name.endswith("_8h.html"):
        mended = re.sub(r'<h2 class="groupheader">Detailed Description</h2>', "", mended)
    if mended != text:
        path.write_text(mended)

# The list of what the search has found is a page of its own in some versions.
search = pathlib.Path(sys.argv[1]) / "search" / "search.css"
with search.open("a") as style:
    style.write("\na.SRSymbol, a.SRScope, a.SRSymbol:focus { font-size: 10.5pt; }\n.SRResult { padding: 2px 0; }\n")
