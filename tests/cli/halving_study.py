"""Do runs that are stopped while a sweep explores, and while it halves, end as if nothing had happened?"""

from dataclasses import dataclass, replace

import headstart as hs


@dataclass(frozen=True)
class Knobs(hs.Knobs):
    steps: int = 200


def arms(knobs):
    budget = hs.Budget(knobs.steps, 20)
    run = hs.Run(hs.Parity(6, 2), hs.MLP(8), hs.Online(), hs.MSE(), hs.SGD(0.1), hs.Batch(16), budget=budget)
    sweep = hs.rates(0.1, 0.3, tries=4, rungs=(1, 2))
    return [
        hs.Arm("small", "48", replace(run, plan=hs.Fixed(48)), sweep, hs.warm()),
        hs.Arm("large", "fresh", run, sweep),
    ]


def claims(knobs):
    return [hs.Claim("final", "small is better", "-", hs.above(1), hs.FinalRatio("small", "large"))]


def figure(results, picture):
    hs.draw_curve(picture.subplots(), results, "small")


SMOKE = Knobs(num_seeds=6, num_selection_seeds=4)
STUDY = hs.Study(
    name="halving_study",
    title="A study whose sweeps halve",
    paper="none",
    figures="none",
    presets={"smoke": SMOKE},
    minutes={"smoke": 0},
    arms=arms,
    claims=claims,
    figure=figure,
)
