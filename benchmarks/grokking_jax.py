"""JAX on modular addition: gradients vmapped over members, steps scanned and jitted whole, buffers donated."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks.grokking_peers import start

# Steps of one compiled scan.
_SCAN = 2


def _loss(weights: dict[str, jax.Array], x: jax.Array, y: jax.Array, way: str) -> jax.Array:
    """As that of torch; "one-hot" multiplies the tables by one-hot rows instead of looking them up."""
    table = weights["embedding.weight"]
    if "embedding.map" in weights:
        table = table @ weights["embedding.map"].T
    layers = [weights[name] for name in sorted(weights) if name.startswith("layers.")]
    one, two = jnp.split(layers[0], 2, axis=1)
    if way == "vectors":
        h = table[x].reshape(len(x), -1) @ layers[0].T
    elif way == "tables":
        h = (table @ one.T)[x[:, 0]] + (table @ two.T)[x[:, 1]]
    else:
        both = jnp.concatenate([table @ one.T, table @ two.T])
        h = jax.nn.one_hot(x + jnp.array([0, len(table)]), 2 * len(table)).sum(axis=1) @ both
    for layer in layers[1:]:
        h = jax.nn.relu(h) @ layer.T
    right = jnp.take_along_axis(h, y[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(h, axis=1) - right)


class Jax:
    """A stack of members."""

    def __init__(self, setting: Any, way: str, members: int) -> None:
        arrays, x, y = start(setting, members)
        self.members, self.data = members, (jnp.asarray(x, jnp.int32), jnp.asarray(y, jnp.int32))
        weights = {name: jnp.asarray(a) for name, a in arrays.items()}
        zeros = [jax.tree.map(jnp.zeros_like, weights) for _ in "mv"]
        self.state = weights, *zeros, jnp.zeros(())
        self.gradient = jax.vmap(jax.grad(lambda w, x, y: _loss(w, x, y, way)))
        self.optimizer = setting.run.optimizer
        self.scanned = jax.jit(self._scan, static_argnums=2, donate_argnums=0)

    def _scan(self, state: Any, data: Any, num_steps: int) -> Any:
        o = self.optimizer

        def body(state: Any, _: None) -> tuple[Any, None]:
            weights, m, v, t = state
            g, t = self.gradient(weights, *data), t + 1
            m = jax.tree.map(lambda m, g: o.beta1 * m + (1 - o.beta1) * g, m, g)
            v = jax.tree.map(lambda v, g: o.beta2 * v + (1 - o.beta2) * g * g, v, g)

            def updated(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
                root = jnp.sqrt(v / (1 - o.beta2**t)) + o.eps
                return w * (1 - o.lr * o.weight_decay) - o.lr / (1 - o.beta1**t) * m / root

            return (jax.tree.map(updated, weights, m, v), m, v, t), None

        return jax.lax.scan(body, state, None, length=num_steps)[0]

    def advance(self, num_steps: int) -> int:
        """Steps of all members; the number of model-steps."""
        calls, rest = divmod(num_steps, _SCAN)
        for length in [_SCAN] * calls + [1] * rest:
            self.state = self.scanned(self.state, self.data, length)
        self.state = jax.block_until_ready(self.state)
        return num_steps * self.members

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of the stack."""
        return {name: torch.from_numpy(np.array(a)) for name, a in self.state[0].items()}
