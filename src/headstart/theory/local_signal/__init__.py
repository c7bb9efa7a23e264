"""Local signals: a filter with a soft threshold in closed form and as a reduced chain; kernels of random channels.

Importing this package does not import numba; kernels are compiled, or read from the cache, on first use.
Reference: Local Signal Adaptivity: Provable Feature Learning in Neural Networks Beyond Kernels.
"""

from headstart.theory.local_signal.chain import FilterSGD
from headstart.theory.local_signal.channels import ChannelRule, channel_covariance, proven_error
from headstart.theory.local_signal.events import events
from headstart.theory.local_signal.flow import FilterFlow
from headstart.theory.local_signal.gaussian import (
    largest_exceeds,
    mills_bounds,
    mills_ratio,
    parts_given_sum,
    small_ball,
    truncated_normal,
)
from headstart.theory.local_signal.one_channel import OneChannel, best_error, rule_error, share_below
from headstart.theory.local_signal.threshold import Filters, Gradients

__all__ = [
    "ChannelRule",
    "FilterFlow",
    "FilterSGD",
    "Filters",
    "Gradients",
    "OneChannel",
    "best_error",
    "channel_covariance",
    "events",
    "largest_exceeds",
    "mills_bounds",
    "mills_ratio",
    "parts_given_sum",
    "proven_error",
    "rule_error",
    "share_below",
    "small_ball",
    "truncated_normal",
]
