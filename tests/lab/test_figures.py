"""Figures that a repository can hold: small, and still the same picture."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

import headstart as hs
from headstart.lab.figures import MOST_BYTES, save_figure, save_small_figure, to_palette

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dense():
    """Noisy curves with bands in every panel, as the densest pages have them."""
    rng = np.random.Generator(np.random.Philox(key=3))
    with hs.house_style():
        figure = Figure(figsize=(7, 4))
        for ax in figure.subplots(2, 2).flat:
            for curve in range(6):
                y = rng.normal(size=300).cumsum() + 10 * curve
                ax.plot(y, label=f"arm {curve}")
                ax.fill_between(np.arange(300), y - 4, y + 4, alpha=0.2, linewidth=0)
            ax.legend(loc="upper left")
    return figure


@pytest.fixture(scope="module")
def usual(dense, tmp_path_factory):
    """The dense figure as it is drawn, in bytes of a PNG."""
    return save_figure(dense, tmp_path_factory.mktemp("usual") / "usual.png").read_bytes()


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


@pytest.fixture
def plain():
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    return figure


def test_a_small_figure_is_written_as_it_is(tmp_path, plain):
    usual, small = save_figure(plain, tmp_path / "usual.png"), save_small_figure(plain, tmp_path / "small.png")
    assert small.read_bytes() == usual.read_bytes()


def test_a_dense_figure_takes_a_palette_and_looks_the_same(tmp_path, dense, usual):
    small = save_small_figure(dense, tmp_path / "small.png").read_bytes()
    assert len(small) < MOST_BYTES < len(usual)
    one, other = pixels(usual), pixels(small)
    assert one.shape == other.shape
    assert (other[(one == 255).all(axis=2)] == 255).all()
    difference = np.abs(one - other).max(axis=2)
    assert difference.mean() < 2
    assert difference.max() < 40  # of 255
    assert save_small_figure(dense, tmp_path / "again.png").read_bytes() == small


def test_a_denser_figure_has_fewer_dots_per_inch(tmp_path, dense, usual):
    palette = len(to_palette(usual))
    small = save_small_figure(dense, tmp_path / "small.png", most_bytes=palette).read_bytes()
    assert len(small) < palette
    assert round(Image.open(io.BytesIO(small)).info["dpi"][0]) == 150


def test_a_figure_that_cannot_be_small_is_refused_and_not_written(tmp_path, plain):
    with pytest.raises(hs.HeadstartError, match=r"figure.png: the figure takes \d+ kB .* at most 1 kB") as error:
        save_small_figure(plain, tmp_path / "figure.png", most_bytes=1000)
    assert "fewer panels" in str(error.value)
    assert not list(tmp_path.iterdir())


def test_what_is_transparent_becomes_white():
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    clear.putpixel((1, 1), (0, 0, 255, 255))
    whole = io.BytesIO()
    clear.save(whole, format="PNG")
    found = pixels(to_palette(whole.getvalue()))
    assert found[0, 0].tolist() == [255, 255, 255]
    assert found[1, 1].tolist() == [0, 0, 255]


def test_every_figure_of_the_results_is_small():
    figures = list((ROOT / "docs" / "results").rglob("*.png"))
    assert figures
    assert not [f"{path.name}: {path.stat().st_size}" for path in figures if path.stat().st_size >= MOST_BYTES]
