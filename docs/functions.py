#!/usr/bin/env python3
"""Lists all public functions: functions.py [--check]

Writes docs/functions.md: one line for each function that the public headers declare in namespace stave, with the first sentence
of its comment, or with what OWN says of it. A function of which neither says anything is an error. --check fails if the file is
not what would be written.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/functions.md"
TEXT = """# All functions

Every function that `#include <stave/stave.h>` declares, in alphabetical order, with the first sentence of its comment. The header
has the rest: shapes, dtypes, errors. Operators on tensors (`+`, `<`, `&` ...) are functions of
[elementwise.h](../core/ops/elementwise.h). Functions of headers that must be included by name, such as
`stave/handlers/ranks/ranks.h`, are here too. [Which dtypes, derivatives and
backends](operations.md) each operation has is a table of its own. Written by `python3 docs/functions.py`.

| function | | header |
|---|---|---|
"""
# Headers that stave.h does not include.
ALONE = [
    "core/io/gguf.h", "core/program/write_stablehlo.h", "handlers/numerics/least_squares.h", "handlers/observe/cost.h", "handlers/observe/eval_shape.h",
    "handlers/observe/key_reuse.h", "handlers/observe/run_record.h", "handlers/onnx/onnx.h", "handlers/onnx/write_onnx.h", "handlers/ranks/ranks.h", "handlers/structure/sparse_jacobian.h",
    "handlers/structure/sparsity.h", "handlers/taylor/jet.h", "handlers/taylor/jet_flat.h", "handlers/taylor/laplacian.h",
]
# Functions whose header says nothing, because the name does, or whose comment leans on the one before it. Not those of C's <cmath>,
# nor comparisons, which follow.
OWN = {
    "acos": "the inverse of cos, in [0, pi], for -1 <= x <= 1; the derivative at the ends is infinite",
    "acosh": "the inverse of cosh, for x >= 1; the derivative at 1 is infinite",
    "adam": "the optimizer Adam (Kingma and Ba 2015), of trees of parameters",
    "adamw": "Adam with decoupled decay: x - rate (m / (sqrt(v) + epsilon) + weight_decay x)",
    "adaptive_max_pool": "the largest elements of parts into which x is divided",
    "all": "true where all elements are, over all axes or those given",
    "any": "true where an element is, over all axes or those given",
    "argmin": "the position of the least element along an axis; the first of equal ones",
    "asin": "the inverse of sin, in [-pi/2, pi/2], for -1 <= x <= 1; the derivative at the ends is infinite",
    "atan": "the inverse of tan, in [-pi/2, pi/2]",
    "atanh": "the inverse of tanh, for -1 <= x <= 1; infinite at the ends",
    "batch_norm": "batch normalisation in training: the result, and the next running statistics",
    "batch_norm_inference": "batch normalisation by the given statistics, for use after training",
    "binary_cross_entropy_with_logits": "binary_cross_entropy of p = sigmoid(logits), accurate at any size of the logits",
    "bitwise_and": "the bits of integers that both have; logical_and of bools",
    "bitwise_invert": "all bits of integers inverted; logical_not of bools",
    "bitwise_or": "the bits of integers that one has; logical_or of bools",
    "bitwise_xor": "the bits of integers that differ; logical_xor of bools",
    "block_sites": "f, whose sites of these names, or all sites, are hidden from handlers outside",
    "bytes_kept_by": "the bytes of memory that keeping a value keeps",
    "check_grads_flat": "check_grads of a function of a list of tensors",
    "condition": "f, whose sites of these names count as observed with these values",
    "copy_storage": "copies bytes from one device to another",
    "cummin": "the least element up to each one, along an axis",
    "cumulative_prod": "products of the elements up to each one, itself included",
    "current_handlers": "the handlers around this point of the program, from inside out: \"vmap\", \"backward of grad\", \"grad\"",
    "default_dtype": "the dtype of floats that name none: float32, unless a DefaultDtype is installed",
    "destroy": "frees a node or storage whose last handle is gone; called by handles",
    "diag": "the matrix with this vector on a diagonal and zeros elsewhere; the diagonal of matrices",
    "divide": "a / b; integers become default_dtype()",
    "effect_type": "the type of an effect at run time",
    "eigvalsh": "the eigenvalues of symmetric matrices, ascending",
    "ess_tail": "effective sample size of the quantiles 0.05 and 0.95, the smaller of both",
    "fmin": "the smaller of two numbers; the other one if one of them is NaN",
    "from_bytes": "a tensor of host data of a dtype that is known when the program runs, copied, row-major",
    "full_like": "a tensor of one number, with the shape, dtype and device of another tensor",
    "glorot_uniform": "an initializer: uniform, with variance 2 / (fan_in + fan_out)",
    "group_norm": "normalisation over groups of channels of x [examples, channels, ...]",
    "gumbel": "draws of the standard Gumbel distribution, whose density is exp(-x - exp(-x))",
    "he_normal": "an initializer: normal, with variance 2 / fan_in",
    "hmc": "draws from a density by Hamiltonian Monte Carlo, with trajectories of a given length",
    "item": "the value of a tensor of one element, as a C++ number",
    "jacrev": "the Jacobian by reverse mode: a row for each output",
    "jacrev_flat": "jacrev of a function of a list of tensors",
    "lecun_normal": "an initializer: normal, with variance 1 / fan_in",
    "logical_and": "true where both are",
    "logical_not": "true where x is not",
    "logical_or": "true where one is",
    "logical_xor": "true where exactly one is",
    "masked_max": "the largest of the elements where a mask is true",
    "masked_mean": "the mean of the elements where a mask is true",
    "masked_min": "the smallest of the elements where a mask is true",
    "masked_prod": "the product of the elements where a mask is true",
    "masked_std": "the standard deviation of the elements where a mask is true",
    "max": "the greatest element, over all axes or those given; NaN wins, ties share the derivative equally",
    "max_pool": "the greatest element of each window; the derivative goes to the first of equal ones",
    "maximum": "the greater of a and b; NaN wins, and the derivative is shared where they are equal",
    "mean": "the mean, over all axes or those given",
    "memory_stats": "the bytes that tensors on a device occupy, and what was the most",
    "min": "the least element, over all axes or those given; NaN wins, ties share the derivative equally",
    "minimum": "the smaller of a and b; NaN wins, and the derivative is shared where they are equal",
    "momentum": "gradient descent with momentum",
    "nanmax": "the largest of the elements that are not NaN",
    "nanmean": "the mean of the elements that are not NaN",
    "nanmedian": "the median of the elements that are not NaN",
    "nanmin": "the smallest of the elements that are not NaN",
    "nanpercentile": "the percentile of the elements that are not NaN",
    "nanprod": "the product of the elements that are not NaN",
    "nanstd": "the standard deviation of the elements that are not NaN",
    "nanvar": "the variance of the elements that are not NaN",
    "next_installation_id": "a new name for an installation of a handler, never used twice",
    "ones": "a tensor of ones",
    "ones_like": "ones, with the shape, dtype and device of another tensor",
    "optimized": "a program made cheaper by all passes that keep its results bit for bit",
    "prod": "the product, over all axes or those given; derivatives are exact where factors are 0",
    "progress": "says that i of n steps are done",
    "rad2deg": "radians as degrees",
    "read_storage": "copies bytes from a device to the host, when they are computed",
    "rhat": "the R-hat of draws [chains, draws, ...], at least 4 of each chain",
    "round": "the nearest integer, halves to even",
    "safetensors_metadata": "the metadata of a .safetensors file",
    "scatter_add": "x with updates added at indices; all to one place in a fixed order",
    "scatter_max": "x with the greatest of what is there and all updates at indices; NaN if one is",
    "scatter_min": "x with the least of what is there and all updates at indices; NaN if one is",
    "scatter_multiply": "x multiplied by updates at indices",
    "segment_max": "the greatest of the entries of each segment; of none the least of the dtype",
    "segment_min": "the least of the entries of each segment; of none the greatest of the dtype",
    "segment_prod": "the product of the entries of each segment; of none 1",
    "sgd": "gradient descent: x - rate g",
    "sin": "the sine of x radians",
    "sqrt": "the square root; the derivative at 0 is infinite",
    "squeeze": "x without the given axes of length 1, or without all of them",
    "std": "the standard deviation, sqrt(var(x)); write stave::std",
    "sum": "the sum, over all axes or those given",
    "svdvals": "the singular values of matrices, descending",
    "to_dlpack_unversioned": "a tensor as DLPack's structure of before version 1.0",
    "triu": "the upper triangle of the last two axes: elements with column - row >= k, zeros elsewhere",
    "trunc": "the nearest integer towards 0",
    "unconstrained_log_density": "log_density as a function of values in R^n, one for each latent site, mapped to its support",
    "unique_counts": "the distinct elements in ascending order, and how often each occurs",
    "unique_inverse": "the distinct elements in ascending order, and for each element its position among them",
    "value_and_grad": "the value and the gradient: {value, grad}, or {value, grad, aux}",
    "var": "the variance, divided by n - correction: 0 for the population's, 1 for the unbiased estimate",
    "with_calls_inlined": "a program whose called functions (checkpoint, custom rules) are performed in place",
    "with_constants_folded": "a program in which what depends on constants alone is a constant, up to 64 KiB",
    "with_loops_narrowed": "a program whose loops compute only results and states that are used",
    "with_regions": "a program in which consecutive elementwise operations are fused into regions",
    "with_work_hoisted_from_loops": "a program that computes in front of its loops what is the same in every step, and expensive functions of rows",
    "without_dead_code": "a program without the operations whose results are unused",
    "without_repetitions": "a program that computes nothing twice",
    "write_storage": "copies bytes from the host to a device",
    "zeros": "a tensor of zeros",
    "zeros_like": "zeros, with the shape, dtype and device of another tensor",
}
OWN |= {name: f"{text}, elementwise" for name, text in {
    "add": "a + b", "subtract": "a - b", "multiply": "a b",
    "equal": "a == b", "not_equal": "a != b", "less": "a < b", "less_equal": "a <= b", "greater": "a > b", "greater_equal": "a >= b",
    "exp": "e^x", "log": "the natural logarithm", "log2": "the logarithm to base 2", "log10": "the logarithm to base 10",
    "cos": "the cosine of x radians", "tan": "the tangent of x radians", "cosh": "the hyperbolic cosine",
    "sinh": "the hyperbolic sine", "tanh": "the hyperbolic tangent", "asinh": "the inverse of sinh", "erf": "the error function",
    "ceil": "the least integer not below x", "floor": "the greatest integer not above x", "isnan": "true where x is a NaN",
    "isinf": "true where x is infinite", "isfinite": "true where x is neither infinite nor a NaN",
}.items()}
NO_FUNCTION = re.compile(r"(struct|class|enum|union|using|typedef|friend|namespace|static_assert|extern template|concept)\b")
WORDS = {"requires", "noexcept", "decltype", "alignas", "operator", "sizeof", "if", "return"}


def headers():
    """Those that core.h and stave.h include, in alphabetical order; their paths in the tree."""
    found = set(re.findall(r"#include <stave/(.*\.h)>", (ROOT / "core.h").read_text() + (ROOT / "stave.h").read_text())) - {"core.h"} | set(ALONE)
    while True:
        more = {inner for path in found for inner in re.findall(r"#include <stave/(core/io/.*\.h)>", (ROOT / path).read_text())}
        if more <= found:
            return sorted(found)
        found |= more


def without_literals(line):
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', lambda m: " " * len(m[0]), line)


def without_template(text):
    """The declaration without `template <...>` and `requires` in front."""
    while text.startswith("template"):
        depth, i = 0, text.index("<")
        while True:
            depth += {"<": 1, ">": -1}.get(text[i], 0) if text[i - 1 : i + 1] != "->" else 0
            i += 1
            if depth == 0:
                break
        text = text[i:].lstrip()
        if text.startswith("requires"):
            text = re.sub(r"^requires\s*(\((?:[^()]|\([^()]*\))*\)|[\w:]+(<[^>]*>)?)\s*", "", text)
    return text


def name_of(declaration):
    """The function's name; None: it declares no function that a program calls by name."""
    text = without_template(" ".join(declaration.split()))
    if NO_FUNCTION.match(text) or "operator" in text or "= delete" in declaration or "(" not in text:
        return None
    before = re.sub(r"\bdecltype\s*\([^()]*(\([^()]*\)[^()]*)*\)", "auto", re.sub(r"\[\[.*?\]\]", "", text))
    before = before[: before.index("(")] if "(" in before else before
    if re.search(r"::\w+\s*$", before):  # a member, defined outside of its class
        return None
    found = re.search(r"(\w+)\s*$", before)
    if not found or "=" in before or found[1] in WORDS or found[1].isupper() or before.strip() == found[1]:
        return None
    return found[1]


