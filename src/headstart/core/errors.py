"""The one error a user meets: it names the argument, the value and the fix."""


class HeadstartError(ValueError):
    """A mistake at the boundary: bad input, a store that cannot be used, a study that does not exist.

    The message is one line that says which argument, which value, and what to do.
    """


def check_count(owner: str, name: str, value: object, minimum: int = 1, maximum: int | None = None) -> None:
    """Raise unless `value` is an integer of at least `minimum` and, if given, at most `maximum`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is a whole number of at least {minimum}")
    if maximum is not None and value > maximum:
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is at most {maximum}")


def check_positive(owner: str, name: str, value: object) -> None:
    """Raise unless `value` is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is a finite number above 0")


def check_nonnegative(owner: str, name: str, value: object) -> None:
    """Raise unless `value` is a finite number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is a finite number of at least 0")


def check_fraction(owner: str, name: str, value: object) -> None:
    """Raise unless `value` is a number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is a fraction in [0, 1]")


def check_flag(owner: str, name: str, value: object) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool):
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is True or False")
