"""Mutants: one module's syntax tree with one small fault in it.

What is changed is what decides: comparisons, boolean operators, conditions, constants, members of collections,
arguments given by name, returned values, and whole statements. Texts for people, annotations and docstrings are left
alone: a string counts as a text where it holds a space or has parts filled in.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType

Edit = Callable[[ast.AST], None]
Span = tuple[int, int]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_OPPOSITES = {
    "max": "min",
    "min": "max",
    "any": "all",
    "all": "any",
    "startswith": "endswith",
    "endswith": "startswith",
}
_DECIDED_ELSEWHERE = (ast.Compare, ast.BoolOp)  # a condition of these kinds has mutants of its own
_ANNOTATED = {"annotation", "returns"}
_SPLITTING = {"split", "rsplit"}
_CODING = {"encode", "decode", "read_text"}
_LISTS = ("elts", "keywords", "keys", "ifs", "cases")  # what a member can be taken out of
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault. `function` is the outermost function it is in, None where it takes effect when the module loads."""

    path: Path
    function: str | None
    lines: Span
    line: int
    change: str
    node: int
    edit: Edit

    def compile(self) -> CodeType:
        """The code of the whole module, with the fault in it."""
        return compile(self._tree(), str(self.path), "exec", dont_inherit=True)

    def _tree(self) -> ast.Module:
        tree = ast.parse(self.path.read_text("utf-8"))
        self.edit(list(ast.walk(tree))[self.node])
        return ast.fix_missing_locations(tree)


def make_mutants(path: Path) -> list[Mutant]:
    """Every mutant of a module that Python accepts."""
    tree = ast.parse(path.read_text("utf-8"))
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    made: list[Mutant] = []
    for place in _walk(tree, _Place(tree, None, (1, 1))):
        for edit in place.edits:
            changed = copy.deepcopy(place.node)
            edit(changed)
            mutant = Mutant(
                path=path,
                function=place.function,
                lines=place.lines,
                line=place.line,
                change=_describe(place.node, changed),
                node=numbers[id(place.node)],
                edit=edit,
            )
            if _is_accepted(mutant):
                made.append(mutant)
    return made


