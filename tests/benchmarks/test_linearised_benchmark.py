"""The contestants of a linearised step take the same steps."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.linearised import Steps, same_scores

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")


def test_ours_and_the_recipe_have_the_same_scores_after_some_steps():
    assert same_scores(Steps("small", rows=6, batch=6)) < 1e-4
