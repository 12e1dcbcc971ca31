#!/usr/bin/env python3
"""Holds a conversation of GradBench's protocol with run.py: python3 protocol_test.py STAVE_GRADBENCH"""
import json
import pathlib
import subprocess
import sys

TOOL = [sys.executable, str(pathlib.Path(__file__).with_name("run.py")), sys.argv[1]]
MATRIX = {"A": [2.0, 1.0, 1.0, 3.0], "ell": 2, "min_runs": 3, "min_seconds": 0.001}
MESSAGES = [
    {"kind": "start"},
    {"kind": "define", "module": "hello"},
    {"kind": "evaluate", "module": "hello", "function": "square", "input": 3.0},
    {"kind": "analysis", "of": 2, "valid": True},
    {"kind": "evaluate", "module": "hello", "function": "double", "input": 9.0},
    {"kind": "define", "module": "knitting"},
    {"kind": "define", "module": "det"},
    {"kind": "evaluate", "module": "det", "function": "primal", "input": MATRIX},
    {"kind": "evaluate", "module": "det", "function": "gradient", "input": MATRIX},
    {"kind": "evaluate", "module": "det", "function": "hessian", "input": MATRIX},
]


def check(found, expected):
    if found != expected:
        sys.exit(f"found {found}, expected {expected}")


lines = "".join(json.dumps(message | {"id": i}) + "\n" for i, message in enumerate(MESSAGES))
output = subprocess.run(TOOL, input=lines, text=True, capture_output=True, check=True).stdout
answers = [json.loads(line) for line in output.splitlines()]
check([it["id"] for it in answers], list(range(len(MESSAGES))))
check(answers[0]["tool"], "stave")
check([it.get("success") for it in answers[1:]], [True, True, None, True, False, True, True, True, False])
check([it["output"] for it in answers if "output" in it], [9.0, 18.0, 5.0, [3.0, -1.0, -1.0, 2.0]])
check("no module knitting" in answers[5]["error"] and "no function hessian" in answers[9]["error"], True)
names = [it["name"] for it in answers[8]["timings"]]
check(names, ["prepare"] + ["evaluate"] * (len(names) - 1))
runs = [it["nanoseconds"] for it in answers[8]["timings"][1:]]
check(len(runs) >= 3 and sum(runs) >= 1_000_000 and all(type(it) is int and it > 0 for it in runs), True)
