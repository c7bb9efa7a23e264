"""From a small network to a large one: the weak table removes the delay before the target generalises.

Paper     Let Me Grok For You, Figs. 1b, 17a and 17b, Section 4.1; settings from Appendix A.3.1 and A.3.3
Claim     On modular addition and multiplication a target that begins with the table of a weak model generalises as it
          fits its training pairs; from scratch it generalises long after. It ends above the weak model.
Setting   Pairs (a, b) of p symbols, a quarter of them for training. The target is a three-layer ReLU network without
          biases over a trained table, AdamW with full batches, PyTorch's initialisation times a factor. The weak model
          has two layers of width 16 over a table of 4 dimensions. With transfer the target's table is A B, A the weak
          table, B random, both trained. The weak model is stopped at half accuracy on a tenth of the training pairs,
          which it does not train on, and begun anew where it does not get there; the arm "paper's rule" stops it at
          30% of the test pairs, as Section 4.2 does, with all training pairs to learn from.
Measured  The time gap, the first epoch of 95% on test pairs less the first of 95% on training pairs, and the restricted
          mean epoch of 95% on test pairs, transfer over scratch; then the same with what the weak models, their
          restarts and the tuning cost, in FLOPs, and in seconds. 95% paired bootstrap over seeds. Every arm tries the
          same combinations of initial scale, rate and decay, narrowed by half from rung to rung on up to 16 seeds that
          no claim uses, by the same endpoint; the paper's rule has the settings of the other transfer. A ratio within
          0.9 to 1.1 would be no effect.
Open      The paper says neither how the weak model's settings were chosen nor how often it was begun anew. They are
          fixed here: of thirteen combinations on 16 other seeds, the one at which half accuracy took the fewest steps,
          those of failed attempts included. That search is in no cost below; in FLOPs it is about 6% of the tuning of
          one arm.
Errata    Configurations were chosen by 90% (A.3.1) or 99% (Section 4.1) of the test pairs; here by 95% on other seeds.
          The target's rate for transfer on addition is 0.005 in A.3.1 and 0.001 in A.3.3.
Shrunk    The laptop preset has p = 59 instead of 113, width 128 over 64 dimensions instead of 512 over 128, and a
          coarse part of the paper's grid.
Tried     A first run on the same seeds ended after 600 epochs, where 37% (addition) and 25% (multiplication) of runs
          from scratch had 95%. Its time gaps by transfer over scratch were 0.16 [0.05, 0.34] and at most 0.47
          [0.13, 0.73], its FLOPs with weak models 0.26 [0.14, 0.42] and 0.53 [0.31, 0.77]. The runs were made longer so
          that the baseline gets there.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.studies.grok_transfer import (
    PAPER_TITLE,
    ModularKnobs,
    arm,
    draw_grokking,
    fewer,
    saved,
    target_model,
    transfer,
    weak_run,
    weak_source,
)
from headstart.tasks import Operation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = ModularKnobs(num_seeds=16)
LAPTOP = ModularKnobs(
    num_seeds=16,
    modulus=59,
    num_test=2048,
    dim=64,
    width=128,
    steps=1000,
    weak_init=0.3,
    weak_rate=0.1,
    weak_steps=500,
    validation_share=0.05,
    inits=(0.1, 0.3, 0.7),
    rates=(0.01, 0.03, 0.1),
    decays=(1.0, 2.0, 3.0),
    rungs=(1, 2, 4, 8),
)
SMOKE = ModularKnobs(
    num_seeds=2,
    num_selection_seeds=2,
    modulus=5,
    train_share=0.7,
    accuracy=0.5,
    dim=8,
    width=16,
    steps=100,
    weak_rate=0.03,
    weak_decay=0.1,
    weak_steps=100,
    weak_accuracy=0.4,
    attempts=3,
    inits=(0.7,),
    rates=(0.01, 0.03),
    decays=(0.3,),
    rungs=(1,),
)
# The paper's own gap after transfer, between an FNN and a Transformer: its only one in epochs.
SHORT_GAP = 46
PAPER_RULE = 0.3
FINDING = (
    "With the weak model's table the time gap is {addition_gap} of the gap from scratch on addition and "
    "{multiplication_gap} on multiplication, and 95% of the test pairs come after {addition_time} and "
    "{multiplication_time} of the epochs. With the weak models and their restarts counted, the FLOPs are "
    "{addition_cost} and {multiplication_cost} of those from scratch; with the tuning of the target too, "
    "{addition_all_cost} and {multiplication_all_cost}."
)


def arms(k: ModularKnobs) -> list[lab.Arm]:
    """For each operation the target from scratch and by transfer, and the weak model on all training pairs."""
    out = []
    for op in Operation:
        low_rank, rule = target_model(k, k.weak_dim), weak_source(k, op, PAPER_RULE, validated=False)
        out += [
            arm(k, f"{op}_scratch", "from scratch", target_model(k), op, colour=lab.cold()),
            arm(k, f"{op}_transfer", "transfer", low_rank, op, transfer(weak_source(k, op)), lab.warm()),
            replace(
                arm(k, f"{op}_paper", "transfer, paper's rule", low_rank, op, transfer(rule), lab.warm(1)),
                sweep=lab.RateOf(f"{op}_transfer"),
            ),
            lab.Arm(f"{op}_weak", "weak model", weak_run(k, op, validated=False), None, "#777777"),
        ]
    return out


def claims(k: ModularKnobs) -> list[lab.Claim]:
    """Gap, epochs and costs of each operation."""
    return [claim for op in Operation for claim in _claims_of(op, k)]


def _claims_of(op: Operation, k: ModularKnobs) -> list[lab.Claim]:
    new, rule, old, weak = f"{op}_transfer", f"{op}_paper", f"{op}_scratch", f"{op}_weak"
    figure = "Fig. 17a" if op is Operation.ADDITION else "Fig. 17b"
    eliminated, faster, over = f"nearly eliminated ({figure})", f"faster ({figure})", "over that from scratch"
    paper = {
        "gap": eliminated,
        "time": faster,
        "cost": "reduced (Section 3.3)",
        "seconds": "73.9 s over 392.7 s, into a Transformer (Table 1): 0.19",
    }
    return [
        *saved(k, paper, op),
        lab.Claim(
            id=f"{op}_beats_weak",
            statement=f"{op}: by transfer the target ends above the weak model; the difference of accuracy is above 0",
            paper="surpasses the weak model (Fig. 17)",
            rule=lab.above(0.0),
            estimate=lab.FinalDifference(new, weak),
            kind=lab.Kind.PRIMARY,
        ),
        lab.Claim(
            id=f"{op}_short_gap",
            statement=f"{op}: the time gap by transfer is below {SHORT_GAP} epochs",
            paper="46, into a Transformer (Fig. 8)",
            rule=lab.below(SHORT_GAP),
            estimate=lab.TimeGap(new, k.accuracy),
        ),
        fewer(
            f"{op}_rule_gap",
            f"{op}: the time gap by the paper's rule, {over}",
            eliminated,
            lab.TimeGapRatio(rule, old, k.accuracy),
        ),
        fewer(
            f"{op}_rule_time",
            f"{op}: the epoch of {k.accuracy:.0%} by the paper's rule, {over}",
            faster,
            lab.TimeRatio(rule, old, k.accuracy),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Above the dynamics of both operations, below the same against FLOPs with everything counted."""
    picture.set_size_inches(9.0, 6.4)
    grid = picture.subplots(2, 2)
    for column, op in enumerate(Operation):
        names = [f"{op}_{which}" for which in ("scratch", "transfer", "paper", "weak")]
        title = f"modular {op}, p = {results.knobs.modulus}"
        draw_grokking(grid[0][column], results, names, title, results.knobs.accuracy)
        for name in names[:3]:
            lab.draw_curve(grid[1][column], results, name, "flops", total=True)
        grid[1][column].set(title="with weak models and restarts counted", ylabel="test accuracy")


STUDY = lab.Study(
    name="grok_transfer/fnn_to_fnn",
    title="Transfer from a weak network to a larger one",
    paper=PAPER_TITLE,
    figures="Figs. 1b, 17a, 17b",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 12.0, "paper": 6000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp", "grokking"),
)
