"""From a small network to a Transformer: the table of a weak FNN in a model of another kind, against GrokFast too.

Paper     Let Me Grok For You, Figs. 6, 8, 13, 15a and 16, Table 1, Section 4.2; Appendix A.3.3 and A.4.1
Claim     The table of a weak fully connected network removes the delay of a Transformer, more than GrokFast does, and
          saves compute with the weak model counted. Random factors A B do not. On parity Transformers have no delay.
Setting   Pairs of p = 113 symbols, a quarter of them for training. The target is a causal Transformer of two tokens, no
          layer norm and no biases, learned positions, read at its last token; AdamW with full batches, PyTorch's
          initialisation times a factor. The weak model and its rule are those of `fnn_to_fnn`: the paper takes the
          first epoch with 30% of the test pairs (arm "paper's rule"); here no test label chooses. GrokFast is the
          exponential mean with decay 0.98 and strength 2, which the paper does not state. On parity the Transformer
          reads one token per sign and averages its tokens, with fixed settings.
Measured  The time gap and the restricted mean epoch of 95% on test pairs; FLOPs and seconds with weak models and
          restarts. 95% paired bootstrap over seeds. Every arm tries the same combinations of initial scale, rate and
          decay, narrowed by half from rung to rung on up to 8 seeds that no claim uses. Random factors take the
          settings of transfer, so that the table alone differs. An arm that does not get there in its budget counts
          with the whole budget, so the true ratio to it is then at most the one that is said.
Open      The MLP of the two-layer Transformer is 512 wide in Section 4.2 and 128 in A.3.3: a knob, 128 here. The paper
          does not say what AdamW's betas are; PyTorch's here. Of 12 weak models on other seeds with scale 0.5, rate
          0.01 and decay 1, four had 50% of the validation pairs by epoch 580, three 70% by epoch 940.
Errata    A.3.3's "Figure 6(b)" and 15a's "Figure 6 Right" are the model of Fig. 8. The weak model has three layers in
          Fig. 6 and Table 1, two layers of width 4 in A.3.3, and width 16 in A.3.1; here the last. A.4.1 counts the
          target with an attention of 128 numbers, although 4 heads of 128 are 512, which makes 12.6 million weights
          of 6.3; and 2,000 epochs at 1,436 FLOPs are 3 x 10^6, not 2 x 10^6.
Shrunk    The laptop preset has addition only, two layers of width 128 and a coarse grid. `desk` adds multiplication
          (Figs. 8 and 16) and parity; `paper` is the Transformer of Fig. 6, eight layers of width 512.
Tried     One run each on seeds that no claim uses. Transfer with the paper's own settings (0.6, 0.005, 0.1) had 95% of
          the training pairs at epoch 70 and of the test pairs at epoch 80. On (20, 3)-parity two layers of width 32 at
          rate 0.003 and decay 0.1 had 71% of the training samples and 52% of the test samples at epoch 200, which is
          no sign of Fig. 13. On (40, 3)-parity with 1000 samples two layers of width 32 had, after 280 epochs at rates
          0.001, 0.003 and 0.01 with decay 1, 66%, 67% and 59% of the training samples and 50 to 51% of the test
          samples. Width 128 takes 5 minutes a run on full batches of 40 signs, so parity is in `desk` alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.signature import Signature
from headstart.core.units import Budget, FullBatch
from headstart.losses import Logistic
from headstart.measures import Estimate
from headstart.methods import GradientFilter
from headstart.models import Readout, Transformer
from headstart.optimizers import AdamW
from headstart.plans import Fixed
from headstart.run import Run
from headstart.studies.grok_transfer import (
    PAPER_TITLE,
    PairKnobs,
    arm,
    draw_grokking,
    fewer,
    saved,
    transfer,
    weak_source,
)
from headstart.studies.grok_transfer.fnn_to_fnn import PAPER_RULE, SHORT_GAP
from headstart.tasks import Operation, Parity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(PairKnobs):
    """The Transformer, GrokFast, and the Transformers on parity: their signs, samples, size and settings."""

    width: int = 128
    depth: int = 2
    heads: int = 4
    mlp_width: int = 128
    multiplication: bool = True
    filter_decay: float = 0.98
    filter_strength: float = 2.0
    parity_dim: int = 40
    parity_samples: int = 1000
    parity_width: int = 128
    parity_depths: tuple[int, ...] = (2, 4)
    parity_rate: float = 0.001
    parity_decay: float = 1.0
    parity_steps: int = 500


DESK = Knobs(
    num_seeds=8,
    num_selection_seeds=8,
    inits=(0.3, 0.6, 1.0),
    rates=(0.001, 0.005, 0.01),
    decays=(0.1, 1.0, 2.0),
    rungs=(1, 2, 4),
)
PAPER = replace(DESK, steps=10_000, record_every=20, width=512, depth=8, mlp_width=512, rates=(0.0005, 0.001, 0.005))
LAPTOP = replace(
    DESK,
    num_seeds=4,
    num_test=2048,
    steps=300,
    record_every=10,
    inits=(0.6,),
    rates=(0.005, 0.01),
    decays=(0.1, 1.0),
    weak_steps=600,
    validation_share=0.05,
    attempts=15,
    multiplication=False,
    parity_depths=(),
)
SMOKE = replace(
    LAPTOP,
    num_seeds=2,
    num_selection_seeds=2,
    accuracy=0.5,
    steps=60,
    modulus=5,
    train_share=0.7,
    num_test=None,
    rates=(0.005, 0.01),
    decays=(0.1,),
    rungs=(1,),
    weak_rate=0.03,
    weak_decay=0.1,
    weak_steps=100,
    weak_accuracy=0.4,
    attempts=3,
    width=16,
    mlp_width=16,
    parity_dim=6,
    parity_depths=(2,),
    parity_samples=50,
    parity_width=8,
    parity_steps=20,
)
FINDING = (
    "With the weak FNN's table the Transformer's time gap is {addition_gap} of the gap from scratch, and 95% of the "
    "test pairs come after {addition_time} of the epochs; against GrokFast, tuned alike, the gap is "
    "{addition_grokfast_gap} and the epochs {addition_grokfast_time}. With weak models and restarts counted, the FLOPs "
    "are {addition_cost} of those from scratch."
)


def _operations(k: Knobs) -> tuple[Operation, ...]:
    return tuple(Operation) if k.multiplication else (Operation.ADDITION,)


def target_model(k: Knobs, rank: int | None = None) -> Transformer:
    """The Transformer of two tokens, over a trained table or over one that is a product."""
    return Transformer(
        k.width,
        k.depth,
        k.heads,
        causal=True,
        readout=Readout.LAST,
        mlp_width=k.mlp_width,
        bias=False,
        embedding_std=1.0,
        embedding_rank=rank,
    )


def _parity_arm(k: Knobs, depth: int) -> lab.Arm:
    run = Run(
        task=Parity(k.parity_dim, 3),
        model=Transformer(k.parity_width, depth, k.heads, mlp_width=k.parity_width, bias=False),
        plan=Fixed(k.parity_samples),
        batch=FullBatch(),
        loss=Logistic(),
        optimizer=AdamW(k.parity_rate, weight_decay=k.parity_decay),
        budget=Budget(k.parity_steps, k.record_every),
    )
    return lab.Arm(f"parity_{depth}", f"{depth} layers", run, None, lab.cold(depth // 2 - 1))


def arms(k: Knobs) -> list[lab.Arm]:
    """For each operation scratch, transfer by both rules, and GrokFast; random factors; the Transformers on parity."""
    whole, product = target_model(k), target_model(k, k.weak_dim)
    out = []
    for op in _operations(k):
        scratch = arm(k, f"{op}_scratch", "from scratch", whole, op, colour=lab.cold())
        slow = GradientFilter(decay=k.filter_decay, strength=k.filter_strength)
        filtered = replace(scratch.run, methods=(*scratch.run.methods, slow))
        rule = weak_source(k, op, PAPER_RULE, validated=False)
        by_rule = arm(k, f"{op}_paper", "transfer, paper's rule", product, op, transfer(rule), lab.warm(1))
        out += [
            scratch,
            arm(k, f"{op}_transfer", "transfer", product, op, transfer(weak_source(k, op)), lab.warm()),
            replace(by_rule, sweep=lab.RateOf(f"{op}_transfer")),
            replace(scratch, name=f"{op}_grokfast", label="GrokFast", run=filtered, colour="#7A5195"),
        ]
    random = replace(
        arm(k, "random", "random A B (15a)", product, colour="#777777"), sweep=lab.RateOf("addition_transfer")
    )
    return [*out, random, *(_parity_arm(k, depth) for depth in k.parity_depths)]


def claims(k: Knobs) -> list[lab.Claim]:
    """Each operation against scratch and GrokFast; random factors; parity; the counts of A.4.1."""
    return [
        *(claim for op in _operations(k) for claim in _claims_of(op, k)),
        fewer(
            "random_time",
            f"the epoch of {k.accuracy:.0%} by transfer, over that with random factors A and B at its settings",
            "Fig. 15a (no number)",
            lab.TimeRatio("addition_transfer", "random", k.accuracy),
            lab.Kind.CONTROL,
        ),
        *(
            lab.Claim(
                id=f"parity_{depth}_gap",
                statement=f"a Transformer of {depth} layers on parity has a time gap below {SHORT_GAP} epochs",
                paper="no delayed generalisation (Fig. 13 right)",
                rule=lab.below(SHORT_GAP),
                estimate=lab.TimeGap(f"parity_{depth}", k.accuracy),
            )
            for depth in k.parity_depths
        ),
        *_counts(),
    ]


def _claims_of(op: Operation, k: Knobs) -> list[lab.Claim]:
    new, rule, old, slow = f"{op}_transfer", f"{op}_paper", f"{op}_scratch", f"{op}_grokfast"
    fast, large = ("Fig. 8", "Fig. 6") if op is Operation.ADDITION else ("Fig. 16", "Figs. 6 and 13")
    little, over, epoch = f"little delay ({large})", "over that from scratch", f"epoch of {k.accuracy:.0%}"
    paper = {
        "gap": little,
        "time": "about 1,000 against 10,000 epochs (A.4.1): 0.1",
        "cost": "10^10 + 2 x 10^6 over 10^11 (A.4.1): 0.1",
        "seconds": "73.9 s over 392.7 s (Table 1): 0.19",
    }
    return [
        *saved(k, paper, op),
        fewer(
            f"{op}_grokfast_gap",
            f"{op}: the time gap by transfer, over GrokFast's",
            f"46 against 1119 (Fig. 8): 0.04; {fast}",
            lab.TimeGapRatio(new, slow, k.accuracy),
            lab.Kind.PRIMARY,
        ),
        fewer(
            f"{op}_grokfast_time",
            f"{op}: the {epoch} by transfer, over GrokFast's",
            f"sooner ({fast})",
            lab.TimeRatio(new, slow, k.accuracy),
        ),
        fewer(
            f"{op}_grokfast_vs_adamw",
            f"{op}: GrokFast's {epoch}, {over}",
            "39,890 iterations against 910 (Lee et al.)",
            lab.TimeRatio(slow, old, k.accuracy),
        ),
        lab.Claim(
            id=f"{op}_short_gap",
            statement=f"{op}: the time gap by transfer is at most the paper's, below {SHORT_GAP + 1} epochs",
            paper=f"{SHORT_GAP} (Fig. 8)",
            rule=lab.below(SHORT_GAP + 1),
            estimate=lab.TimeGap(new, k.accuracy),
        ),
        fewer(
            f"{op}_rule_gap",
            f"{op}: the time gap by the paper's rule, {over}",
            little,
            lab.TimeGapRatio(rule, old, k.accuracy),
        ),
    ]


def forward_flops(table_dim: int, width: int, modulus: int) -> int:
    """A.4.1's count of a forward pass of the weak model: two for every weight and every number that is looked up."""
    inputs, outputs = 2 * table_dim, modulus
    return 2 * (inputs * width + inputs + width * outputs + 2 * outputs)


