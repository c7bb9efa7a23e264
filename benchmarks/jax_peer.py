"""JAX: the gradient of one member's loss, vmapped over members, scanned over steps, jitted whole, buffers donated."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from numpy.typing import NDArray

from benchmarks.peer import Layers, Setup
from benchmarks.vmap_peer import joined
from benchmarks.workloads import Workload
from headstart import SGD, Parity

# Steps of one compiled scan: fewer where a step is long.
SCAN_ONLINE, SCAN_FIXED, SCAN_POPULATION = 16, 2, 1


class Jax:
    """Stacks of `setup.members`; each takes all steps before the next."""

    def __init__(self, workload: Workload, first: int, members: int, setup: Setup) -> None:
        self.members = members
        size = setup.members or members
        single = workload.members == 1
        self.scan = SCAN_ONLINE if workload.is_online else SCAN_POPULATION if single else SCAN_FIXED
        self.model = _Model(workload)
        ends = range(first, first + members, size)
        self.states = [self.model.start(begin, min(size, first + members - begin)) for begin in ends]
        fixed = [None if workload.is_online else workload.finite_set(b, min(size, first + members - b)) for b in ends]
        self.sets = [None if s is None else jax.tree.map(jnp.asarray, s) for s in fixed]

    def step(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        begin = 0
        for number, state in enumerate(self.states):
            end = begin + len(state["weights"][0][0])
            self.states[number] = jax.jit(self.model.step)(state, jnp.asarray(x[begin:end]), jnp.asarray(y[begin:end]))
            begin = end

    def advance(self, num_steps: int) -> int:
        calls = -(-num_steps // self.scan)
        for number, state in enumerate(self.states):
            for _ in range(calls):
                state = self.model.advance(state, self.sets[number], self.scan)
            self.states[number] = jax.block_until_ready(state)
        return calls * self.scan * self.members

    def layers(self) -> Layers:
        def arrays(layer: Any) -> Any:
            return np.array(layer[0]), None if layer[1] is None else np.array(layer[1])

        return joined([[arrays(layer) for layer in state["weights"]] for state in self.states])


def _loss(layers: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T
        x = x if bias is None else x + bias
        x = jax.nn.relu(x) if i + 1 < len(layers) else x
    return jnp.mean((x[:, 0] - y) ** 2)


class _Model:
    """Pure functions of a state: weights, moments, step, random key, teachers."""

    def __init__(self, workload: Workload) -> None:
        self.workload, self.task, self.optimizer = workload, workload.run.task, workload.run.optimizer
        self.advance = jax.jit(self._advance, static_argnums=2, donate_argnums=0)

    def start(self, first: int, members: int) -> dict[str, Any]:
        weights = [
            (jnp.asarray(w), None if b is None else jnp.asarray(b)) for w, b in self.workload.weights(first, members)
        ]
        adam = not isinstance(self.optimizer, SGD)
        teachers = [] if isinstance(self.task, Parity) else [self.task.teacher(first + i) for i in range(members)]
        return {
            "weights": weights,
            "moments": [jax.tree.map(jnp.zeros_like, weights) for _ in "mv"] if adam else [],
            "time": jnp.zeros(()),
            # The generator of XLA itself, much faster on a CPU than threefry.
            "key": random.key(first, impl="unsafe_rbg"),
            "teachers": jnp.asarray(np.array(teachers), dtype=jnp.float32),
        }

    def draw(self, state: dict[str, Any], key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """A fresh batch: one random word a sample for signs, its bits the coordinates."""
        shape = (len(state["weights"][0][0]), self.workload.samples)
        if isinstance(self.task, Parity):
            words = random.bits(key, shape, jnp.uint32)
            signs = 1.0 - 2.0 * (words[..., None] >> jnp.arange(self.task.dim, dtype=jnp.uint32) & 1).astype(
                jnp.float32
            )
            own = np.uint32(sum(1 << i for i in self.task.support))
            return signs, 1.0 - 2.0 * (lax.population_count(words & own) & 1).astype(jnp.float32)
        x = random.normal(key, (*shape, self.task.dim))
        z = jnp.einsum("mbd,md->mb", x, state["teachers"])
        return x, z * (z**2 - 3)

    def step(self, state: dict[str, Any], x: jax.Array, y: jax.Array) -> dict[str, Any]:
        """One optimizer step of every member."""
        gradient = jax.vmap(jax.grad(_loss))(state["weights"], x, y)
        o, weights = self.optimizer, state["weights"]
        if isinstance(o, SGD):
            return state | {"weights": jax.tree.map(lambda w, g: w - o.lr * g, weights, gradient)}
        t = state["time"] + 1
        m = jax.tree.map(lambda m, g: o.beta1 * m + (1 - o.beta1) * g, state["moments"][0], gradient)
        v = jax.tree.map(lambda v, g: o.beta2 * v + (1 - o.beta2) * g * g, state["moments"][1], gradient)

        def updated(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            root = jnp.sqrt(v / (1 - o.beta2**t)) + o.eps
            return w * (1 - o.lr * o.weight_decay) - o.lr / (1 - o.beta1**t) * m / root

        return state | {"weights": jax.tree.map(updated, weights, m, v), "moments": [m, v], "time": t}

    def _advance(self, state: dict[str, Any], fixed: Any, num_steps: int) -> dict[str, Any]:
        def body(state: dict[str, Any], _: None) -> tuple[dict[str, Any], None]:
            if fixed is not None:
                return self.step(state, *fixed), None
            key, own = random.split(state["key"])
            return self.step(state | {"key": key}, *self.draw(state, own)), None

        return lax.scan(body, state, None, length=num_steps)[0]
