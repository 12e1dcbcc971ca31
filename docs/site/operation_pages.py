"""The pages of operations: one for each function in the table that operation_table writes, and one for each family.

A page has the function's declarations and their comments, from the headers; an example, from operation_examples.txt; dtypes,
derivatives, vmap and backends, from the table of operations; derivatives, from the rules of elementwise operations; accuracy, from
the table of accuracy; and the names in JAX and PyTorch, from the tables of the guides. What none of these says is in
operation_texts.py. An operation without a description or an example is an error.
"""

import html
import pathlib
import re

from operation_texts import DESCRIBED_WITH, EXAMPLE_OF, FAMILY_TITLES, FORMULAS, OTHERS_IN_JAX, SAME_IN_JAX

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = "docs/site/operation_examples.txt"
HEADERS = [
    "core/ops/*.h",
    "handlers/transforms/custom.h",
    "handlers/transforms/checkpoint.h",
    "handlers/transforms/linearize.h",
    "handlers/compile/elementwise_op.h",
]

# Comments that begin so go on from the function before.
GOES_ON = re.compile(r"(The same|Those|What stands there|Multiplied|The least, or the greatest|In use)\b")


def cells(line):
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def tables(text):
    """The tables of a Markdown page: (heading above it, names of columns, rows)."""
    heading, rows = "", []
    for line in text.split("\n") + [""]:
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("|"):
            rows.append(cells(line))
        elif rows:
            yield heading, rows[0], rows[2:]
            rows = []


def spans(cell):
    return re.findall(r"`([^`]+)`", cell)


# ---- headers --------------------------------------------------------------------------------------------------------


class Declaration:
    def __init__(self, header, name, text, comment):
        self.header, self.name, self.text, self.comment = header, name, text, comment


def expanded(text):
    """The header with its macros that declare functions of a given name written out."""
    for macro, body in re.findall(r"^#define (STAVE_\w+)\(name\)((?:.*\\\n)+.*\n)", text, re.M):
        body = "\n".join(line.rstrip("\\ ").strip() for line in body.split("\n") if line.rstrip("\\ ").strip())

        def written_out(match):
            lines = re.sub(r"\s*\(?\bname\b\)?(?=\()", " " + match[1], body)
            return (f"/// {match[2]}\n" if match[2] else "") + lines

        text = re.sub(rf"^{macro}\((\w+)\)(?: *///< (.*))?$", written_out, text, flags=re.M)
    return re.sub(r"^#define (?:.*\\\n)*.*\n", "", text, flags=re.M)


FUNCTION = re.compile(r"(operator *[^\s\w(]+|\b\w+)\)?\((?!\*)")
NO_NAMES = re.compile(r"\b(decltype|requires|explicit|noexcept) ?\([^()]*\)")  # these have parentheses, too


