"""A study that trains nothing, with a finding and claims of several kinds, for the tests of pages."""

from small_runs import Powers

import headstart as hs


def largest(results):
    value = float(results.computed["powers"]["power"].max())
    return hs.Estimate(value, value - 1, value + 1, arrivals=0.926, horizon=2500.0)


def no_bound(results):
    return hs.Estimate(float("inf"), 1.0, float("inf"))


largest.axis = "steps"


def figure(results, figure):
    figure.subplots().plot(results.computed["powers"]["power"])


def claims(knobs):
    return [
        hs.Claim("control", "a control that does not hold", "none", hs.above(30), largest, hs.Kind.CONTROL),
        hs.Claim("large", "|the largest| is above 10", "no number", hs.above(10), largest, hs.Kind.PRIMARY),
        hs.Claim("more", "another look", "none", hs.above(10), no_bound),
    ]


STUDY = hs.Study(
    name="tests/reported",
    title="A study with a finding",
    paper="no paper",
    figures="no figure",
    presets={"laptop": hs.Knobs(), "smoke": hs.Knobs()},
    minutes={"laptop": 0.1, "smoke": 0.1},
    computed=lambda knobs, arms: {"powers": Powers(3.0)},
    claims=claims,
    figure=figure,
    doc="A study without arms.",
    finding="That the largest is above 10 {large.says}: it is {large}. The paper has {large.paper}.",
)
