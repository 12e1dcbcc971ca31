"""Prints the bars of several runs side by side, as a table for docs/bars.md:

python3 tests/bench/bars_table.py AVX-512=all.txt AVX2=avx2.txt

Each file holds the output of tests/bench/run.sh. Of a bar that occurs several times in a file, the
last measurement counts, so that bars that were measured again can be appended.
"""

import sys


def bars_of(path):
    """Returns a dictionary from a bar's name to what was measured and its limit, as printed, and
    whether it holds."""
    bars, ratios = {}, {}
    for line in open(path):
        words = line.split()
        if line.startswith("ratio "):
            ratios[words[1]] = words[2], words[-1]
        elif line.startswith("bar ") and words[4] in ("holds", "short", "unsure"):
            bars[words[1]] = (*ratios.get(words[1], words[2:4]), words[4])
    return bars


def cell(bar):
    if not bar:
        return "", ""
    measured, limit, verdict = bar
    return measured if verdict == "holds" else f"**{measured}**", limit


runs = [argument.split("=", 1) for argument in sys.argv[1:]]
columns = [(name, bars_of(path)) for name, path in runs]
print("| bar | " + " | ".join(f"{name} | limit" for name, _ in columns) + " |")
print("|---|" + "---|---|" * len(columns))
for bar in dict.fromkeys(name for _, bars in columns for name in bars):
    print(f"| `{bar}` | " + " | ".join(" | ".join(cell(bars.get(bar))) for _, bars in columns) + " |")
