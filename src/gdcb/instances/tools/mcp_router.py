"""A router over the tools of an MCP server: decide, write arguments, look, ask, call, learn.

The agent decides on a tool before its arguments exist. They are written for that tool, screened,
and judged by the policy once more; a tool that writes or sends also waits for a person, who sees
tool and arguments. Only then is the tool called, and the outcome teaches both loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gdcb.arms import ArmList
from gdcb.bandits.relevance import RelevanceThompson
from gdcb.cases import Case
from gdcb.composition import Prompt
from gdcb.context import Flag, Number, Schema
from gdcb.errors import InvalidInput
from gdcb.gates import CategoryKernel, Review
from gdcb.instance import Instance, NullAction
from gdcb.instances.tools.endpoint import Filled
from gdcb.instances.tools.guard import Guard, Judged
from gdcb.instances.tools.mcp_tools import Called, Server, Tool
from gdcb.instances.tools.policy import FLAGS, ToolPolicy
from gdcb.instances.tools.relevance import RelevanceScaler
from gdcb.instances.tools.retrieval import Retriever
from gdcb.instances.tools.screening import Screening, Sources
from gdcb.rewards import Payoff

# Writes the arguments of a call: (prompt, tool, request) → arguments, or why there are none.
Writer = Callable[[str, Tool, str], Filled]
# Answers for a person: (tool, arguments, what the gate said) → verdict and reason.
Person = Callable[[Tool, Mapping[str, Any], Judged], tuple[str, str]]
# Says whether an answer helped: (request, what became of the call) → yes or no.
Judge = Callable[[str, Called], bool]
# What says nothing of how good a tool is: it was not there, or was another.
_NOT_ITS_OWN = ("vanished", "changed", "unreachable")


def has_answered(_request: str, called: Called) -> bool:
    """Whether a call brought any answer: all that is known without a judge."""
    return called.is_success and bool(called.text.strip())


@dataclass(frozen=True)
class Permissions:
    """What the operator says of tools, by name; what the server says makes nothing safer.

    Parameters
    ----------
    reads : tools that only read; every other one waits for a person and needs a clean call
    denied : tools that never run
    cost : cost of a call, 0 where none is named
    """

    reads: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)

    def is_reading(self, tool: Tool) -> bool:
        """Whether operator and server agree that a tool only reads."""
        return tool.name in self.reads and tool.says_it_reads


def learner() -> RelevanceThompson:
    """Return a learner for `instance_for`: a tool succeeds the likelier the more relevant it is.

    The prior trusts retrieval at first: a step of 0.3 in similarity is two in log odds.
    """
    return RelevanceThompson(
        level=-2.0, level_sd=0.3, level_own=0.2, slope=6.0, slope_sd=1.0, slope_own=0.5
    )


def instance_for(tools: Mapping[str, Tool], may: Permissions) -> Instance:
    """Return the instance of a server's tools: an arm each, relevance beside it, two gates.

    δ is the similarity of request and description until ratings say more; a person stands before
    tools that write, and the tool policy is the last gate.
    """
    names = tuple(tools)
    if len(names) < 2:
        raise InvalidInput(f"tools: expected at least two to choose from, got {len(names)}")
    near, past = (
        tuple(f"{kind}_{i + 1}" for i in range(len(names))) for kind in ("description", "past")
    )
    writes = tuple(name for name in names if not may.is_reading(tools[name]))
    policy = ToolPolicy(
        tools=names,
        denied=tuple(name for name in names if name in may.denied),
        cost=tuple(float(may.cost.get(name, 0.0)) for name in names),
        spend="spend",
        clean=writes,
        secret="secret",
        injected="injected",
        invalid="invalid",
    )
    gates: list[Any] = [policy]
    if writes:
        person = Review(
            categories=tuple(names.index(name) for name in writes),
            kernel=CategoryKernel(n_categories=len(names)),
            name="approval",
        )
        gates.insert(0, person)
    return Instance(
        name="router",
        title="Tools of an MCP server",
        context=Schema(
            {
                **{name: Number(0, 1, "similarity to a description") for name in near},
                **{name: Number(0, 1, "similarity to a past success") for name in past},
                "length": Number(0, 1, "words of the request"),
                "figures": Number(0, 1, "numbers in the request"),
                "spend": Number(0, about="what is left to spend"),
                **{flag: Flag(about) for flag, about in FLAGS.items()},
            }
        ),
        arms=ArmList(names=names),
        scaler=RelevanceScaler(near=near, past=past, theta=(0.0, 1.0, 0.0, 0.0, 0.0)),
        composition=Prompt(examples=2),
        gate=gates,
        reward=Payoff(outcome=("success",)),
        null=NullAction(mean=0.0),
    )


@dataclass(frozen=True)
class Step:
    """What became of a request.

    Parameters
    ----------
    case : the agent's decision, with gate and reason
    arguments : what was written for the tool, None where nothing was
    judged : what screening and policy said of the call, None where it was not reached
    called : what became of the call, None where none was made
    said : why it ended as it did, in a sentence
    """

    case: Case
    arguments: Mapping[str, Any] | None = None
    judged: Judged | None = None
    called: Called | None = None
    said: str = ""


@dataclass
class Router:
    """Routes requests to the tools of a server, and learns which answers what.

    Parameters
    ----------
    server : an open server
    agent : an agent on `instance_for` of the server's tools
    tools : the tools, as they were when the agent was made
    may : what the operator allows
    write : writes arguments
    person : answers for tools that write or send
    helped : judges an answer
    spend : what may be spent in all
    screening : how calls are screened
    """

    server: Server
    agent: Any
    tools: Mapping[str, Tool]
    may: Permissions
    write: Writer
    person: Person
    helped: Judge = has_answered
    spend: float = 10.0
    screening: Screening = field(default_factory=Screening)
    retriever: Retriever = field(init=False)
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        instance = self.agent.instance
        if tuple(self.tools) != instance.space.names:
            raise InvalidInput(
                f"router: expected the agent's tools, {', '.join(instance.space.names)}; "
                f"got {', '.join(self.tools)}"
            )
        self.retriever = Retriever({name: t.description for name, t in self.tools.items()})
        policy = instance.chain.gates[-1]
        assert isinstance(policy, ToolPolicy)
        schemas = {name: tool.schema for name, tool in self.tools.items()}
        self.guard = Guard(policy, self.screening, schemas)

    def candidates(self) -> list[str]:
        """Return the tools that are there now and are what they were; new ones are left out."""
        now = self.server.tools()
        return [
            name
            for name, tool in self.tools.items()
            if name in now and now[name].fingerprint == tool.fingerprint
        ]

    def route(self, request: str, sources: Sources | None = None) -> Step:
        """Route one request; `sources` holds what tools returned earlier in the conversation."""
        sources = sources or Sources(request)
        names = self.candidates()
        context = {**self.retriever.context(request, names), "spend": max(0.0, self.spend)}
        # Before arguments are written nothing is flagged; the guard asks the policy once more.
        context |= dict.fromkeys(FLAGS, False)
        case = self.agent.decide(context, mask=names)
        if case.status == "vetoed":
            return Step(case, said=case.reason)
        proposed = case.proposed or {}
        tool = self.tools[str(proposed["tool"])]
        written = self.write(self._prompt(proposed, tool, request), tool, request)
        if written.arguments is None:
            said = f"no arguments ({written.status}): {written.said}"
            return self._end(case, None, None, said)
        judged = self.guard.judge(sources, tool.name, written.arguments, self.spend)
        if not judged.may_run:
            return self._end(case, written.arguments, judged, judged.reason)
        if case.status == "held":
            verdict, reason = self.person(tool, written.arguments, judged)
            case = self.agent.resolve(case.id, verdict, by="person", reason=reason)
            if case.status == "vetoed":
                return Step(case, written.arguments, judged, said=case.reason)
        called = self.server.call(tool, written.arguments)
        return self._learn(case, written.arguments, judged, called, request, sources)

    def _prompt(self, proposed: Mapping[str, Any], tool: Tool, request: str) -> str:
        instance = self.agent.instance
        e = instance.encode_action(dict(proposed))
        examples = self.retriever.examples(tool.name, request, int(e[1]))
        composition = instance.composition
        assert isinstance(composition, Prompt)
        return composition.render(instance.space, e, request, examples)

    def _end(
        self, case: Case, arguments: Mapping[str, Any] | None, judged: Judged | None, said: str
    ) -> Step:
        """End a decision without a call: a held one by a veto, a passed one as a failure."""
        if case.status == "held":
            case = self.agent.resolve(case.id, "veto", by="screening", reason=said)
        else:
            self.agent.observe(case.id, {"success": 0.0})
            case = self.agent[case.id]
        return Step(case, arguments, judged, said=said)

    def _learn(
        self,
        case: Case,
        arguments: Mapping[str, Any],
        judged: Judged,
        called: Called,
        request: str,
        sources: Sources,
    ) -> Step:
        self.spend -= float(self.may.cost.get(called.tool, 0.0))
        sources.add(called.text)
        weight = 0.0 if called.status in _NOT_ITS_OWN else 1.0
        has_helped = self.helped(request, called)
        label = [float(has_helped) if name == called.tool else None for name in self.tools]
        success = {"success": float(has_helped)}
        self.agent.observe(case.id, success, label=label if weight else None, weight=weight)
        if has_helped:
            self.retriever.remember(called.tool, request)
        said = f"{called.tool} {called.status}: {called.text}"
        return Step(self.agent[case.id], arguments, judged, called, said)
