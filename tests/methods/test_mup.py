"""muP: at its base width the standard parametrisation, elsewhere that of the authors' own package."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.signature import Signature
from headstart.core.units import Batch, Budget
from headstart.engines import lower
from headstart.engines.engine import Job
from headstart.engines.loop import Loop
from headstart.lab import coordinate_check
from headstart.losses import MSE
from headstart.methods import MuP, mup_groups
from headstart.models import MLP
from headstart.optimizers import SGD, AdamW
from headstart.plans import Online
from headstart.run import Run, Step
from headstart.tasks import Parity

mup = pytest.importorskip("mup", reason="make setup installs it")

BASE, WIDTH, DIM, STEPS = 8, 32, 6, 12
RUN = Run(
    Parity(DIM, 2), MLP(WIDTH, depth=3), Online(), MSE(), SGD(0.05), Batch(16), (MuP(BASE),), budget=Budget(STEPS)
)


def network(width):
    """The network as a user of the mup package writes it."""
    layers = [torch.nn.Linear(DIM, width), torch.nn.Linear(width, width), mup.MuReadout(width, 1)]
    return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])


def trained_by_the_package(run, optimizer):
    """Predictions of the package's network after the run's steps, from the same standard initial weights."""
    torch.manual_seed(0)
    net, base, delta = network(WIDTH), network(BASE), network(2 * BASE)
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), run.fresh_weights().values(), strict=True):
            parameter.copy_(torch.from_numpy(value))
    mup.set_base_shapes(net, base, delta=delta)
    steps = optimizer(net.parameters())
    for step in range(STEPS):
        data = run.task.sample(run.seed, np.arange(16 * step, 16 * step + 16))
        loss = ((net(torch.from_numpy(data.x))[:, 0] - torch.from_numpy(data.y)) ** 2).mean()
        steps.zero_grad()
        loss.backward()
        steps.step()
    with torch.no_grad():
        return net(torch.from_numpy(run.task.sample(1, np.arange(50)).x))[:, 0].numpy()


def trained_by_us(run):
    (outcome,) = Loop().train([Job(run, keep=(Step(STEPS),))])
    module = run.model.module(run.task.signature)
    module.load_state_dict({k: torch.from_numpy(v) for k, v in outcome.states[Step(STEPS)].weights.items()})
    with torch.no_grad():
        return module(torch.from_numpy(run.task.sample(1, np.arange(50)).x)).numpy()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.05), lambda parameters: mup.MuSGD(parameters, lr=0.05)),
        (AdamW(0.01, weight_decay=0.0), lambda parameters: mup.MuAdamW(parameters, lr=0.01, weight_decay=0.0)),
    ],
    ids=["SGD", "AdamW"],
)
def test_training_under_mup_is_training_with_the_package_of_its_authors(ours, theirs):
    run = replace(RUN, optimizer=ours)
    expected = trained_by_the_package(run, theirs)
    np.testing.assert_allclose(trained_by_us(run), expected, rtol=2e-3, atol=2e-5)
    standard = trained_by_us(replace(run, methods=()))
    assert np.abs(standard - expected).max() > 0.01 * np.abs(expected).max()


@pytest.mark.parametrize("optimizer", [SGD(0.1), AdamW(0.1)])
def test_at_the_base_width_every_factor_is_exactly_one(optimizer):
    method, model = MuP(base_width=24), MLP(24, depth=4)
    for parameter in model.parameters(Signature((5,))):
        assert method.init_scale(parameter) == 1.0
        assert method.rate_scale(parameter, optimizer) == 1.0


def test_a_two_layer_network_with_base_width_one_has_the_rates_eta_m_and_eta_over_m():
    m = 64
    its = lower(replace(RUN, model=MLP(m, bias=False), optimizer=SGD(0.5), methods=(MuP(),)))
    roles = {p.role: (init, rate) for p, init, rate in zip(its.parameters, its.init_scales, its.rates, strict=True)}
    assert roles[Role.INPUT] == (1.0, 0.5 * m)
    # PyTorch's readout falls as 1/sqrt(m), muP's as 1/m.
    assert np.allclose(roles[Role.READOUT], (m**-0.5, 0.5 / m))


def test_under_mup_layers_move_by_the_same_amount_at_every_width_and_else_they_do_not():
    widths = (64, 256, 1024)
    run = replace(RUN, model=MLP(64, bias=False), optimizer=SGD(0.02), budget=Budget(3))

    def growth(methods):
        frame = coordinate_check(lambda m: replace(run, model=MLP(m, bias=False), methods=methods), widths, steps=(3,))
        sizes = frame.groupby(["layer", "width"])["size"].mean()
        return [np.log(sizes[layer, 1024] / sizes[layer, 64]) / np.log(16) for layer in range(2)]

    under_mup, standard = growth((MuP(64),)), growth(())
    assert all(abs(exponent) < 0.15 for exponent in under_mup)
    assert standard[0] < -0.35  # the features of wide networks stand still


def test_bad_input_is_refused():
    with pytest.raises(HeadstartError, match="base_width=0"):
        MuP(0)
    with pytest.raises(HeadstartError, match=r"run\(8\)"):
        coordinate_check(lambda m: RUN, (8,))
    with pytest.raises(HeadstartError, match="12 steps"):
        coordinate_check(lambda m: RUN, (WIDTH,), steps=(13,))


VOCABULARY, PLACES = 64, 8


def gpt2(width, tied=True):
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "n_positions": PLACES, "n_embd": width, "n_layer": 1, "n_head": 4}
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **none, tie_word_embeddings=tied))


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def growth_of_logits(tied, groups):
    """(of the logits, of their change) from width 32 to 512 after three steps of Adam at the rate of width 32."""
    symbols = torch.randint(0, VOCABULARY, (8, PLACES), generator=torch.Generator().manual_seed(1))
    sizes = []
    for width in (32, 512):
        model = gpt2(width, tied)
        optimizer = torch.optim.Adam(groups(model, gpt2(32, tied)))
        before = model(symbols).logits.detach()
        for _ in range(3):
            optimizer.zero_grad()
            model(input_ids=symbols, labels=symbols).loss.backward()
            optimizer.step()
        after = model(symbols).logits.detach()
        sizes.append((after.std().item(), (after - before).std().item()))
    return [wide / narrow for narrow, wide in zip(*sizes, strict=True)]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_logits_of_a_wide_gpt2_stay_as_large_as_those_of_a_narrow_one(tied):
    """By a factor of 6.4 where a tied head is not divided by the ratio of widths."""
    under_mup = growth_of_logits(tied, lambda model, base: mup_groups(model, base, lr=0.01))
    assert all(0.5 < growth < 1.6 for growth in under_mup)
    standard = growth_of_logits(tied, lambda model, base: [{"params": model.parameters(), "lr": 0.01}])
    assert all(growth > 3 for growth in standard)


class TiedLanguageModel(torch.nn.Module):
    """An embedding, two layers, and a head that shares the embedding's tensor."""

    def __init__(self, width, readout=None):
        super().__init__()
        self.wte = torch.nn.Embedding(VOCABULARY, width)
        self.up, self.down = (torch.nn.Linear(width, width, bias=False) for _ in range(2))
        if readout is None:
            self.head = torch.nn.Linear(width, VOCABULARY, bias=False)
            self.head.weight = self.wte.weight
        else:
            self.head = readout(self.wte.weight, bias=False)

    def forward(self, symbols):
        return self.head(self.down(torch.relu(self.up(self.wte(symbols)))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("optimizer", "lr"), [("adam", 0.01), ("sgd", 0.1)])
def test_tied_weights_under_mup_are_those_of_the_authors_shared_readout(optimizer, lr):
    def theirs(width):
        return TiedLanguageModel(width, mup.MuSharedReadout)

    torch.manual_seed(0)
    model, package = TiedLanguageModel(WIDTH), theirs(WIDTH)
    package.load_state_dict(model.state_dict())
    mup.set_base_shapes(package, theirs(BASE), delta=theirs(2 * BASE), rescale_params=False)
    kinds = {
        "adam": (torch.optim.Adam, mup.MuAdam),
        "sgd": (torch.optim.SGD, mup.MuSGD),
    }[optimizer]
    ours = kinds[0](mup_groups(model, TiedLanguageModel(BASE), lr=lr, optimizer=optimizer))
    others = kinds[1](package.parameters(), lr=lr)
    symbols = torch.randint(0, VOCABULARY, (200,), generator=torch.Generator().manual_seed(1))
    for _ in range(STEPS):
        for network, steps in ((model, ours), (package, others)):
            steps.zero_grad()
            torch.nn.functional.cross_entropy(network(symbols), symbols.flip(0)).backward()
            steps.step()
    assert torch.allclose(model(symbols), package(symbols), rtol=1e-3, atol=1e-4)
    assert torch.allclose(model.wte.weight, package.wte.weight, rtol=1e-3, atol=1e-4)


def test_a_tied_head_is_divided_once_by_the_ratio_of_widths_and_not_at_the_base_width():
    symbols = torch.arange(10)
    model = TiedLanguageModel(WIDTH)
    before = model(symbols)
    for _ in range(2):
        mup_groups(model, TiedLanguageModel(BASE), lr=0.1)
    assert torch.allclose(model(symbols) * (WIDTH / BASE), before, atol=1e-5)
    assert torch.allclose(copy.deepcopy(model)(symbols), model(symbols))
    same = TiedLanguageModel(BASE)
    before = same(symbols)
    mup_groups(same, TiedLanguageModel(BASE), lr=0.1)
    assert torch.equal(same(symbols), before)
