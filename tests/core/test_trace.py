"""Traces and collections of them."""

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
    with pytest.raises(HeadstartError, match="nonsense"):
        traces.plot("nonsense", ax=ax)
    with pytest.raises(HeadstartError, match="there are no traces"):
        Traces(()).plot(ax=ax)
    pyplot.close(ax.figure)
