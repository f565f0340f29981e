"""Posts whose severity is known because they were built: template, target, intensity, disguise.

A post is a *core* (talk, praise, a swear word, criticism, an insult, a veiled insult, a threat)
about a *target*, at an *intensity*, told in a *frame* (plainly, quoted, denied, in jest, as a
medical term, as sarcasm), and perhaps *disguised* (1d10t, i d i o t, idiooot, id*ot, CAPITALS).
Core, target, intensity and frame make the severity; a disguise changes only how it looks.

The language is mild on purpose: no slurs, no explicit threats, nothing worse than 'moron' and
'damn'. What that costs in realism is said in README.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.scalers.settings import check_whole

PARTS = ("attack", "threat", "vulgarity")  # what severity is made of
HOUSE = (1.0, 1.0, 0.35)  # what each counts for on an average platform

TOPICS = (
    *("the new recipe", "last night's match", "this update", "the bus timetable", "your photo"),
    *("the third chapter", "the garden", "that film", "the meeting", "the bike lane", "my code"),
)
TALK = (
    "has anyone tried {topic} yet? I am curious",
    "I will write about {topic} tomorrow, once the rain stops",
    "can you explain {topic} to me, please",
    "we were talking about {topic} over lunch",
    "{topic} is at six, bring a chair",
)
PRAISE = (
    "thanks a lot for {topic}, it made my day",
    "I love {topic}, what a treat",
    "great work on {topic}, well done",
)
SWEARS = ("damn", "bloody hell", "crap")
SWEARING = (
    "{swear}, {topic} is good",
    "{topic} is damn brilliant",
    "oh {swear}, I forgot {topic}",
    "what the hell happened to {topic}",
)
# Nouns by intensity, and what an insult of that intensity weighs.
NOUNS = (("silly", "clueless"), ("fool", "clown"), ("idiot", "moron", "loser", "liar"))
WEIGHT = (0.35, 0.6, 0.9)
CRITICISM = (
    ("{topic} is a bit dull", "I did not enjoy {topic}"),
    ("{topic} is rubbish", "{topic} is a joke"),
    ("{topic} is garbage and stupid", "{topic} is pathetic trash"),
)
VEILED = (
    "nobody asked for {them} here, and nobody would miss {them}",
    "some of us can read, {they} clearly cannot",
    "every village has one, and ours is {they}",
    "the world was a better place before {they} learned to type",
)
THREATS = (
    "keep talking like that and see what happens to {them}",
    "{they} will regret this, wait and see",
    "I know where {they} post, and soon everyone will",
)
SARCASM = (
    "oh what a genius, {topic} must have taken a whole minute of thought",
    "wow, well done, only {they} could ruin {topic} so completely",
    "thanks a lot, {they} really are a gift to us all, please never change",
)
# Who is meant: subject, object, verb, and how much of the weight it has.
TARGETS = {
    "you": ("you", "you", "are", 1.0),
    "group": ("those fans", "those fans", "are", 0.9),
    "third": ("the author", "the author", "is", 0.75),
    "self": ("I", "me", "am", 0.1),
}
# How it is told, and how much of the weight is left.
FRAMES = {
    "plain": ("{core}", 1.0),
    "quoted": ("someone wrote to me '{core}', please have a look", 0.12),
    "denied": ("I never said that {core}, and I do not think so", 0.2),
    "jest": ("{core}, said with love, we both laughed", 0.15),
    "medical": ("in old medical texts one reads '{core}', a term of its day", 0.05),
}
DISGUISES = ("none", "leet", "spaced", "stretched", "masked", "capitals", "shouted")
_LEET = str.maketrans({"i": "1", "o": "0", "e": "3", "a": "4"})
# Kinds of core, and how often each comes.
KINDS = ("talk", "praise", "swearing", "criticism", "insult", "veiled", "threat", "sarcasm")
SHARES = (0.18, 0.08, 0.12, 0.14, 0.24, 0.09, 0.08, 0.07)
_FRAME_SHARES = (0.56, 0.14, 0.1, 0.12, 0.08)
_TARGET_SHARES = (0.5, 0.15, 0.25, 0.1)
_SWEARS_TOO = 0.15  # how often a swear word is put before anything else
_VEILED, _SARCASM = 0.7, 0.55
_THREAT = (0.65, 0.8, 0.95)


@dataclass(frozen=True, slots=True)
class Post:
    """A post and how it was built.

    Parameters
    ----------
    text : as readers see it
    kind, target, frame, disguise : how it was built
    attack, threat, vulgarity : in [0, 1], what its severity is made of
    """

    text: str
    kind: str
    target: str
    frame: str
    disguise: str
    attack: float
    threat: float
    vulgarity: float

    @property
    def parts(self) -> tuple[float, float, float]:
        """Attack, threat and vulgarity."""
        return self.attack, self.threat, self.vulgarity

    @property
    def severity(self) -> float:
        """Severity in [0, 1] as an average platform sees it.

        >>> Post("…", "insult", "you", "plain", "none", 0.9, 0.0, 0.5).severity
        1.0
        """
        total = sum(w * part for w, part in zip(HOUSE, self.parts, strict=True))
        return min(1.0, total)


def posts(n: int, seed: int) -> list[Post]:
    """Build n posts; the same seed builds the same posts, and a longer list begins alike."""
    check_whole("n", n, 1)
    rng = np.random.Generator(np.random.PCG64(seed))
    return [_post(rng.random(12)) for _ in range(n)]


def _post(u: Array) -> Post:
    kind = _weighted(KINDS, SHARES, u[0])
    topic = _pick(TOPICS, u[1])
    target = _weighted(tuple(TARGETS), _TARGET_SHARES, u[2])
    level = int(u[3] * len(WEIGHT))
    core, attack, threat = _core(kind, target, level, topic, u[4], u[5])
    is_framed = kind in ("criticism", "insult", "threat")
    frame = _weighted(tuple(FRAMES), _FRAME_SHARES, u[6]) if is_framed else "plain"
    pattern, share = FRAMES[frame]
    disguise = _pick(DISGUISES[1:], u[7]) if u[8] < 0.35 else "none"
    text = pattern.format(core=_disguised(core, disguise, u[9]))
    vulgarity = 0.0
    if kind == "swearing":
        vulgarity = 0.6
    elif u[10] < _SWEARS_TOO:
        text, vulgarity = f"{_pick(SWEARS, u[11])}, {text}", 0.5
    if disguise == "shouted":
        text = text.upper() + "!!!"
    ending = "" if text[-1] in "?!" else "."
    return Post(
        text[:1].upper() + text[1:] + ending,
        kind,
        target,
        frame,
        disguise,
        round(attack * share, 4),
        round(threat * share, 4),
        vulgarity,
    )


def _core(
    kind: str, target: str, level: int, topic: str, u: float, v: float
) -> tuple[str, float, float]:
    """Return the core's words, its attack and its threat, before any frame."""
    they, them, verb, weight = TARGETS[target]
    if kind == "talk":
        return _pick(TALK, u).format(topic=topic), 0.0, 0.0
    if kind == "praise":
        return _pick(PRAISE, u).format(topic=topic), 0.0, 0.0
    if kind == "swearing":
        return _pick(SWEARING, u).format(topic=topic, swear=_pick(SWEARS, v)), 0.0, 0.0
    if kind == "criticism":  # of a thing: a third of what a person would feel
        return _pick(CRITICISM[level], u).format(topic=topic), 0.3 * WEIGHT[level], 0.0
    if kind == "veiled":
        return _pick(VEILED, u).format(they=they, them=them), _VEILED * weight, 0.0
    if kind == "sarcasm":
        return _pick(SARCASM, u).format(they=they, topic=topic), _SARCASM * weight, 0.0
    if kind == "threat":
        return _pick(THREATS, u).format(they=they, them=them), 0.0, _THREAT[level] * weight
    noun = _pick(NOUNS[level], u)
    article = "" if level == 0 else ("an " if noun[0] in "aeiou" else "a ")
    plural = "s" if target == "group" and level > 0 else ""
    article = "" if plural else article
    return f"{they} {verb} {article}{noun}{plural}", WEIGHT[level] * weight, 0.0


def _disguised(core: str, disguise: str, u: float) -> str:
    """Disguise the telling word of a core: its last one."""
    head, _, word = core.rpartition(" ")
    if disguise == "leet":
        word = word.translate(_LEET)
    elif disguise == "spaced":
        word = " ".join(word)
    elif disguise == "stretched":
        at = 1 + int(u * (len(word) - 1))
        word = word[:at] + word[at - 1] * 3 + word[at:]
    elif disguise == "masked" and len(word) > 2:
        at = 1 + int(u * (len(word) - 2))
        word = word[:at] + "*" + word[at + 1 :]
    elif disguise == "capitals":
        word = word.upper()
    return f"{head} {word}".strip()


def _pick(some: tuple[str, ...], u: float) -> str:
    return some[int(u * len(some))]


def _weighted(some: tuple[str, ...], shares: tuple[float, ...], u: float) -> str:
    return some[min(int(np.searchsorted(np.cumsum(shares), u, side="right")), len(some) - 1)]
