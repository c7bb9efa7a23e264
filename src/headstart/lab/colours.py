"""The colours of the house, as hex strings: small sets are warm, large ones cold. Distinct to colour-blind readers."""

import re

from headstart.core.errors import HeadstartError

WARM = ("#D55E00", "#E69F00", "#CC79A7", "#882255", "#8A7A00")
COLD = ("#0072B2", "#56B4E9", "#004D40", "#332288", "#44AA99", "#888888")
# Arms that name no colour take these in turn.
CYCLE = ("#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#56B4E9", "#332288", "#888888")
# ColorBrewer's YlOrRd and YlGnBu, of which shades use the part from 0.3 to 0.95: paler ones are lost on white.
_WARM_MAP = ("#FFFFCC", "#FFEDA0", "#FED976", "#FEB24C", "#FD8D3C", "#FC4E2A", "#E31A1C", "#BD0026", "#800026")
_COLD_MAP = ("#FFFFD9", "#EDF8B1", "#C7E9B4", "#7FCDBB", "#41B6C4", "#1D91C0", "#225EA8", "#253494", "#081D58")
_FIRST, _LAST = 0.3, 0.95


def warm(shade: int = 0, of: int | None = None) -> str:
    """Warm colour number `shade`, counted from 0: one of five. Of more than five, a spread from yellow to red."""
    return _shade("warm", WARM, _WARM_MAP, shade, of)


def cold(shade: int = 0, of: int | None = None) -> str:
    """Cold colour number `shade`, counted from 0: one of six. Of more than six, a spread from green to blue."""
    return _shade("cold", COLD, _COLD_MAP, shade, of)


def cycle(place: int) -> str:
    """The colour of arm number `place` among those that name none."""
    return CYCLE[place % len(CYCLE)]


def check_colour(where: str, colour: str | None) -> None:
    """Raise unless the colour is None or written as #RRGGBB."""
    if colour is not None and not re.fullmatch("#[0-9a-fA-F]{6}", str(colour)):
        raise HeadstartError(f'{where}(colour={colour!r}): write "#RRGGBB", or use warm() or cold()')


def _shade(name: str, fixed: tuple[str, ...], spread: tuple[str, ...], shade: int, of: int | None) -> str:
    num = len(fixed) if of is None else of
    if not 0 <= shade < num:
        more = "" if of is not None else f"; of more than {num}, say of how many"
        raise HeadstartError(f"{name}(shade={shade}): shades are counted from 0 to {num - 1}{more}")
    if num <= len(fixed):
        return fixed[shade]
    place = (_FIRST + (_LAST - _FIRST) * shade / (num - 1)) * (len(spread) - 1)
    left = int(place)
    pairs = zip(_channels(spread[left]), _channels(spread[left + 1]), strict=True)
    return "#" + "".join(f"{round(a + (place - left) * (b - a)):02X}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue
