"""Permission rules: which calls run without a question, and which are always asked about.

The rules are tried in descending priority, of equal ones the newest first; the first that matches decides, and no other
is looked at. A rule never overrides a refusal, and approves nothing riskier than its `max_risk`.

A rule matches a call by

    server_id         equal to the tool's
    tool_name         equal to the tool's, case and all
    tool_pattern      `*` stands for any text; case does not matter
    argument_pattern  the path, or the command with its arguments

and what it leaves out matches everything. An `argument_pattern` is written as one would type it in a shell, with quotes
where there are spaces.

For a **path** (where it really leads, relative to the workspace) `*` stays within one name and `**` crosses
directories: `src/**`, `docs/*.md`.

For a **command** each word of the pattern is for one argument, and `*` stands for any text within that one. A word
that begins with `*` is never for an option, so that `git log *` lets no `git log --output=x` through. At the end, `...`
is for any number of further arguments that are no options, and `-...` for any number of any, options too: `max_risk`
still holds, and an option that is not known to be harmless is HIGH.

Where a rule asks rather than approves, to be wide is to be safe: there `*` and `...` are for options as well.
"""

from __future__ import annotations

import hashlib
import heapq
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from operator import attrgetter

import msgspec

from client_agent.errors import UserError
from client_agent.policy.decision import Risk
from client_agent.policy.paths import translate
from client_agent.protocol.tools import find_spec

_OPERANDS = "..."
_ANYTHING = "-..."
MAX_PRIORITY = 1_000_000
MAX_PATTERN_CHARS = 1_000


class RuleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says of a rule. Times are seconds since 1970, UTC."""

    auto_approve: bool
    server_id: str | None = None
    tool_name: str | None = None
    tool_pattern: str | None = None
    argument_pattern: str | None = None
    priority: int = 0
    max_risk: Risk = Risk.MEDIUM
    expires_at: float | None = None
    note: str = ""


class Rule(RuleDraft, frozen=True, kw_only=True):
    """A rule as it is kept."""

    id: str
    created_at: float
    updated_at: float


class RuleError(UserError):
    """A rule that cannot be meant so."""

    code = "rule_invalid"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A call as rules see it: `argv` for a command, `path` for a tool that works on one."""

    tool_name: str
    server_id: str
    risk: Risk
    argv: tuple[str, ...] = ()
    path: str | None = None

    @property
    def text(self) -> str:
        """The arguments on one line, in the spelling that an argument_pattern is written in."""
        return shlex.join(self.argv) if self.path is None else shlex.quote(self.path)


class Explanation(msgspec.Struct, frozen=True):
    """Which rule decides, and which others match but come too late."""

    decides: Rule | None
    too_late: tuple[Rule, ...]


def check_draft(draft: RuleDraft, now: float) -> None:
    """Raises RuleError for a rule that could never match, or that says less than its author must think."""
    for name in ("server_id", "tool_name", "tool_pattern", "argument_pattern"):
        value = getattr(draft, name)
        if value is not None and not 0 < len(value) <= MAX_PATTERN_CHARS:
            raise RuleError(f"{name}: expected 1 to {MAX_PATTERN_CHARS} characters; leave it out to match everything")
    if draft.tool_name is not None and draft.tool_pattern is not None:
        raise RuleError("tool_name and tool_pattern: give one of them, not both")
    if draft.tool_name is not None and "*" in draft.tool_name:
        raise RuleError(f"tool_name: found {draft.tool_name!r}, expected an exact name; use tool_pattern for '*'")
    if abs(draft.priority) > MAX_PRIORITY:
        raise RuleError(f"priority: found {draft.priority}, expected at most {MAX_PRIORITY} either way")
    if draft.expires_at is not None and draft.expires_at <= now:
        raise RuleError(f"expires_at: {datetime.fromtimestamp(draft.expires_at, UTC):%F %TZ} is in the past")
    if draft.argument_pattern is not None:
        _check_arguments(draft.argument_pattern)


def _check_arguments(pattern: str) -> None:
    words = _split(pattern)
    if not words:
        raise RuleError(f"argument_pattern: {pattern!r} is not a command line or path: look at its quotes")
    if any(word in (_OPERANDS, _ANYTHING) for word in words[:-1]):
        raise RuleError(f"argument_pattern: {_OPERANDS!r} and {_ANYTHING!r} can only stand at the end")


def _split(pattern: str) -> list[str] | None:
    try:
        return shlex.split(pattern)
    except ValueError:
        return None