def layer_weights(model: Transformer, tokens: int, symbols: int) -> int:
    """The weights of a Transformer's layers, without table, positions and readout."""
    own = model.parameters(Signature((tokens,), symbols=symbols, outputs=(symbols,)))
    return sum(p.shape[0] * p.shape[1] for p in own if p.name.startswith("blocks."))


def _counts() -> list[lab.Claim]:
    """A.4.1 again: what the weak model costs, what transfer costs beside scratch, and what the target really has."""
    weak, weights = forward_flops(4, 4, 113), layer_weights(target_model(PAPER), 2, 113)
    printed = 2 * 512 * 8 * (2 * 128 + 512)
    epochs_weak, epochs_new, epochs_old = 2000, 1000, 10_000
    cost = (2 * weights * epochs_new + weak * epochs_weak) / (2 * weights * epochs_old)
    rows = [
        ("weak_forward", "the weak model's forward pass has 1,436 FLOPs", "1,436", lab.Within(1435, 1437), weak),
        ("counted_cost", "by A.4.1's epochs transfer has 0.1 of the FLOPs from scratch", "10^10 + 2 x 10^6 over 10^11",
         lab.Within(0.099, 0.101), cost),
        ("target_weights", "the layers of the target have twice the weights that A.4.1 counts",
         "6,291,456 with an attention of 128 numbers", lab.Within(1.99, 2.01), weights / printed),
    ]  # fmt: skip
    return [
        lab.Claim(id, statement, f"{paper} (A.4.1)", rule, _constant(value), lab.Kind.IDENTITY)
        for id, statement, paper, rule, value in rows
    ]


