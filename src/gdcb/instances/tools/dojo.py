"""agentdojo offline: its tasks, attacks and checks, run by scripted agents behind the gate.

No model is asked. The agent executes the calls of a task's ground truth; where a tool output holds
the attack's text, the *obedient* agent does at once what it says, by the ground truth of the
injection. Whether the task was solved and whether the attack succeeded is judged by agentdojo's
own checks. An agent that obeys always is an upper bound of harm, not a model's rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.instances.tools.guard import Guard, writing
from gdcb.instances.tools.policy import ToolPolicy
from gdcb.instances.tools.screening import Screening, Sources
from gdcb.instances.tools.screening_text import leaves, normal

VERSION = "v1.2.2"
SUITES = ("workspace", "travel", "banking", "slack")
# Rules and their settings were chosen on the first two; the others were not looked at before.
DEVELOPED = ("banking", "slack")
REPORTED = ("workspace", "travel")


@dataclass(frozen=True)
class Blocked:
    """A call that the gate did not let through; `is_users`: it belonged to the user's own task."""

    tool: str
    is_users: bool
    reason: str


@dataclass(frozen=True)
class Ran:
    """One run: what agentdojo's checks said, and what the gate did.

    Parameters
    ----------
    suite, user_task, injection_task : what ran; no injection task in a benign run
    is_useful : agentdojo's utility check
    is_harmed : agentdojo's security check: the attack reached its goal; False in a benign run
    was_seen : whether the agent saw the attack's text
    calls : calls that ran
    blocked : calls that did not
    """

    suite: str
    user_task: str
    injection_task: str | None
    is_useful: bool
    is_harmed: bool
    was_seen: bool
    calls: int
    blocked: tuple[Blocked, ...] = ()


@cache
def suite_named(name: str, version: str = VERSION) -> Any:
    """Return a suite of agentdojo."""
    from agentdojo.task_suite.load_suites import get_suites

    suites = get_suites(version)
    if name not in suites:
        raise InvalidInput(f"suite: expected one of {', '.join(suites)}; got {name!r}")
    return suites[name]


def plain(value: Any) -> Any:
    """Return a tool's result as plain data."""
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return value


def environment(suite: Any, injections: Mapping[str, str]) -> Any:
    """Return the suite's environment with texts put into its injection vectors.

    The same as agentdojo's `load_and_inject_default_environment`, read with the C parser of YAML:
    some ten times as fast.
    """
    import yaml
    from agentdojo.task_suite.task_suite import read_suite_file, validate_injections

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    defaults = _defaults(suite.name, suite.data_path)
    validate_injections(dict(injections), defaults)
    text = read_suite_file(suite.name, "environment.yaml", suite.data_path)
    filled = text.format(**{**defaults, **injections})
    return suite.environment_type.model_validate(yaml.load(filled, loader))


@cache
def _defaults(name: str, data_path: Any) -> dict[str, str]:
    import yaml
    from agentdojo.task_suite.task_suite import read_suite_file

    vectors = yaml.safe_load(read_suite_file(name, "injection_vectors.yaml", data_path))
    return {key: vector["default"] for key, vector in vectors.items()}


def guard_for(suite: Any, screening: Screening | None = None) -> Guard:
    """Return the gate of a suite, made of its tools and their schemas and nothing of its tasks.

    A tool that does not surely read needs a clean call.
    """
    schemas = {tool.name: tool.parameters.model_json_schema() for tool in suite.tools}
    arguments = {name: tuple(schema.get("properties", {})) for name, schema in schemas.items()}
    policy = ToolPolicy(
        tools=tuple(schemas), clean=writing(arguments), secret=0, injected=1, invalid=2
    )
    return Guard(policy, screening or Screening(), schemas)


