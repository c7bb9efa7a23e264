"""Training from Python."""

from dataclasses import replace

import numpy as np
import pytest
from small_runs import parity_run

import headstart as hs
from headstart.lab.ledger import Edition


def test_a_number_of_seeds_is_that_many_from_0_on():
    assert hs.train(parity_run(), seeds=3).seeds == (0, 1, 2)
    assert hs.train(parity_run(), seeds=np.int64(2)).seeds == (0, 1)
    assert hs.train(parity_run(), seeds=[3]).seeds == (3,)
    assert hs.train(parity_run().at(4)).seeds == (4,)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"seeds": 0}, r"seeds=0\).*at least 1"),
        ({"seeds": -2}, "seeds=-2"),
        ({"seeds": True}, "seeds=True"),
        ({"seeds": 2.5}, r"seeds=2\.5.*such as 8"),
        ({"seeds": "abc"}, "seeds='abc'"),
        ({"seeds": 10**11}, r"seeds=100000000000.*\[100000000000\]"),
        ({"seeds": []}, "give 1 to"),
        ({"seeds": [1.5]}, r"seed=1\.5"),
        ({"seeds": [-1]}, "seed=-1"),
        ({"seeds": [2**32]}, "seed=4294967296"),
        ({"jobs": 0}, "jobs=0"),
        ({"jobs": "two"}, "jobs='two'"),
        ({"progress": 1}, "progress=1"),
        ({"store": 3}, r"train\(store=3\)"),
        ({"device": "abacus"}, "abacus"),
        ({"device": 7}, "7"),
    ],
)
def test_a_wrong_argument_is_named(arguments, named):
    with pytest.raises(hs.HeadstartError, match=named):
        hs.train(parity_run(), **arguments)


@pytest.mark.parametrize("run", [None, 3, hs.Run, [parity_run()], hs.Parity(6, 2)])
def test_what_is_no_run_is_named(run):
    with pytest.raises(hs.HeadstartError, match=r"train\(run="):
        hs.train(run)


def test_traces_of_several_runs_have_their_settings_as_columns():
    slow, fast = parity_run(), parity_run(optimizer=hs.SGD(0.3), model=hs.MLP(width=8))
    frame = (hs.train(slow, seeds=2) + hs.train(fast, seeds=2)).to_pandas()
    assert set(frame["optimizer.lr"]) == {0.1, 0.3}
    assert set(frame["model.width"]) == {4, 8}
    assert "task.dim" not in frame.columns


def test_a_run_and_a_store_show_themselves_in_a_notebook(tmp_path):
    run = parity_run()
    assert "<td>optimizer.lr</td><td>0.1</td>" in run._repr_html_()
    assert "<td>task</td><td>Parity</td>" in run._repr_html_()
    with hs.open_store(tmp_path / "<b>.sqlite") as store:
        assert "0 runs of 0 cells" in repr(store)
        hs.train(run, seeds=3, store=store)
        hs.train(replace(run, optimizer=hs.SGD(0.3)), store=store)
        report = {"preset": "laptop", "claims": [{"verdict": "holds"}, {"verdict": "holds"}]}
        store.studies.finish(Edition("<i>study", "laptop", "{}"), [], report)
        assert "4 runs of 2 cells" in repr(store)
        shown = store._repr_html_()
    assert "<td>&lt;i&gt;study</td><td>laptop</td><td>2 holds</td>" in shown
    assert "<b>" not in shown
