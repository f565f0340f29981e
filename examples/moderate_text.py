"""Moderate a list of texts, live: a moderator answers, the appeal filter closes, an appeal comes.

Needs the profanity model: pip install alt-profanity-check.
"""

import gdcb
from gdcb.gates import Hold
from gdcb.instances.moderation import domain, features, learners

# The instance with a real moderator: nothing runs before they have answered.
instance = domain.instance(Hold())
bandit = learners.learner(learners.UNTUNED)
agent = gdcb.Agent(instance, bandit, seed=7)

texts = {
    "Thanks a lot for the recipe, it made my day.": 0.05,
    "Someone wrote to me 'you are an idiot', please have a look.": 0.15,
    "You are an 1d10t and everybody knows it.": 0.9,
    "The world was a better place before you learned to type.": 0.7,
}
contexts = [features.context_of(text, reach=0.3, reports=0.1) for text in texts]
cases = agent.decide(contexts, unit="gardeners", id="morning")
proposals = [case.proposed or {} for case in cases]
for text, proposed in zip(texts, proposals, strict=True):
    print(f"{proposed['category']:6} at severity {proposed['severity']:.2f}: {text}")

# The moderator approves, or puts another category in its place; the filter still has a say.
ran = [agent.resolve(case.id, "approve", by="Mo") for case in cases[:3]]
edit = {"category": "remove", "severity": proposals[3]["severity"]}
ran.append(agent.resolve(cases[3].id, "edit", edit, by="Mo", reason="an insult in fine words"))
for case in ran:
    assert case.executed is not None
    print(f"{case.id}: {case.executed['category']} ran ({case.reason})")

# What came of it, and the panel's rating of severity, which teaches the score.
for case, rating in zip(ran, texts.values(), strict=True):
    agent.observe(case.id, {"satisfied": 1, "violation": 0, "appeal": 0}, label=[rating])

# A week later an author appeals. It is written down with the decision, and teaches nobody.
agent.appeal(ran[2].id, upheld=False, reason="an insult, however it is spelt", by="Ida")
print(agent[ran[2].id].appeal)

# A text that is none is refused before anything is decided.
try:
    features.context_of("  ", reach=0.3, reports=0.1)
except gdcb.errors.InvalidInput as error:
    print(error)