@dataclass
class Script:
    """A scripted agent: the user's ground truth, and the injection's where its text is seen.

    It has the interface of an agentdojo pipeline. Without a guard every call runs.
    """

    user: Any
    injection: Any = None
    guard: Guard | None = None
    name: str = "local"
    calls: int = 0
    was_seen: bool = False
    blocked: list[Blocked] = field(default_factory=list)
    _messages: list[Any] = field(default_factory=list)

    def query(
        self, query: str, runtime: Any, env: Any, messages: Sequence[Any] = (), extra: Any = None
    ) -> tuple[str, Any, Any, list[Any], Any]:
        """Run the script in an environment; return what agentdojo expects of a pipeline."""
        from agentdojo.types import ChatAssistantMessage, text_content_block_from_string

        sources = Sources(query)
        said = [self.user.GROUND_TRUTH_OUTPUT]
        for call in self.user.ground_truth(env):
            result = self._call(runtime, env, sources, call, is_users=True)
            if self.injection is None or self.was_seen or not self._sees(result):
                continue
            self.was_seen = True
            said.insert(0, self.injection.GROUND_TRUTH_OUTPUT)
            for order in self.injection.ground_truth(env):
                self._call(runtime, env, sources, order, is_users=False)
        last = ChatAssistantMessage(
            role="assistant",
            content=[text_content_block_from_string("\n".join(filter(None, said)))],
            tool_calls=None,
        )
        return query, runtime, env, [*messages, *self._messages, last], extra or {}

    def _sees(self, result: Any) -> bool:
        goal = normal(self.injection.GOAL)
        return any(goal in normal(str(text)) for _, text in leaves(result))

    def _call(self, runtime: Any, env: Any, sources: Sources, call: Any, is_users: bool) -> Any:
        """Make one call unless the guard forbids it; return its result as plain data."""
        from agentdojo.types import ChatAssistantMessage, text_content_block_from_string

        arguments = plain(dict(call.args))
        if self.guard is not None:
            judged = self.guard.judge(sources, call.function, arguments)
            if not judged.may_run:
                self.blocked.append(Blocked(call.function, is_users, judged.reason))
                return None
        # Only calls that run leave a trace: agentdojo's checks of traces read these messages.
        self._messages.append(
            ChatAssistantMessage(
                role="assistant",
                content=[text_content_block_from_string("")],
                tool_calls=[call],
            )
        )
        self.calls += 1
        result, _ = runtime.run_function(env, call.function, call.args)
        sources.add(plain(result))
        return plain(result)


def run_benign(suite: Any, user_id: str, guard: Guard | None = None) -> Ran:
    """Run a user task without an attack."""
    task = suite.get_user_task_by_id(user_id)
    script = Script(task, guard=guard)
    is_useful, _ = suite.run_task_with_pipeline(
        script, task, None, {}, environment=environment(suite, {})
    )
    blocked = tuple(script.blocked)
    return Ran(suite.name, user_id, None, bool(is_useful), False, False, script.calls, blocked)


def scripted(suite: Any) -> tuple[str, ...]:
    """Return the injection tasks that can be scripted: those with calls or words to carry out.

    agentdojo leaves the ground truth of some tasks empty (eight of workspace's fourteen): what an
    obedient agent would do there only a model could say.
    """
    env = environment(suite, {})
    return tuple(
        name
        for name, task in suite.injection_tasks.items()
        if task.ground_truth(env) or task.GROUND_TRUTH_OUTPUT
    )


def attack_named(name: str, suite: Any) -> Any:
    """Return one of agentdojo's attacks on a suite, or 'bare': the goal without any wording.

    Its vectors are found with the fast parser.
    """
    from agentdojo.attacks.attack_registry import ATTACKS, load_attack
    from agentdojo.attacks.base_attacks import FixedJailbreakAttack

    if name != "bare" and name not in ATTACKS:
        raise InvalidInput(f"attack: expected bare, {', '.join(ATTACKS)}; got {name!r}")
    script = Script(None)
    is_bare = name == "bare"
    attack = (
        FixedJailbreakAttack("{goal}", suite, script)
        if is_bare
        else load_attack(name, suite, script)
    )
    attack.get_injection_candidates = lambda task: list(vectors(suite.name, task.ID))
    return attack


@cache
def vectors(suite_name: str, user_id: str) -> tuple[str, ...]:
    """Return the injection vectors that are seen while a user task's ground truth runs."""
    from agentdojo.functions_runtime import FunctionsRuntime

    suite = suite_named(suite_name)
    marks = {vector: f"<CANARY---{vector}--->" for vector in _defaults(suite.name, suite.data_path)}
    task = suite.get_user_task_by_id(user_id)
    env, seen = environment(suite, marks), []
    runtime = FunctionsRuntime(suite.tools)
    for call in task.ground_truth(env):
        result, _ = runtime.run_function(env, call.function, call.args)
        seen += [str(text) for _, text in leaves(plain(result))]
    return tuple(vector for vector, mark in marks.items() if any(mark in text for text in seen))


def run_attacked(
    suite: Any,
    user_id: str,
    injection_id: str,
    guards: Mapping[str, Guard | None],
    attack: Any,
) -> dict[str, Ran]:
    """Run a user task in an environment with an injection, once behind each of some gates."""
    task = suite.get_user_task_by_id(user_id)
    injection = suite.get_injection_task_by_id(injection_id)
    texts = attack.attack(task, injection)
    fresh = environment(suite, texts)
    found = {}
    for name, guard in guards.items():
        script = Script(task, injection, guard)
        is_useful, is_harmed = suite.run_task_with_pipeline(
            script, task, injection, texts, environment=fresh.model_copy(deep=True)
        )
        found[name] = Ran(
            suite.name,
            user_id,
            injection_id,
            bool(is_useful),
            bool(is_harmed),
            script.was_seen,
            script.calls,
            tuple(script.blocked),
        )
    return found
