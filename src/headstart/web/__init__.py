"""Level 8: the local page over a store. `headstart ui` serves it, `headstart ui --export DIR` writes it.

Its server needs the extra `ui`; what is in `static` is served as it is, without a build step.
"""
