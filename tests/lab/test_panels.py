"""Panels: arms that share a run, their claims and how they are drawn; and a study's figure."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import headstart as hs
from headstart.lab.areas import GapDifference, better
from headstart.lab.colours import CYCLE
from headstart.lab.estimates import GapRatio
from headstart.lab.panels import arms_of, shaded, small_and_large, with_medians
from headstart.lab.store import summarise

PARITY = hs.Run(hs.Parity(4, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), budget=hs.Budget(30, 10))
INDEX = replace(PARITY, task=hs.SingleIndex(4, hs.Hermite(1)))
LINES = small_and_large(hs.Fixed(8), hs.Online(), ("8 samples", "fresh"))


def panel(run=PARITY, lines=LINES, **options):
    return hs.Panel("p", "parity", run, (0.1, 0.2), lines, 0.9, **options)


def results(panels, curves):
    """Results in which every seed of an arm has one of the curves given."""
    arms = {arm.name: arm for arm in arms_of(panels)}
    steps, traces = np.array([0, 10, 20, 30]), {}
    for name, arm in arms.items():
        metric = f"test_{arm.run.task.metrics[0].name}"
        made = [
            hs.Trace(arm.run.cell, seed, steps, steps * 8, steps * 1.0, {metric: np.array(curve, dtype=np.float64)})
            for seed, curve in enumerate(curves[name])
        ]
        traces[name] = hs.Traces(tuple(made))
    summaries = {name: [summarise(arms[name].run, t) for t in traces[name]] for name in arms}
    return hs.Results(arms, summaries, traces, {}, None)


FAST, SLOW, CHANCE = (0.5, 1, 1, 1), (0.5, 0.5, 0.5, 1), (0.5,) * 4


def test_the_arms_of_a_panel_differ_in_what_its_lines_have_of_their_own():
    small, large = panel(seeds_factor=3, beta2=(0.9,)).arms()
    assert (small.name, small.label, small.run) == ("p_small", "8 samples", replace(PARITY, plan=hs.Fixed(8)))
    assert (large.name, large.label, large.run) == ("p_large", "fresh", PARITY)
    assert small.sweep == large.sweep == hs.rates(0.1, 0.2, beta2=(0.9,), score=hs.TimeToTarget(0.9))
    assert small.seeds_factor == large.seeds_factor == 3
    assert all(arm.sweep is None for arm in replace(panel(), rates=None).arms())


def test_a_small_set_is_warm_a_large_one_cold_and_a_line_without_a_colour_takes_that_of_its_place():
    assert [arm.colour for arm in panel().arms()] == [hs.warm(), hs.cold()]
    plain = panel(lines=tuple(hs.Line(name, name, hs.Online()) for name in "abc"))
    assert [arm.colour for arm in plain.arms()] == list(CYCLE[:3])
    assert [line.colour for line in shaded(hs.warm, plain.lines)] == [hs.warm(), hs.warm(1), hs.warm(2)]


def test_a_panel_compares_restricted_means_unless_it_says_otherwise():
    assert panel().ratio("small", "large") == hs.TimeRatio("p_small", "p_large", 0.9)
    assert panel(of=hs.Typical.MEDIAN_SEED).faster("small", "large", "?", "!").estimate.of is hs.Typical.MEDIAN_SEED
    old = panel(of=hs.Typical.MEAN_CURVE)
    assert old.level("small", "large", "?", "!").estimate.of is hs.Typical.MEAN_CURVE


def test_what_a_panel_claims_of_restricted_means_has_a_smallest_effect_and_asks_for_arrivals():
    faster = panel().faster("small", "large", "?", "!", kind=hs.Kind.PRIMARY)
    assert (faster.kind, faster.smallest) == (hs.Kind.PRIMARY, hs.Within(0.95, 1.05))
    assert panel(of=hs.Typical.MEAN_CURVE).faster("small", "large", "?", "!").smallest is None
    half = results([panel()], {"p_small": [FAST] * 4, "p_large": [FAST, FAST, CHANCE, CHANCE]})
    assert panel().closes("small", "large", "?", "!").rule == hs.closed(0.9)
    near = {"value": 1.0, "low": 0.99, "high": 1.01}
    few, all_arrive = (panel().ratio(*lines)(half) for lines in (("large", "small"), ("small", "small")))
    for claim in (panel().closes("small", "large", "?", "!"), panel().level("small", "large", "?", "!")):
        assert claim.verdict(replace(few, **near)) == "undecided"
        assert claim.verdict(replace(all_arrive, **near)) == "holds"


def test_a_panel_knows_where_the_phases_of_its_lines_end_and_rules_them():
    phases = hs.Phases((hs.Phase(size=8, steps=10), hs.Phase(size=16, steps=5), hs.Phase()))
    two = panel(lines=(LINES[0], hs.Line("phased", "phased", phases)))
    assert two.boundaries == [10, 15]
    assert panel().boundaries == []
    made = results([two], {"p_small": [SLOW] * 3, "p_phased": [FAST] * 3})
    ax = Figure().subplots()
    hs.draw_lines(ax, made, two)
    assert sorted(line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--") == [10, 15]


def test_a_goal_is_said_in_the_words_of_its_metric():
    assert panel().goal == "90% accuracy"
    assert panel(INDEX).goal == "a loss of 0.9 Var(y)"


def test_a_line_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(hs.HeadstartError, match="panel 'p' has no line 'medium'; there are small, large"):
        panel().label("medium")


def test_ratios_of_times_are_claimed_of_the_median_seed_too_and_nothing_else_is():
    time, gap = hs.TimeRatio("a", "b", 0.9), GapRatio(hs.TimeRatio("a", "b", 0.9), hs.TimeRatio("c", "d", 0.9))
    estimates = {"t": time, "g": gap, "f": hs.FinalRatio("a", "b")}
    claims = [hs.Claim(id, f"{id} is below 1", "?", hs.below(1), estimate) for id, estimate in estimates.items()]
    found = {claim.id: claim for claim in with_medians(claims)}
    assert list(found) == ["t", "t_median", "g", "g_median", "f"]
    assert found["t_median"].estimate == replace(time, of=hs.Typical.MEDIAN_SEED)
    assert found["g_median"].estimate.other.of is hs.Typical.MEDIAN_SEED
    assert found["t_median"].statement == "t is below 1 (median seed)"


def test_a_gain_is_the_difference_of_the_areas_and_undecided_where_nothing_is_learned():
    claim = better(panel(), "small", "large", "?")
    assert claim.id == "p_small_better_than_large"
    assert claim.statement == "parity: mean accuracy over the run, 8 samples against fresh; gain above 0"
    made = results([panel()], {"p_small": [FAST] * 3, "p_large": [SLOW] * 3})
    areas = [made.summaries[arm][0].area for arm in ("p_small", "p_large")]
    assert claim.estimate(made).value == pytest.approx(areas[0] - areas[1])
    assert claim.verdict(claim.estimate(made)) is hs.Verdict.HOLDS
    nothing = claim.estimate(results([panel()], {"p_small": [CHANCE] * 3, "p_large": [CHANCE] * 3}))
    assert np.isnan(nothing.value)
    assert claim.verdict(nothing) is hs.Verdict.UNDECIDED


def test_of_a_loss_less_is_better():
    claim = better(panel(INDEX), "small", "large", "?")
    assert claim.statement == "parity: mean loss over the run, 8 samples against fresh; reduction above 0"
    made = results([panel(INDEX)], {"p_small": [(1, 0, 0, 0)] * 3, "p_large": [(1, 1, 1, 0)] * 3})
    assert claim.estimate(made).value > 0


def test_the_difference_of_two_gaps_is_the_one_less_the_other():
    one, other = panel(), replace(panel(), name="q")
    curves = {"p_small": [FAST] * 3, "p_large": [FAST] * 3, "q_small": [FAST] * 3, "q_large": [SLOW] * 3}
    made = results([one, other], curves)
    gap = hs.Gain("q_small", "q_large")(made).value
    assert GapDifference(one, other, "small", "large")(made).value == pytest.approx(-gap)
    assert GapDifference(one, other, "small", "large").arms == ("p_small", "p_large", "q_small", "q_large")


def lines_of(ax):
    """(label, colour) of the curves of an axes."""
    return [(line.get_label(), to_hex(line.get_color()).upper()) for line in ax.lines if line.get_label()[0] != "_"]


def test_panels_are_drawn_in_a_grid_in_the_colours_of_their_lines():
    panels = [panel(), replace(panel(INDEX), name="q"), replace(panel(), name="r")]
    curves = {arm.name: [FAST, SLOW] for arm in arms_of(panels)} | {"q_large": [(5, 5, 5, 5)] * 2}
    figure = Figure()
    hs.draw_panels(figure, results(panels, curves), panels, columns=2)
    assert tuple(figure.get_size_inches()) == (7.0, 6.2)
    assert [ax.get_ylabel() for ax in figure.axes[:3]] == ["test accuracy", "test loss / Var(y)", "test accuracy"]
    assert [ax.axison for ax in figure.axes] == [True, True, True, False]
    assert lines_of(figure.axes[0]) == [("8 samples", hs.warm()), ("fresh", hs.cold())]
    assert figure.axes[1].get_ylim()[1] < 2.2, "a spike of the loss flattens the curves"


def test_an_arm_without_a_colour_takes_the_next_of_the_house_in_every_axes():
    made = results([panel()], {"p_small": [FAST] * 2, "p_large": [SLOW] * 2})
    arms = {"own": replace(made.arms["p_small"], colour="#123456")}
    arms |= {name: replace(arm, colour=None) for name, arm in made.arms.items()}
    traces = {"own": made.traces["p_small"], **made.traces}
    one, other = Figure().subplots(1, 2)
    for ax, names in ((one, arms), (other, reversed(list(arms)))):
        for name in names:
            hs.draw_curve(ax, replace(made, arms=arms, traces=traces), name)
    assert [colour for _, colour in lines_of(one)] == ["#123456", *CYCLE[:2]]
    assert [colour for _, colour in lines_of(other)] == [CYCLE[1], CYCLE[0], "#123456"]


def study(figure):
    return hs.Study("s", "S", "none", "none", {"laptop": hs.Knobs()}, {"laptop": 1}, lambda knobs: [], figure)


def test_a_study_draws_on_the_figure_it_is_given_in_the_house_style():
    def draw(results, figure):
        figure.set_size_inches(3, 2)
        figure.subplots().set_title("drawn")

    drawn = study(draw).draw(results([], {}))
    assert tuple(drawn.get_size_inches()) == (3, 2)
    assert drawn.get_layout_engine().__class__.__name__ == "ConstrainedLayoutEngine"
    assert drawn.axes[0].get_title(loc="left") == "drawn"  # titles are on the left in the house style


def test_a_figure_as_of_version_0_1_is_refused_before_anything_is_trained():
    with pytest.raises(hs.HeadstartError, match=r"too many positional arguments; write figure\(results, figure\)"):
        study(lambda results: None)


def test_side_is_gone_and_what_to_write_instead_is_said():
    with pytest.raises(hs.HeadstartError, match=r"Side was removed in version 0.2; use Arm\(colour=warm\(\)\)"):
        hs.Side  # noqa: B018