def signature(text):
    """A function without its body."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "{" and depth == 0:
            return text[:i].rstrip() + ";"
    return text


def declarations(header):
    """The functions that a header declares in namespace stave, and the members of At."""
    text = (ROOT / header).read_text()
    text = re.sub(r"^namespace stave_detail \{\n.*?^\}  // namespace stave_detail\n", "", text, flags=re.M | re.S)
    begin = text.find("\nnamespace stave {")
    lines = expanded(text[begin + 1 :]).split("\n")[1:] if begin >= 0 else []
    comment, chunk, inside, depth = [], [], None, 0
    for line in lines:
        if inside:  # the body of a class or function, up to its end at the left margin
            if inside == "At" and (
                member := re.match(r"  Tensor\s*\(?(get|set|add|multiply|min|max)\)?\((.*)\) const;", line)
            ):
                name = "x.at" if member[1] == "get" else "x.at." + member[1]
                yield Declaration(header, name, f"Tensor At::{member[1]}({member[2]}) const;", comment)
            if line.startswith("  ///"):
                comment = comment + [line.strip()[3:]]
            elif not line.strip():
                comment = []
            if line.startswith("}"):
                inside, comment = None, []
            continue
        if not chunk and line.startswith("///"):
            comment.append(line[3:])
            continue
        if not chunk and (not line.strip() or line.startswith(("#", "//", "}"))):
            comment = []
            continue
        code, _, behind = line.partition("///<")
        code = re.sub(r"\s*//[^/].*$", "", code).rstrip()
        chunk.append(code)
        depth += code.count("(") - code.count(")")
        if depth > 0 or not re.search(r"[;{}]$", code):
            continue
        whole = "\n".join(chunk)
        kind = re.match(r"(?:template <.*>\n(?:  requires.*\n)?)?(?:class|struct|enum class|enum) (\w+)", whole)
        if kind:
            if code.endswith("{"):
                inside = kind[1]
        elif named := FUNCTION.search(NO_NAMES.sub("", re.sub(r"<[^<>]*>", "", whole))):
            if "= delete" not in whole:
                yield Declaration(header, named[1], signature(whole), comment + ([behind] if behind else []))
            if code.endswith("{"):
                inside = "function"
        if not inside:
            comment = []
        chunk, depth = [], 0


def options(header, signature):
    """The structs of options that a signature names, as its header defines them."""
    text = (ROOT / header).read_text()
    for name in re.findall(r"\b(\w+Options)\b", signature):
        if found := re.search(rf"^struct {name} \{{\n.*?^\}};", text, re.M | re.S):
            yield re.sub(r".*ByName by_name.*\n", "", found[0])


# ---- derivatives -----------------------------------------------------------------------------------------------------


def formula(comment, body):
    """A partial derivative: the comment before its rule, if that is a formula, or what the rule returns, if that reads as one."""
    text = re.split(r"[;,.](?:\s|$)", comment)[0]
    if text and not re.search(r"\b[a-z]{4,} [a-z]{2,}\b|\bat\b|[Nn]aN", text):
        return text
    returned = re.fullmatch(r"return (.*);", body)
    if not returned:
        return ""
    text = re.sub(r"^(-?)scale_by_inverse\(factor, (\w+)\)$", r"\g<1>1 / \2", returned[1])
    text = re.sub(r"^(-?)scale_by_inverse\(factor, (\w+ [-+] \w+)\)$", r"\g<1>1 / (\2)", text)
    text = re.sub(r"^(\d) \* scale\(factor, (\w+)\)$", r"\1 \2", text)
    internal = r"factor|\d\.\d{5}|\bscale|share|part\(|one_minus_square|with_derivative|astype|\bd[a-z]\b"
    return "" if re.search(internal, text) else text


def partials():
    """For each elementwise operation, by the name of an operand, the derivative by it."""
    text = (ROOT / "core/ops/elementwise_ops.h").read_text()
    names = {
        struct: name for name, struct in re.findall(r"X\((\w+), (\w+)\)", (ROOT / "core/op/all_ops.h").read_text())
    }
    out = {}
    for struct, body in re.findall(r"^struct (\w+) : .*\{\n((?:.*\n)*?)\};", text, re.M):
        operands = re.search(r"STAVE_VALUE\(([^)]*)\)", body)
        if struct not in names or not operands:
            continue
        operands = re.findall(r"T (\w+)", operands[1])
        for comment, kind, index, parameters, rule in re.findall(
            r"((?:  //.*\n)*)  STAVE_PARTIAL\((partial|times)(\d), ([^)]*)\) \{\s*(.*?)\s*\}", body
        ):
            named = re.findall(r"X&(?: (\w+))?(?:,|$)", parameters)
            text = formula(" ".join(line.strip("/ ") for line in comment.strip().split("\n")), rule)
            if text:
                text = re.sub(r"\bs\(", "sigmoid(", text)
                if len(operands) == 1:  # x in every header
                    text, operands = re.sub(rf"\b{operands[0]}\b", "x", text), ["x"]
                result = named[-1] if named[-1] and re.search(rf"\b{named[-1]}\b", text) else ""
                if not result and "y" not in operands and re.search(r"\by\b", text):
                    result = "y"
                where = f", where {result} is the result" if result else ""
                out.setdefault(names[struct], []).append(f"by {operands[int(index)]}: `{text}`{where}")
    return out


# ---- names elsewhere ------------------------------------------------------------------------------------------------


def elsewhere(name, pages, library):
    """What `name` is called in a library, by the tables of the guides whose columns are that library and Stave."""
    found, others = [], []
    call = re.compile(rf"(?:const )?(?:auto .*= )?{re.escape(name)}(?:<[^<>]*>)?(?:\(.*\)|)")
    for page in pages:
        for _, head, rows in tables(page):
            if [column.lower() for column in head] != [library.lower(), "stave"]:
                continue
            for theirs, ours in rows:
                at = [i for i, span in enumerate(spans(ours)) if call.fullmatch(span)]
                if not at:
                    continue
                full = with_prefixes(theirs)
                if len(full) == len(spans(ours)):
                    found += [full[i] for i in at]
                elif same := [span for span in full if re.search(rf"\b{re.escape(name)}(?!\w)", span)]:
                    found += same
                elif len(full) == 1 and at[0] == 0:
                    others += full
    if library == "JAX" and not found:
        found = [f"{module}.{name}" for module, names in SAME_IN_JAX.items() if name in names.split()]
        found += [OTHERS_IN_JAX[name]] if name in OTHERS_IN_JAX else []
    return list(dict.fromkeys(span for span in found or others if not span.startswith(".")))


def with_prefixes(cell):
    """The names in a cell; those that follow a name with its module are of that module: `jnp.linalg.det(a)`, `slogdet`."""
    library = re.match(r"(\w+'s) `", cell)
    prefix, out = library[1] + " " if library else "", []
    for span in spans(cell):
        if dotted := re.match(r"((?:jax|jnp|torch|optax|F)\b[\w.]*\.)\w", span):
            prefix = dotted[1]
        out.append(prefix + span if not dotted and re.match(r"\w+(?![\w.])", span) else span)
    return out


# ---- pages ----------------------------------------------------------------------------------------------------------


def examples():
    found = {}
    for block in (ROOT / EXAMPLES).read_text().split("\n## "):
        head, _, rest = block.removeprefix("## ").partition("\n")
        code, _, output = rest.partition("\n->\n")
        found[head] = ("\n".join(map(broken, code.split("\n"))), output.rstrip("\n"))
    return found


def broken(line):
    """A long line of code, with each argument of its outermost call in a line of its own."""
    if len(line) <= 96:
        return line
    out, depth = "", 0
    for i, c in enumerate(line):
        depth += (c in "([{") - (c in ")]}")
        out += c
        if c == "," and depth == 1:
            out += "\n   "
    return out


def page_name(function):
    return "op_" + re.sub(r"\W", "_", function)


class Operations:
    """The functions of the table, with all that is known of each. `documentation` makes Doxygen's text of lines of a comment."""

    def __init__(self, table, accuracy, pages, documentation, group_of, table_page):
        self.pages, self.documentation, self.group_of, self.table_page = pages, documentation, group_of, table_page
        self.examples, self.accuracy = examples(), {}
        for _, head, rows in tables(accuracy):
            for row in rows:
                for name in spans(row[0]):
                    self.accuracy[name] = "; ".join(f"{dtype}: {ulp}" for dtype, ulp in zip(head[1:], row[1:]) if ulp)
        self.partials = partials()
        self.listed = {}  # by name and header: the list of all functions, if there is one
        for page in pages:
            for _, head, rows in tables(page):
                if head == ["function", "", "header"]:
                    for function, text, header in rows:
                        named, where = spans(function), re.match(r"\[([^]]*)\]", header)
                        if named and where:
                            self.listed.setdefault((named[0], where[1]), html.unescape(text))
        self.declared = {}
        for pattern in HEADERS:
            for path in sorted(ROOT.glob(pattern)):
                for declaration in declarations(path.relative_to(ROOT).as_posix()):
                    self.declared.setdefault(declaration.name, []).append(declaration)
        self.families, missing = {}, []
        for family, head, rows in tables(table):
            if head[:1] != ["function"]:
                continue
            for row in rows:
                names = spans(row[0])
                if not any(name in self.declared for name in names) and names != ["index"]:
                    continue  # a rule's own operation, which no header declares
                facts = dict(zip(head[1:], row[1:]))
                self.families.setdefault(family, {})[names[0]] = (names, facts)
        # Functions that the table leaves out, with the reason.
        for name in re.findall(r"`(\w+)` \(", (re.search(r"^Not in this table: (.*)", table, re.M) or [""])[0]):
            self.families.setdefault("search", {})[name] = ([name], {})
        self.order = [name for family in self.families.values() for name in family]
        for name in self.order:
            if not self.comments(name):
                missing.append(
                    f"operation {name}: its header has no comment for it, and FORMULAS of operation_texts.py no line"
                )
            if EXAMPLE_OF.get(name, name) not in self.examples:
                missing.append(f"operation {name}: docs/site/operation_examples.cpp has no example of it")
        if missing:
            raise SystemExit("\n".join(missing))

    def declarations(self, names):
        """Those of the header that has the most, so that a function of another family with the same name is left out."""
        found = [d for name in names for d in self.declared.get(name, [])]
        first = next((d.header for d in found if d.header.startswith("core/ops/")), found[0].header if found else "")
        return [d for d in found if d.header == first]

    def headers(self):
        """The header of each function."""
        return {name: found[0].header if (found := self.declarations([name])) else "" for name in self.order}

    def comments(self, name):
        out = []
        for declaration in self.declarations([name]):
            if declaration.comment and declaration.comment not in out:
                out.append(declaration.comment)
        own = self.own_words(name, " ".join(line.strip() for line in out[0]) if out else "")
        return ([[" " + own]] if own else []) + out

    def own_words(self, name, comment):
        """A description besides the header's: the one in the list of all functions, where it is another; else that of FORMULAS."""
        header = self.declarations([name])[0].header if self.declarations([name]) else ""
        if listed := self.listed.get((name, header)):
            return "" if comment.startswith(listed.rstrip(".")) else listed[0].upper() + listed[1:]
        return FORMULAS.get(name, "")

    def brief(self, name):
        comments = self.comments(name)
        text = " ".join(line.strip() for line in comments[0])
        return self.documentation([" " + re.split(r"(?<=\w{2}[.;:])\s|(?<=[)\]][.;:])\s", text)[0].rstrip(";:")])[0]

    def before(self, name):
        """The function that a comment goes on from."""
        header = self.declarations([name])[0].header
        names = []
        for declared, found in self.declared.items():
            if any(d.header == header for d in found):
                names.append(declared)
        at = names.index(name) - 1
        while at >= 0 and (names[at] not in self.order or names[at] in DESCRIBED_WITH):
            at -= 1
        return names[at] if at >= 0 else None

    def described(self, name):
        comments, out = self.comments(name), []
        for comment in comments:
            first = comment == next((d.comment for d in self.declarations([name]) if d.comment), None)
            if first and GOES_ON.match(comment[0].strip()) and (other := self.before(name)):
                out += [f"This goes on from [{other}](@ref {page_name(other)}):", ""]
            out += self.documentation(comment) + [""]
        if name in DESCRIBED_WITH:
            other = DESCRIBED_WITH[name]
            out += [f"Its header describes it together with [{other}](@ref {page_name(other)}):", ""]
            out += [
                line
                for comment in self.comments(other)[1:] or self.comments(other)
                for line in self.documentation(comment) + [""]
            ]
        return out

    def page(self, name):
        family = next(key for key, names in self.families.items() if name in names)
        names, facts = self.families[family][name]
        found = self.declarations(names)
        out = [f"# {name} {{#{page_name(name)}}}", ""]
        out += [
            f'<div class="family">[{FAMILY_TITLES.get(family, family)}](@ref {family_page(family)})'
            + (f" &middot; [stave/{found[0].header}](@ref {self.group_of[found[0].header]})" if found else "")
            + "</div>",
            "",
        ]
        if found:
            structs = list(dict.fromkeys(text for d in found for text in options(d.header, d.text)))
            out += [
                "@code{.cpp}",
                *(d.text for d in found),
                *(line for text in structs for line in ("", text)),
                "@endcode",
                "",
            ]
        out += self.described(name)
        for other in names[1:]:
            if re.match(r"\w+$", other) and not other.startswith("operator"):
                out += [
                    f"`{other}`:",
                    "",
                    *(line for comment in self.comments(other) for line in self.documentation(comment)),
                    "",
                ]
        code, output = self.examples[EXAMPLE_OF.get(name, name)]
        out += [
            "@par Example",
            "@code{.cpp}",
            code,
            "@endcode",
            '<div class="output">',
            "@verbatim",
            output,
            "@endverbatim",
            "</div>",
            "",
        ]
        rows = [
            (label, facts[key])
            for key, label in [
                ("dtypes", "Dtypes"),
                ("derivative", "Derivatives"),
                ("vmap", "Under vmap"),
                ("CPU", "On the CPU"),
                ("CUDA", "On CUDA"),
            ]
            if facts.get(key)
        ]
        if name in self.partials:
            rows = [
                (key, value + "".join(f"; {text}" for text in self.partials[name]) if key == "Derivatives" else value)
                for key, value in rows
            ]
        rows += [("Accuracy, in units in the last place", self.accuracy[n]) for n in names if n in self.accuracy][:1]
        for library in ("JAX", "PyTorch"):
            if called := elsewhere(name, self.pages, library):
                rows.append((f"In {library}", ", ".join(f"`{span}`" for span in called)))
        if rows:
            meaning = f"[What the words mean](@ref {self.table_page})."
            out += (
                ["| | |", "|---|---|"]
                + [f"| {key} | {value.replace('|', chr(92) + '|')} |" for key, value in rows]
                + ["", meaning, ""]
            )
        return "\n".join(out)

    def family(self, family):
        """The page of a family, whose subpages are its functions."""
        out = [
            f"# {FAMILY_TITLES.get(family, family)} {{#{family_page(family)}}}",
            "",
            "| function | what it gives |",
            "|---|---|",
        ]
        for name in self.families[family]:
            out.append(f'| @subpage {page_name(name)} "{name}" | {self.brief(name).replace("|", chr(92) + "|")} |')
        return "\n".join(out) + "\n"

    def links(self, header):
        """The pages of a header's functions."""
        names = [name for name in self.order if any(d.header == header for d in self.declarations([name]))]
        return ", ".join(f"[{name}](@ref {page_name(name)})" for name in names)

    def index(self, table):
        """The page of all families."""
        out = [
            "# Operations {#operations_of_stave}",
            "",
            f"Every function of tensors has a page: its declarations and description, an example with what it prints, dtypes, "
            f"derivatives, backends, and its names in JAX and PyTorch. The [table of operations](@ref {table}) has all of them side by "
            "side, and what handlers see of them. In the examples `print` writes tensors to `std::cout`, one after another.",
            "",
        ]
        for family, names in self.families.items():
            links = ", ".join(f"[{name}](@ref {page_name(name)})" for name in names)
            out += [f'- @subpage {family_page(family)} "{FAMILY_TITLES.get(family, family)}": {links}']
        return "\n".join(out + [f"- @subpage {table}", ""])


def family_page(family):
    return "ops_" + re.sub(r"\W", "_", family)
