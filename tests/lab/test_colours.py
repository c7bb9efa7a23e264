"""The colours of the house."""

import numpy as np
import pytest

import headstart as hs
from headstart.lab.colours import COLD, CYCLE, WARM, cycle


@pytest.mark.parametrize(("shades", "fixed"), [(hs.warm, WARM), (hs.cold, COLD)])
def test_the_first_shades_are_fixed_whatever_their_number(shades, fixed):
    assert shades() == fixed[0]
    assert [shades(i) for i in range(len(fixed))] == list(fixed)
    assert [shades(i, len(fixed)) for i in range(len(fixed))] == list(fixed)
    assert [shades(i, 3) for i in range(3)] == list(fixed[:3])


@pytest.mark.parametrize(("shades", "name"), [(hs.warm, "YlOrRd"), (hs.cold, "YlGnBu")])
def test_more_shades_are_spread_over_the_map_as_matplotlib_has_it(shades, name):
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    for i in range(9):
        expected = colormaps[name](0.3 + 0.65 * i / 8)[:3]
        assert np.abs(np.subtract(to_rgb(shades(i, 9)), expected)).max() < 2.5 / 255
    assert len({shades(i, 9) for i in range(9)}) == 9


def test_a_shade_that_is_not_there_is_refused():
    with pytest.raises(hs.HeadstartError, match=r"warm\(shade=5\): shades are counted from 0 to 4; of more than 5"):
        hs.warm(5)
    with pytest.raises(hs.HeadstartError, match=r"cold\(shade=9\): shades are counted from 0 to 8$"):
        hs.cold(9, 9)


def test_the_cycle_begins_again_after_its_last_colour():
    assert [cycle(i) for i in range(len(CYCLE) + 1)] == [*CYCLE, CYCLE[0]]
    assert len(set(CYCLE)) == len(CYCLE)


def test_a_colour_is_written_in_hex():
    with pytest.raises(hs.HeadstartError, match=r"Line\(colour='red'\): write \"#RRGGBB\", or use warm\(\)"):
        hs.Line("a", "a", hs.Online(), "red")
