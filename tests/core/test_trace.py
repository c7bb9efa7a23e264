"""Traces and collections of them."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.trace import Status, Trace, Traces
from headstart.core.units import Cost


def make_trace(accuracy, seed=0, status=Status.FINISHED, every=10):
    steps = np.arange(len(accuracy)) * every
    values = {"test_accuracy": np.asarray(accuracy, dtype=np.float64)}
    return Trace("cell", seed, steps, steps * 4, steps * 24.0, values, status)


def test_a_trace_answers_with_its_curves():
    assert make_trace([0.5, 0.75])["test_accuracy"].tolist() == [0.5, 0.75]


def test_a_metric_that_was_not_recorded_is_refused_with_those_that_were():
    with pytest.raises(HeadstartError, match=r"'accurcy'.*test_accuracy"):
        make_trace([0.5])["accurcy"]


def test_stacked_curves_hold_chance_after_a_divergence():
    traces = Traces((make_trace([0.5, 0.6, 0.7]), make_trace([0.5], 1, Status.DIVERGED)))
    assert traces.stack("test_accuracy", chance=0.5).tolist() == [[0.5, 0.6, 0.7], [0.5, 0.5, 0.5]]
    assert np.isnan(traces.stack("test_accuracy")[1, 1:]).all()
    assert traces.num_diverged == 1
    assert traces.grid().steps.tolist() == [0, 10, 20]


def test_traces_of_different_steps_cannot_be_stacked():
    with pytest.raises(HeadstartError, match="different steps"):
        Traces((make_trace([0.5, 0.6, 0.7]), make_trace([0.5, 0.6], every=5))).stack("test_accuracy")


def test_no_traces_have_no_grid():
    with pytest.raises(HeadstartError, match="no traces"):
        Traces(()).grid()


def test_a_slice_of_traces_is_traces():
    traces = Traces(tuple(make_trace([0.5], seed) for seed in range(4)))
    assert traces[1:3].seeds == (1, 2)
    assert traces[3].seed == 3
    assert [trace.seed for trace in traces] == [0, 1, 2, 3]


def test_a_table_has_one_row_a_record():
    table = Traces((make_trace([0.5, 0.6]), make_trace([0.5], 1, Status.DIVERGED))).to_pandas()
    assert table[["seed", "status", "step", "samples", "test_accuracy"]].values.tolist() == [
        [0, "finished", 0, 0, 0.5],
        [0, "finished", 10, 40, 0.6],
        [1, "diverged", 0, 0, 0.5],
    ]
    assert Traces(()).to_pandas().empty


def test_traces_show_themselves():
    traces = Traces((make_trace([0.5, 0.75]), make_trace([0.5], 1, Status.DIVERGED)))
    assert repr(traces) == "Traces(2 runs to step 10, 1 diverged; final mean test_accuracy 0.625)"
    assert "test_accuracy" in traces._repr_html_()
    assert repr(Traces(())) == "Traces(0 runs without records)"


def test_an_axis_is_shown_with_and_without_what_the_sources_cost():
    steps = np.array([0, 5])
    trace = Trace("c", 0, steps, 8 * steps, 80.0 * steps, {}, before=Cost(steps=3, samples=24, flops=240.0))
    assert trace.axis("samples").tolist() == [0, 40]
    assert trace.axis("samples", total=True).tolist() == [24, 64]
    assert trace.axis("steps", total=True).tolist() == [3, 8]
    assert trace.axis("flops", total=True).tolist() == [240, 640]
    with pytest.raises(HeadstartError, match=r"axis.*steps, samples, flops"):
        trace.axis("time")
    frame = Traces((Trace("c", 0, steps, 8 * steps, 80.0 * steps, {"test_loss": steps * 1.0}, before=trace.before),))
    assert frame.to_pandas()["before_samples"].tolist() == [24, 24]


def with_settings(seed, **settings):
    return replace(make_trace([0.5, 0.6], seed), settings={"task": "Parity", "task.dim": 6, **settings})


def test_the_settings_that_differ_are_columns_and_the_others_are_not():
    small, large = (Traces((with_settings(0, **{"optimizer.lr": lr}),)) for lr in (0.1, 0.2))
    both = small + large
    assert both.differing() == ["optimizer.lr"]
    frame = both.to_pandas()
    assert frame.groupby("optimizer.lr")["test_accuracy"].last().to_dict() == {0.1: 0.6, 0.2: 0.6}
    assert "task.dim" not in frame.columns
    assert "optimizer.lr" not in small.to_pandas().columns
    with pytest.raises(HeadstartError, match="add traces to traces"):
        small + 1


def test_a_setting_that_only_one_has_is_empty_for_the_others():
    both = Traces((with_settings(0, **{"plan.size": 16}), with_settings(1)))
    assert both.to_pandas()["plan.size"].isna().tolist() == [False, False, True, True]


def test_a_trace_shows_itself_in_a_notebook_and_names_are_escaped():
    shown = replace(make_trace([0.5, 0.75]), cell="<script>")._repr_html_()
    assert "<td>test_accuracy</td><td>0.5</td><td>0.75</td>" in shown
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert "0 records" in make_trace([])._repr_html_()


def test_traces_draw_every_run_and_the_mean_of_a_cell():
    from matplotlib import pyplot

    traces = Traces((make_trace([0.5, 0.7, 0.9]), make_trace([0.5, 0.9], seed=1, status=Status.DIVERGED)))
    ax = traces.plot()
    mean, *runs = ax.get_lines()
    np.testing.assert_allclose(mean.get_ydata(), [0.5, 0.8])
    assert [len(line.get_ydata()) for line in runs] == [3, 2]
    assert ax.get_ylabel() == "test_accuracy"
    assert traces[:1].plot("test_accuracy", axis="samples", ax=ax) is ax
    assert ax.get_xlabel() == "samples"
    assert len(ax.get_lines()) == 4
    slow, fast = (replace(with_settings(0, **{"optimizer.lr": lr}), cell=f"at {lr}") for lr in (0.1, 0.2))
    Traces((slow, fast)).plot(ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()][-1] == "optimizer.lr=0.2 (1)"
    with pytest.raises(HeadstartError, match="nonsense"):
        traces.plot("nonsense", ax=ax)
    with pytest.raises(HeadstartError, match="there are no traces"):
        Traces(()).plot(ax=ax)
    pyplot.close(ax.figure)
