"""Heatmaps say the value of each cell."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import headstart as hs
from headstart.lab.heatmaps import Heatmap, mark

HEATMAP = Heatmap(("a", "b"), ("c",), "columns", "rows", "accuracy", 0.5, 1.0)


def test_a_cell_has_its_value_and_a_difference_is_coloured_about_0():
    one, other = Figure().subplots(1, 2)
    HEATMAP.draw(one, np.array([[0.5, 1.0]]), "plain")
    HEATMAP.draw(other, np.array([[-0.25, 0.1]]), "difference", signed=True)
    assert [text.get_text() for text in one.texts] == [".50", "1"]
    assert [text.get_text() for text in other.texts] == ["-.25", ".10"]
    assert other.images[0].get_clim() == (-0.25, 0.25)
    mark(one, 0, 1, "best")
    assert one.patches[0].get_bbox().bounds == (0.5, -0.5, 1, 1)


def test_values_of_another_shape_are_refused():
    with pytest.raises(hs.HeadstartError, match="1 x 2 cells"):
        HEATMAP.draw(Figure().subplots(), np.zeros((2, 2)), "")
