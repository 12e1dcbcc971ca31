#!/usr/bin/env python3
"""Holds the comments of the library's sources to the rules of language in HACKING.md.

python3 tests/sources/check_comments.py

A comment line has at most 100 columns and does not begin with "Of". Comments do not use coined names
where the field has a term.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = [
    "core", "handlers", "backends", "examples", "docs/site",
    "tests/bench", "tests/table", "tests/fuzz", "tests/install", "tests/core", "tests/handlers",
    "tests/support",
]
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S
)
COINED = {  # coined name -> term of the field
    r"\bcarried functions?\b": "higher-order operation",
    r"\bdiscreet\b": "runs no user code",
    r"\bstands? around\b": "is installed",
    r"\bcones?\b": "backward slice",
    r"\bjoint regions?\b": "fused backward",
    r"\btakes? programs whole\b": "takes closed calls",
    r"\bstands? still\b": "is suspended",
}


def findings(path):
    text = path.read_text()
    lines = text.split("\n")
    for match in TOKEN.finditer(text):
        if not match[0].startswith(("//", "/*")):
            continue
        first = text.count("\n", 0, match.start())
        for k, part in enumerate(match[0].split("\n")):
            number = first + k
            if len(lines[number]) > 100:
                yield number + 1, "a line with a comment has more than 100 columns"
            if re.match(r"\s*(//+<?|/?\*+)?\s*Of ", part):
                yield number + 1, 'a comment line begins with "Of": name the thing first'
            for word, term in COINED.items():
                if found := re.search(word, part):
                    yield number + 1, f'"{found[0]}": the term is "{term}"'


def main():
    wrong = 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".c", ".cu", ".cuh"):
                for line, what in findings(path):
                    print(f"{path.relative_to(ROOT)}:{line}: {what}")
                    wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