def _constant(value: float) -> Callable[[lab.Results], Estimate]:
    return lambda results: Estimate(value, value, value)


def figure(results: lab.Results, picture: "Figure") -> None:
    """For each operation the dynamics, and the same against FLOPs with everything counted; parity at the end."""
    k = results.knobs
    ops = _operations(k)
    columns = 3 if k.parity_depths else 2
    picture.set_size_inches(4.4 * columns, 3.8 * len(ops))
    grid = picture.subplots(len(ops), columns, squeeze=False)
    for row, op in zip(grid, ops, strict=True):
        names = [f"{op}_{which}" for which in ("scratch", "transfer", "paper", "grokfast")]
        shown = [*names, "random"] if op is Operation.ADDITION else names
        draw_grokking(row[0], results, shown, f"modular {op}, p = {k.modulus}", k.accuracy)
        for name in names:
            lab.draw_curve(row[1], results, name, "flops", total=True)
        row[1].set(title="with weak models and restarts counted", ylabel="test accuracy")
    if k.parity_depths:
        title = f"Transformers on ({k.parity_dim}, 3)-parity"
        draw_grokking(grid[0][2], results, [f"parity_{depth}" for depth in k.parity_depths], title, k.accuracy)
        for row in grid[1:]:
            row[2].set_axis_off()


STUDY = lab.Study(
    name="grok_transfer/fnn_to_transformer",
    title="Transfer from a weak network to a Transformer",
    paper=PAPER_TITLE,
    figures="Figs. 6, 8, 13, 15a, 16, Table 1",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "desk": DESK, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 12.0, "desk": 600.0, "paper": 100_000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer", "grokking"),
)
