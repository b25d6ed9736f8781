"""What can be changed in a C file: one operator, constant or statement at a time.

The rules are regular expressions over text in which comments, strings and preprocessor lines are
blanked, and they apply to the bodies of functions only. They rely on clang-format's layout: a
function's braces stand in column 1, and binary operators have a space on both sides.

    size_t n = a - b;        n = a + b              arithmetic
    if (n >= most && ready)  n > most, or ||        comparison, logic
    return -1;               (nothing), return 0    return dropped, return 0
    release(x);              (nothing)              statement removed
"""
import re
from typing import NamedTuple

SWAPS = {"comparison": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
         "logic": {"&&": "||", "||": "&&"},
         "arithmetic": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&": "|", "|": "&",
                        "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|="}}
KEYWORDS = {"if", "for", "while", "do", "else", "case", "default", "switch", "return", "goto",
            "break", "continue", "sizeof", "BUG_ON", "static_assert"}
BLANKED = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
                     r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.S | re.M)
BODY = re.compile(r"^\{\n(.*?)^\}$", re.S | re.M)
ARRAY = re.compile(r"^\s*(?:static |const |unsigned )*(?:struct \w+|char|bool|int|double|float"
                   r"|\w+_t)\b[^=;]*\[$")
STATEMENT = re.compile(r"^ +(?P<all>\*?(?P<word>[A-Za-z_]\w*)[\w>.\-\[\]]*"
                       r"(?: (?:[-+*/|&^%]|<<|>>)?= |\(|\+\+|--)[^;{}]*;)", re.M)
JUMP = re.compile(r"^ +(?P<all>(?:goto \w+|break|continue|return\b[^;{}]*);)(?P<last>\n\}\n)?",
                  re.M)
RETURN = re.compile(r"\breturn (?P<all>[^;{}]+);")
CONDITION = re.compile(r"\b(?:if|while) \((?P<all>[^\n{};]*)\) \{")


class Mutant(NamedTuple):
    path: str
    line: int
    column: int
    start: int  # text[start:end] becomes `new`
    end: int
    kind: str
    old: str
    new: str

    def apply(self, text):
        """The changed text; its lines keep their numbers."""
        lost = text[self.start:self.end].count("\n") - self.new.count("\n")
        return text[:self.start] + self.new + "\n" * lost + text[self.end:]

    def __str__(self):
        old, new = (" ".join(x.split()) for x in (self.old, self.new))
        new = "(nothing)" if new in ("", ";") else new
        return f"{self.path}:{self.line}:{self.column}: {self.kind}: {old} -> {new}"


def blank(text):
    """The text with everything that is no code turned into spaces; offsets stay."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _swaps(body):
    for kind, table in SWAPS.items():
        words = "|".join(re.escape(w) for w in sorted(table, key=len, reverse=True))
        for m in re.finditer(rf"(?<= )({words})(?=[ \n])", body):
            yield kind, m.start(), m.end(), table[m.group()]
    for m in re.finditer(r"!(?=[A-Za-z_(])", body):
        yield "negation", m.start(), m.end(), ""
    for m in re.finditer(r"\b(true|false)\b", body):
        yield "constant", m.start(), m.end(), "false" if m.group() == "true" else "true"


def _constants(body):
    for m in re.finditer(r"(?<![\w.])\d+(?![\w.])", body):
        before = body[body.rfind("\n", 0, m.start()) + 1:m.start()]
        if not (body[m.end():m.end() + 1] == "]" and ARRAY.match(before)):
            yield "constant", m.start(), m.end(), str(int(m.group()) + 1)


def _statements(body):
    for m in STATEMENT.finditer(body):
        before = body[:m.start()].rstrip()
        if m.group("word") not in KEYWORDS and before[-1:] in ("", ";", "{", "}", ":"):
            yield "statement removed", m.start("all"), m.end("all"), ";"
    for m in JUMP.finditer(body):
        if not m.group("last") and body[m.end():].strip():
            yield "jump dropped", m.start("all"), m.end("all"), ";"
    for m in RETURN.finditer(body):
        if m.group("all") not in ("0", "NULL", "false"):
            yield "return 0", m.start("all"), m.end("all"), "0"
    for m in CONDITION.finditer(body):
        if not re.search(r"[<>=!]=| [<>] |&&|\|\||!", m.group("all")):
            yield "negation", m.start("all"), m.end("all"), f"!({m.group('all')})"


def mutants(path, text):
    """Every mutant of this file, in the order of its text."""
    code, found = blank(text), []
    for function in BODY.finditer(code):
        body, at = function.group(1), function.start(1)
        for rule in (_swaps, _constants, _statements):
            for kind, start, end, new in rule(body):
                start, end = start + at, end + at
                line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
                found.append(Mutant(path, line, column, start, end, kind, text[start:end], new))
    return sorted(found, key=lambda m: (m.start, m.end, m.new))
