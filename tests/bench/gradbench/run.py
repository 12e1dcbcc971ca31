#!/usr/bin/env python3
"""Speaks GradBench's protocol on standard input and output: a tool for `gradbench run`.

    gradbench run --eval '...' --tool 'python3 tests/bench/gradbench/run.py STAVE_GRADBENCH'

STAVE_GRADBENCH is the program that CMakeLists.txt of this folder builds. Each line of standard input is a message in JSON,
and each is answered by a line with its id: `start`, `define` (is there such a module?), `evaluate` and `analysis`.
"""
import json
import subprocess
import sys
import tempfile


def called(program, *arguments):
    """Returns the lines of the program's output, and None or its error."""
    process = subprocess.run([program, *arguments], text=True, capture_output=True)
    return process.stdout.splitlines(), process.stderr if process.returncode else None


def define(program, message):
    error = called(program, message["module"])[1]
    return {"success": False, "error": error} if error else {"success": True}


def evaluate(program, message):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(message["input"], file)
        file.flush()
        lines, error = called(program, message["module"], file.name, message["function"])
    if error:
        return {"success": False, "error": error}
    output, *timings = map(json.loads, lines)
    return {"success": True, "output": output, "timings": timings}


def answer(program, message):
    if message["kind"] == "start":
        return {"tool": "stave"}
    if message["kind"] == "define":
        return define(program, message)
    if message["kind"] == "evaluate":
        return evaluate(program, message)
    return {}  # analysis


def main():
    for line in sys.stdin:
        message = json.loads(line)
        print(json.dumps({"id": message["id"]} | answer(sys.argv[1], message)), flush=True)


if __name__ == "__main__":
    main()