def declarations(text):
    """(comment, declaration) of all that stands directly in namespace stave."""
    spaces, depth, comment, statement, trailing = [], 0, [], "", ""
    lines = iter(text.split("\n"))
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("#"):
            while line.endswith("\\"):
                line = next(lines)
            comment = []
            continue
        if stripped.startswith("///") and not statement.strip():
            comment.append(stripped[3:].strip())
            continue
        # Declared by a macro: STAVE_REDUCTION(sum)  ///< ...
        if spaces == ["stave"] and (made := re.match(r"STAVE_[A-Z]+\((\w+)\)(?:\s*///<(.*))?$", line)) and not statement.strip():
            if not made[1][0].isupper():
                yield (made[2] or " ".join(comment)).strip(), f"Tensor {made[1]}();"
            comment = []
            continue
        code, _, rest = line.partition("///<")
        trailing = rest.strip() or trailing
        code = without_literals(code.split("//")[0])
        if not code.strip():
            if not statement.strip():
                comment = []
            continue
        for char in code + "\n":
            if char == "{" and not depth and (opened := re.match(r"\s*(?:inline )?namespace\s*([\w:]*)\s*$", statement)):
                spaces.append(opened[1])
                statement = ""
            elif char == "{" and statement.count("(") == statement.count(")"):
                depth += 1
                if depth == 1 and spaces == ["stave"] and statement.strip():
                    yield (trailing or " ".join(comment)), statement
                    comment, trailing = [], ""
            elif char == "}" and depth and statement.count("(") == statement.count(")"):
                depth -= 1
                statement = ""
            elif char == "}" and spaces and not depth and not statement.strip():
                spaces.pop()
            elif char == ";" and not depth:
                # A comment behind the declaration stands on the rest of this line.
                if spaces == ["stave"] and statement.strip():
                    yield (trailing or " ".join(comment)), statement
                comment, trailing, statement = [], "", ""
            elif not depth:
                statement += char


