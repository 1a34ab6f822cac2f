"""What reading a command finds."""

from __future__ import annotations

from client_agent.policy.commands.program import Program
from client_agent.policy.decision import Assessment, CallClass, Reason, Risk, refusing


class Findings:
    """What has been found in one command so far. Risk only rises, and the first refusal stands."""

    def __init__(self) -> None:
        self.risk = Risk.LOW
        self.reasons: list[Reason] = []
        self.refusal: Reason | None = None
        self.network = False
        self.label: list[str] = []
        self.options: set[str] = set()
        self.tamed: set[str] = set()
        self.exact: list[str] = []
        self.opaque = False  # whether something was not understood, so that only the very same command is of its class

    def enter(self, program: Program) -> None:
        """The command is one of this program or sub-command, at least as risky as it is without options."""
        self.risk = max(self.risk, program.risk)
        self.network = self.network or program.network

    def raise_to(self, risk: Risk, code: str, text: str) -> None:
        self.risk = max(self.risk, risk)
        self.reasons.append(Reason(code, text))

    def refuse(self, code: str, text: str) -> None:
        if self.refusal is None:
            self.refusal = Reason(code, text)

    def absorb(self, part: Assessment) -> None:
        """Takes over what was found in a command inside this one."""
        if part.refusal is not None:
            self.refuse(part.refusal.code, part.refusal.text)
        self.risk = max(self.risk, part.risk)
        self.reasons.extend(part.reasons)
        self.network = self.network or part.network

    @property
    def _is_singular(self) -> bool:
        """Whether a yes to it is a yes to nothing else: the next one may go elsewhere, or run something else."""
        return self.opaque or self.network or self.risk is Risk.HIGH

    def to_assessment(self, args: list[str]) -> Assessment:
        if self.refusal is not None:
            return refusing(self.refusal)
        label = " ".join(self.label)
        exact = tuple(args) if self._is_singular else tuple(self.exact)
        call_class = CallClass(
            label=f"{label} (exactly this)" if exact else label,
            risk=self.risk,
            options=tuple(sorted(self.options)),
            exact=exact,
            tamed=tuple(sorted(self.tamed)),
            network=self.network,
        )
        return Assessment(
            risk=self.risk,
            reasons=tuple(self.reasons),
            network=self.network,
            read_only=self.risk is Risk.LOW,
            call_class=call_class,
        )
