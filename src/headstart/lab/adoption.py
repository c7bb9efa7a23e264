"""Settings that published pages chose, taken over so that a study trains its claims alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.arms import Arm
from headstart.lab.axes import with_values
from headstart.lab.store import Store
from headstart.lab.study import Study
from headstart.lab.sweep import Sweep, Tuned
from headstart.lab.tuning import Tuning, comparisons


def published_choices(study: Study, knobs: Any, reports: Sequence[Mapping[str, Any]]) -> dict[str, Tuned]:
    """What a published page of this study chose for the arms that still are what they were there.

    An arm is, if its run at the settings chosen is the cell that the page names, and the sweep of today would have
    tried no fewer settings, by another score, or on other numbers of seeds. Arms that a claim compares are taken
    together or not at all, so that they have the same number of tries. A draft is no source.
    """
    arms = {arm.name: arm for arm in study.arms(knobs)}
    pages = [r for r in reports if r["study"] == study.name and not r.get("draft")]
    found: dict[str, Tuned] = {}
    for group in comparisons(arms, study.compared(knobs)):
        for page in pages:
            choices = {name: tuned for name in group if (tuned := _published(arms[name], knobs, page))}
            if len(choices) == len(group) and len({tuned.num_tries for tuned in choices.values()}) == 1:
                found |= choices
                break
    return found


def adopt(study: Study, knobs: Any, store: Store, reports: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Take what published pages chose into the store, where it has no choice of its own.

    Returns how many arms' settings were taken, and how many are to be searched for.
    """
    known = published_choices(study, knobs, reports)
    tuning = Tuning({arm.name: arm for arm in study.arms(knobs)}, study.compared(knobs), knobs, store)
    fitting = [group for group in tuning.groups if known.keys() >= set(group)]
    for group in fitting:
        tuning.settle({name: known[name] for name in group})
    taken = sum(len(group) for group in fitting)
    return taken, len(tuning.searches) - taken


def _published(arm: Arm, knobs: Any, page: Mapping[str, Any]) -> Tuned | None:
    """What a page chose for an arm; None if the arm is another one now, or would be swept otherwise."""
    sweep = arm.sweep
    assert isinstance(sweep, Sweep)
    try:
        tuned = Tuned.from_json(page["choices"][arm.name], sweep)
        same_arm = with_values(arm.run, tuned.values).cell == page["arms"][arm.name]["cell"]
    except (KeyError, TypeError, HeadstartError):  # no such arm there, or settings that it does not have
        return None
    seeds = len(arm.selection_seeds(knobs))
    # A search that finds nothing above chance ends on its first rung.
    rung = seeds if tuned.learned else min((*sweep.rungs, seeds))
    swept_alike = (
        set(tuned.values) == {axis.path for axis in sweep.axes}
        and tuned.num_tries >= sweep.tries
        and max(scored.num_seeds for _, scored in tuned.tries) == rung
        and tuned.by.startswith((sweep.score.words, "the area"))
    )
    return replace(tuned, page=tuned.page or str(page["commit"])) if same_arm and swept_alike else None