def _is_accepted(mutant: Mutant) -> bool:
    try:
        mutant.compile()
    except (SyntaxError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class _Place:
    """A node, the function it is in, the lines of its statement, and the faults that can be put there."""

    node: ast.AST
    function: str | None
    lines: Span
    edits: tuple[Edit, ...] = ()

    @property
    def line(self) -> int:
        return max(self.lines[0], min(getattr(self.node, "lineno", self.lines[0]), self.lines[1]))


def _walk(node: ast.AST, place: _Place, prefix: str = "") -> Iterator[_Place]:
    """Every place below a node, itself included."""
    yield replace(place, node=node, edits=tuple(_edits(node)))
    if isinstance(node, ast.ClassDef):
        prefix += f"{node.name}."
    for field, index, child in _children(node):
        if field in _ANNOTATED or _is_left_alone(field, child, node):
            continue
        inside = place
        if isinstance(node, _FUNCTIONS) and field == "body":
            inside = replace(inside, function=place.function or prefix + node.name)
        if isinstance(child, ast.stmt):
            inside = replace(inside, lines=_span(child))
            if _can_be_missing(child) and not _ends_function(node, child):
                yield replace(inside, node=node, edits=(_remover(field, index),))
        yield from _walk(child, inside, prefix)


def _remover(field: str, index: int) -> Edit:
    return lambda node: getattr(node, field).__setitem__(index, ast.Pass())


def _children(node: ast.AST) -> Iterator[tuple[str, int, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                yield field, index, child


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_left_alone(field: str, node: ast.AST, parent: ast.AST) -> bool:
    """Texts for people, what only a type checker reads, and words for which there is another mutant already."""
    match node:
        case ast.JoinedStr() | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.keyword():  # how a class is built
            return isinstance(parent, ast.ClassDef)
        case ast.Constant(value=str()):  # a member that is missing is as good as another one; codecs have no variants
            return field == "elts" or (isinstance(parent, ast.Call) and _called(parent) in {*_CODING, "cast"})
        case ast.Constant(value=int()):  # how often to split is a matter of speed where one piece is taken
            return isinstance(parent, ast.Call) and _called(parent) in _SPLITTING
    return _is_docstring(node)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _span(statement: ast.stmt) -> Span:
    """The lines of a statement; of one that holds others, those before them."""
    last = statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None)
    return statement.lineno, max(statement.lineno, body[0].lineno - 1) if body else last


def _describe(node: ast.AST, changed: ast.AST) -> str:
    """What is changed, without what stays the same around it."""
    before, after = _lines(node), _lines(changed)
    for field in _LISTS:
        old, new = getattr(node, field, []), getattr(changed, field, [])
        if len(old) > len(new):
            before = [line for member in old for line in _lines(member)]
            after = [line for member in new for line in _lines(member)]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    return f"{' '.join(before[same:])} → {' '.join(after[same:]) or 'nothing'}"


def _lines(node: ast.AST | None) -> list[str]:
    return [] if node is None else [line.strip() for line in ast.unparse(node).splitlines()]


def _edits(node: ast.AST) -> Iterator[Edit]:
    """Every fault that can be put into this node, its children apart."""
    for kind, make in _MAKERS.items():
        if isinstance(node, kind):
            yield from make(node)


def _compare(node: ast.Compare) -> Iterator[Edit]:
    for index, operator in enumerate(node.ops):
        for other in _COMPARISONS[type(operator)]:
            yield lambda new, i=index, o=other: new.ops.__setitem__(i, o())


def _boolean(node: ast.BoolOp) -> Iterator[Edit]:
    other, neutral = (ast.Or, True) if isinstance(node.op, ast.And) else (ast.And, False)
    yield lambda new: setattr(new, "op", other())
    for index in range(len(node.values)):
        yield lambda new, i=index: new.values.__setitem__(i, ast.Constant(neutral))


def _negation(node: ast.UnaryOp) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not):
        yield lambda new: setattr(new, "operand", ast.UnaryOp(ast.Not(), new.operand))


def _condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
    if not isinstance(node.test, _DECIDED_ELSEWHERE) and not _is_negated(node.test):
        yield lambda new: setattr(new, "test", ast.UnaryOp(ast.Not(), new.test))


def _filter(node: ast.comprehension) -> Iterator[Edit]:
    for index, test in enumerate(node.ifs):
        yield lambda new, i=index: new.ifs.__delitem__(i)
        if not isinstance(test, _DECIDED_ELSEWHERE) and not _is_negated(test):
            yield lambda new, i=index: new.ifs.__setitem__(i, ast.UnaryOp(ast.Not(), new.ifs[i]))


def _is_negated(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _operator(node: ast.BinOp | ast.AugAssign) -> Iterator[Edit]:
    other = _OPERATORS.get(type(node.op))
    if other is not None:
        yield lambda new: setattr(new, "op", other())


def _constant(node: ast.Constant) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield lambda new: setattr(new, "value", not value)
    elif isinstance(value, int | float):
        yield lambda new: setattr(new, "value", value + 1)
    elif isinstance(value, str) and " " not in value.strip():
        yield lambda new: setattr(new, "value", f"{value}~")


def _members(node: ast.Set | ast.Tuple | ast.List) -> Iterator[Edit]:
    if isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        for index in range(len(node.elts)):
            yield lambda new, i=index: new.elts.__delitem__(i)


def _entries(node: ast.Dict) -> Iterator[Edit]:
    for index in range(len(node.keys)):
        yield lambda new, i=index: (new.keys.__delitem__(i), new.values.__delitem__(i))


def _keywords(node: ast.Call) -> Iterator[Edit]:
    for index in range(len(node.keywords)):
        yield lambda new, i=index: new.keywords.__delitem__(i)


def _name(node: ast.Name) -> Iterator[Edit]:
    if node.id in _OPPOSITES:
        yield lambda new: setattr(new, "id", _OPPOSITES[new.id])


def _attribute(node: ast.Attribute) -> Iterator[Edit]:
    if node.attr in _OPPOSITES:
        yield lambda new: setattr(new, "attr", _OPPOSITES[new.attr])


def _returned(node: ast.Return) -> Iterator[Edit]:
    if node.value is not None and not (
        isinstance(node.value, ast.Constant) and node.value.value in (None, True, False)
    ):
        yield lambda new: setattr(new, "value", ast.Constant(None))


def _cases(node: ast.Match) -> Iterator[Edit]:
    for index in range(len(node.cases)):
        yield lambda new, i=index: new.cases.__delitem__(i)


_MAKERS: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[Edit]]] = {
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _negation,
    (ast.If, ast.While, ast.IfExp): _condition,
    ast.comprehension: _filter,
    (ast.BinOp, ast.AugAssign): _operator,
    ast.Constant: _constant,
    (ast.Set, ast.Tuple, ast.List): _members,
    ast.Dict: _entries,
    ast.Call: _keywords,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Return: _returned,
    ast.Match: _cases,
}


def _can_be_missing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr():
            return not _is_docstring(statement)
        case ast.Assign(targets=[ast.Attribute()]) | ast.AnnAssign(target=ast.Attribute()):
            return True
        case ast.Return() | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            return True
    return False


def _ends_function(node: ast.AST, statement: ast.stmt) -> bool:
    """Whether without this statement the function would return None, which is a mutant already."""
    ends = isinstance(node, _FUNCTIONS) and statement is node.body[-1]
    return ends and isinstance(statement, ast.Return)