def first_sentence(text):
    text = " ".join(text.split())
    found = re.match(r"(.*?[^.])(?:\.|:)(?= +[A-Z`(]|$)", text)
    sentence = (found[1] if found else text).rstrip(".;: ")
    if len(sentence) > 150:
        sentence = re.split(r"; |: ", sentence)[0]
    return sentence.replace("|", "\\|").replace("<", "&lt;")


def page():
    functions = {}
    for path in headers():
        for comment, declaration in declarations((ROOT / path).read_text()):
            name = name_of(declaration)
            if not name:
                continue
            known = functions.setdefault((name, path), "")
            functions[name, path] = known or first_sentence(OWN.get(name, comment))
    unsaid = [name for (name, _), text in functions.items() if not text]
    if unsaid:
        sys.exit(f"no comment says what these functions do: {', '.join(unsaid)}. Write one in the header")
    rows = [f"| `{name}` | {text} | [{path}](../{path}) |\n" for (name, path), text in
            sorted(functions.items(), key=lambda item: (item[0][0].lower(), item[0]))]
    return TEXT + "".join(rows)


def main():
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() == page():
            return
        sys.exit("docs/functions.md is not what the headers say: python3 docs/functions.py writes it")
    if sys.argv[1:]:
        sys.exit(__doc__)
    PAGE.write_text(page())


main()
