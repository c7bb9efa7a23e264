"""The sweeps of a study: arms that are compared have the same number of tries, and identical arms one choice."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from headstart.core.encoding import canonical, identity
from headstart.core.errors import HeadstartError
from headstart.core.trace import Traces
from headstart.lab.arms import Arm
from headstart.lab.scores import Score, Scored, score_cell
from headstart.lab.search import Search, choice_key
from headstart.lab.store import Store
from headstart.lab.sweep import RateOf, Sweep, Tuned
from headstart.run import Run


def comparisons(arms: Mapping[str, Arm], compared: Iterable[Sequence[str]]) -> list[list[str]]:
    """The arms with a sweep of their own, in groups: those that a claim compares, directly or by way of others."""
    group = {name: [name] for name, arm in arms.items() if isinstance(arm.sweep, Sweep)}
    for names in compared:
        own = [name for name in names if name in group]
        for one, other in pairwise(own):
            if group[one] is not group[other]:
                group[one] += group[other]
                for name in group[other]:
                    group[name] = group[one]
    return list({id(names): names for names in group.values()}.values())


def check_sweeps(arms: Mapping[str, Arm], compared: Iterable[Sequence[str]]) -> None:
    """Raise where a sweep leads nowhere, an arm borrows from one without a sweep, or comparisons are unequal."""
    own = [name for name, arm in arms.items() if not isinstance(arm.sweep, RateOf)]
    for name, arm in arms.items():
        if isinstance(arm.sweep, RateOf) and arm.sweep.arm not in own:
            there = ", ".join(own)
            raise HeadstartError(f"arm {name!r} has the rate of {arm.sweep.arm!r}; arms with their own: {there}")
        if isinstance(arm.sweep, Sweep):
            arm.check_sweep(arm.sweep)
    for group in comparisons(arms, compared):
        sizes = {name: arms[name].sweep.num_combinations for name in group}  # type: ignore[union-attr]
        if len(set(sizes.values())) > 1:
            least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
            raise HeadstartError(
                f"arms {least!r} and {most!r} are compared, and their sweeps try {sizes[least]} and {sizes[most]} "
                "combinations of values; give both the same axes, so that they have the same number of tries"
            )


class Tuning:
    """The sweeps of all arms of a study under way; `tuned` grows as comparisons settle."""

    def __init__(self, arms: Mapping[str, Arm], compared: Iterable[Sequence[str]], knobs: Any, store: Store) -> None:
        self.arms, self.compared, self.knobs, self.store = arms, list(compared), knobs, store
        self.tuned = {name: Tuned({"optimizer.lr": a.run.optimizer.lr}) for name, a in arms.items() if a.sweep is None}
        self.searches: dict[str, Search] = {}
        self.groups = []
        for group in comparisons(arms, self.compared):
            known = self._known(group)
            if known is not None:
                self.tuned |= known
                continue
            self.groups.append(group)
            for name in group:
                self.searches[name] = Search(arms[name].run, self._sweep(name), arms[name].selection_seeds(knobs))
        self._lend()

    def _sweep(self, name: str) -> Sweep:
        sweep = self.arms[name].sweep
        assert isinstance(sweep, Sweep)
        return sweep

    def _key(self, name: str, tries: int) -> str:
        arm = self.arms[name]
        return choice_key(arm.run, self._sweep(name), arm.selection_seeds(self.knobs), tries)

    def _key_of(self, group: list[str]) -> str:
        """What the number of tries of a comparison is stored under."""
        return identity(canonical(sorted(self._key(name, 0) for name in group)))

    def choice_keys(self) -> list[str]:
        """What the settled choices are stored under."""
        out = []
        for group in comparisons(self.arms, self.compared):
            tries = self.store.choices.get(self._key_of(group))
            out += [self._key_of(group), *(self._key(name, tries) for name in group if tries)]
        return out

    def _known(self, group: list[str]) -> dict[str, Tuned] | None:
        """The stored choices of a comparison, if it was settled before."""
        tries = self.store.choices.get(self._key_of(group))
        found = {name: self.store.choices.get(self._key(name, tries)) for name in group} if tries else {}
        if not found or None in found.values():
            return None
        return {name: Tuned.from_json(choice, self._sweep(name)) for name, choice in found.items()}

    def needed(self) -> list[tuple[Arm, Run, list[int]]]:
        """The cells that the searches need next, each with its arm and its seeds."""
        return [
            (self.arms[name], cell, seeds)
            for name, search in self.searches.items()
            if name not in self.tuned
            for cell, seeds in search.needed()
        ]

    def learn(self) -> None:
        """What was needed is in the store: go on to the next tries, the next rung, or a choice."""
        for name, search in self.searches.items():
            if name not in self.tuned and not search.done:
                search.learn(self._look)
        for group in self.groups:
            searches = [self.searches[name] for name in group]
            if all(search.explored and (search.done or not search.narrowing) for search in searches):
                tries = max(search.num_tries for search in searches)
                for search in searches:
                    search.raise_to(tries)
                if not any(search.narrowing for search in searches) and all(search.explored for search in searches):
                    for search in searches:
                        search.narrow()
            if all(search.done for search in searches) and group[0] not in self.tuned:
                self.settle({name: search.tuned() for name, search in zip(group, searches, strict=True)})
        self._lend()

    def settle(self, choices: Mapping[str, Tuned]) -> None:
        """Store the choices of a comparison, all of the same number of tries, and take what the store has then.

        Another study may have chosen for the same arm in the meantime.
        """
        (tries,) = {tuned.num_tries for tuned in choices.values()}
        for name, tuned in choices.items():
            self.store.choices.add(self._key(name, tries), tuned.to_json())
        self.store.choices.add(self._key_of(list(choices)), tries)
        known = self._known(list(choices))
        assert known is not None
        self.tuned |= known

    def _lend(self) -> None:
        lenders = {name: arm.sweep.arm for name, arm in self.arms.items() if isinstance(arm.sweep, RateOf)}
        self.tuned |= {name: self.tuned[arm].lent() for name, arm in lenders.items() if arm in self.tuned}

    def _look(self, score: Score, run: Run, seeds: Sequence[int]) -> Scored:
        traces = self.store.cell_traces(run.cell, seeds) if score.needs_curves else Traces(())
        return score_cell(score, run, self.store.summaries(run.cell, seeds), traces)