class RuleBook:
    """An unchanging set of rules, compiled. Looking up a call does not take longer for rules about other calls."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        ordered = sorted(rules, key=attrgetter("id"))
        ordered.sort(key=attrgetter("priority", "created_at"), reverse=True)
        self.rules: tuple[Rule, ...] = tuple(ordered)
        self._compiled = tuple(_CompiledRule(rule, rank) for rank, rule in enumerate(ordered))
        self._about = lru_cache(maxsize=256)(self._select)

    @cached_property
    def digest(self) -> str:
        """The same for the same rules only."""
        return hashlib.sha256(msgspec.json.encode(self.rules)).hexdigest()

    def match(self, subject: Subject, now: float) -> Rule | None:
        """The rule that decides this call."""
        return next(self._matching(subject, now), None)

    def explain(self, subject: Subject, now: float) -> Explanation:
        matching = tuple(self._matching(subject, now))
        return Explanation(next(iter(matching), None), matching[1:])

    def _matching(self, subject: Subject, now: float) -> Iterator[Rule]:
        about = self._about(subject.server_id, subject.tool_name)
        for compiled in about.candidates(_head(subject)):
            rule = compiled.rule
            if (rule.expires_at is None or now < rule.expires_at) and compiled.fits(subject):
                yield rule

    def _select(self, server_id: str, tool_name: str) -> _ToolRules:
        return _ToolRules([rule for rule in self._compiled if rule.is_about(server_id, tool_name)])


class _ToolRules:
    """The rules about one tool, those that begin with a plain word kept by that word."""

    def __init__(self, rules: list[_CompiledRule]) -> None:
        self._others = [rule for rule in rules if rule.head is None]
        self._by_head: dict[str, list[_CompiledRule]] = {}
        for rule in rules:
            if rule.head is not None:
                self._by_head.setdefault(rule.head, []).append(rule)

    def candidates(self, head: str | None) -> Iterable[_CompiledRule]:
        if head not in self._by_head:
            return self._others
        return heapq.merge(self._by_head[head], self._others, key=attrgetter("rank"))


class _CompiledRule:
    """One rule, its patterns compiled."""

    def __init__(self, rule: Rule, rank: int) -> None:
        self.rule = rule
        self.rank = rank
        spec = None if rule.tool_name is None else find_spec(rule.tool_name)
        self._tool_name = rule.tool_name if spec is None else spec.name  # an alias means the tool
        self._tool_pattern = None if rule.tool_pattern is None else re.compile(_wild(rule.tool_pattern), _ANY_CASE)
        self.head: str | None = None
        self._fits_argv: Callable[[tuple[str, ...]], bool] = lambda argv: True
        self._path = _ANYWHERE
        if rule.argument_pattern is not None:
            self._compile_arguments(_split(rule.argument_pattern) or [])

    def _compile_arguments(self, words: list[str]) -> None:
        asks = not self.rule.auto_approve
        if not words:  # a pattern that cannot be read approves nothing, and asks about everything
            self._fits_argv = lambda argv: asks
            self._path = _ANYWHERE if asks else _NOWHERE
            return
        self._fits_argv = _compile_words(words, wide=asks)
        path = words[0].removeprefix("./")
        self._path = re.compile(translate(path), re.DOTALL) if len(words) == 1 else _NOWHERE
        first = path.split("/", 1)[0]
        if first and not {"*", "?"} & set(first) and first not in (_OPERANDS, _ANYTHING):
            self.head = first

    def is_about(self, server_id: str, tool_name: str) -> bool:
        rule = self.rule
        return (
            (rule.server_id is None or rule.server_id == server_id)
            and (self._tool_name is None or self._tool_name == tool_name)
            and (self._tool_pattern is None or self._tool_pattern.fullmatch(tool_name) is not None)
        )

    def fits(self, subject: Subject) -> bool:
        """Whether the arguments fit."""
        if subject.path is not None:
            return self._path.fullmatch(subject.path) is not None
        return self._fits_argv(subject.argv)


_ANY_CASE = re.IGNORECASE | re.DOTALL
_ANYWHERE = re.compile(".*", re.DOTALL)
_NOWHERE = re.compile("(?!)")


def _wild(pattern: str) -> str:
    return ".*".join(map(re.escape, pattern.split("*")))


def _head(subject: Subject) -> str | None:
    if subject.path is not None:
        return subject.path.split("/", 1)[0]
    return subject.argv[0] if subject.argv else None


def _compile_words(words: list[str], *, wide: bool) -> Callable[[tuple[str, ...]], bool]:
    tail = words[-1] if words[-1] in (_OPERANDS, _ANYTHING) else None
    patterns = [_compile_word(word, wide=wide) for word in (words if tail is None else words[:-1])]
    tail_takes_options = tail == _ANYTHING or wide

    def fits(argv: tuple[str, ...]) -> bool:
        if len(argv) < len(patterns) or (tail is None and len(argv) > len(patterns)):
            return False
        if not all(pattern.fullmatch(arg) for pattern, arg in zip(patterns, argv, strict=False)):
            return False
        return tail_takes_options or not any(arg.startswith("-") for arg in argv[len(patterns) :])

    return fits


def _compile_word(word: str, *, wide: bool) -> re.Pattern[str]:
    no_option = "(?!-)" if word.startswith("*") and not wide else ""
    return re.compile(no_option + _wild(word), re.DOTALL)


def select_matching(rule: Rule, subjects: Iterable[Subject], now: float) -> list[Subject]:
    """Which of these calls a rule would match, whatever other rules there are."""
    book = RuleBook([rule])
    return [subject for subject in subjects if book.match(subject, now) is not None]


NO_RULES = RuleBook()
