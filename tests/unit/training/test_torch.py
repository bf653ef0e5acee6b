"""The step of a torch model: the same sum as that of NumPy, and its noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pais import training
from pais.errors import ArgumentError, MismatchError, SpentError
from pais.training import Bin, TrainingPlan, WeightedPoissonSampler

torch = pytest.importorskip("torch", reason="needs pais[torch]")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[3]
BINS = (Bin(bound=1.0, records=10, rate=0.25), Bin(bound=3.0, records=10, rate=0.6))
PLAN = TrainingPlan(n_steps=5, noise=2000.0, bins=BINS, epsilon=1.0, delta=1e-6)


def first(X: np.ndarray) -> np.ndarray:
    return X[:, 0]


def data() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([np.repeat([0.5, 2.0], 30), rng.normal(size=(60, 3))])


@pytest.mark.parametrize("seed", range(3))
def test_a_step_of_torch_is_that_of_numpy(seed: int) -> None:
    X = data()
    rows = np.random.default_rng(seed).normal(scale=2.0, size=(60, 6)).astype(np.float32)
    first_run, second_run = (WeightedPoissonSampler(PLAN, first, (X,), random_state=seed) for _ in range(2))
    parameters = [torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))]
    # Two groups, and a parameter that is no longer trained but still has a gradient of records.
    left = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
    optimizer = torch.optim.SGD([{"params": parameters[:1]}, {"params": [parameters[1], left], "lr": 0.1}], lr=1.0)
    for batch, other in zip(first_run, second_run, strict=True):
        expected = training.noisy_sum(first_run, batch, rows[batch.index])
        left.grad = torch.ones(3)
        part = torch.tensor(rows[other.index])
        parameters[0].grad_sample = part[:, :4].reshape(-1, 2, 2)
        parameters[1].grad_sample = part[:, 4:]
        training.torch_step(second_run, other, optimizer, divisor=10.0)
        assert left.grad is None
        found = np.concatenate([one.grad.numpy().ravel() for one in parameters])
        assert found == pytest.approx(expected / 10.0, rel=1e-5, abs=1e-3)
        parameters[0].grad_sample, parameters[1].grad_sample = part[:, :4].reshape(-1, 2, 2), part[:, 4:]
        with pytest.raises(SpentError):
            training.torch_step(second_run, other, optimizer, divisor=10.0)


def test_an_empty_batch_and_a_gradient_that_is_not_finite() -> None:
    X = np.repeat([[0.5]], 4, axis=0)
    sampler = WeightedPoissonSampler(PLAN, first, (X,), random_state=1)
    parameter = torch.nn.Parameter(torch.zeros(1000))
    for batch in sampler:
        parameter.grad_sample = torch.full((len(batch.index), 1000), torch.inf) if len(batch.index) else None
        training.torch_step(sampler, batch, torch.optim.SGD([parameter]), divisor=1.0)
        assert float(parameter.grad.std()) == pytest.approx(2000.0, rel=0.2)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 1e4, 1e30, 1e200, np.inf, -np.inf, np.nan])
def test_odd_gradients_are_clipped_as_in_numpy(kind: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # The totals before noise, of both paths.
    totals: list[np.ndarray] = []

    def caught(sampler: object, batch: object, found: list[np.ndarray]) -> list[np.ndarray]:
        totals.append(np.concatenate(found))
        return [np.zeros(part.size) for part in found]

    monkeypatch.setattr("pais.training.steps.released", caught)
    X = data()
    sampler = WeightedPoissonSampler(PLAN, first, (X,), random_state=0)
    batch = sampler.draw()
    rows = torch.tensor(np.random.default_rng(1).normal(size=(batch.index.size, 6))).to(getattr(torch, kind))
    rows[0] *= size
    rows[1, 2] = torch.tensor(size, dtype=torch.float64)
    training.noisy_sum(sampler, batch, rows.double().numpy())
    parameters = [torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))]
    parameters[0].grad_sample, parameters[1].grad_sample = rows[:, :4].reshape(-1, 2, 2), rows[:, 4:]
    training.torch_step(sampler, batch, torch.optim.SGD(parameters), divisor=1.0)
    # Norms are added up in another order, so that a few values may lie one step apart.
    assert np.abs(totals[0] - totals[1]).max() <= batch.index.size


def test_gradients_of_other_shapes_are_refused() -> None:
    X = data()
    sampler = WeightedPoissonSampler(PLAN, first, (X,), random_state=0)
    batch = sampler.draw()
    n, parameter = batch.index.size, torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([parameter])
    for wrong in (None, torch.ones(n - 1, 4), torch.ones(2 * n, 2), torch.ones(4, n), [torch.ones(n, 4)] * 2):
        parameter.grad_sample = wrong
        with pytest.raises(ArgumentError, match="one gradient for each record"):
            training.torch_step(sampler, batch, optimizer, divisor=1.0)
    # Two passes over parts of the batch, as Opacus leaves them.
    parameter.grad_sample = [torch.ones(2, 4), torch.ones(n - 2, 4)]
    training.torch_step(sampler, batch, optimizer, divisor=1.0)
    assert parameter.grad.shape == (4,)


def test_opacus_and_torch_func_give_the_same_gradients() -> None:
    opacus = pytest.importorskip("opacus")
    rng = np.random.default_rng(0)
    X, y = torch.tensor(rng.normal(size=(7, 3)), dtype=torch.float32), torch.tensor(rng.integers(0, 2, 7))
    model, twin = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    wrapped = opacus.GradSampleModule(twin, loss_reduction="sum")
    torch.nn.CrossEntropyLoss(reduction="sum")(wrapped(X), y).backward()

    def loss(parameters: object, x: object, label: object) -> object:
        scores = torch.func.functional_call(model, parameters, (x[None],))
        return torch.nn.functional.cross_entropy(scores, label[None])

    plain = {name: value.detach() for name, value in model.named_parameters()}
    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(plain, X, y)
    for name, value in twin.named_parameters():
        assert torch.allclose(found[name], value.grad_sample, atol=1e-6)


def test_a_data_loader_takes_the_batches() -> None:
    X = data()
    sampler = WeightedPoissonSampler(PLAN, first, (X,), random_state=1)
    records = [(torch.tensor(row), index) for index, row in enumerate(X)]
    loader = torch.utils.data.DataLoader(records, batch_sampler=sampler.torch_batches(), collate_fn=list)
    found = [sampler.batch_of([index for _, index in batch]).step for batch in loader]
    assert found == list(range(1, PLAN.n_steps + 1))


def test_a_data_loader_that_reads_ahead_is_refused() -> None:
    X = data()
    sampler = WeightedPoissonSampler(PLAN, first, (X,), random_state=1)
    loader = torch.utils.data.DataLoader(
        range(60), batch_sampler=sampler.torch_batches(), collate_fn=list, num_workers=1
    )
    with pytest.raises(MismatchError, match="workers that read ahead"):
        sampler.batch_of(next(iter(loader)))


def test_every_block_of_the_torch_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opacus")
    from tests.meta.test_guides import blocks

    names: dict[str, object] = {"__name__": "__main__"}
    for _, text in blocks(ROOT / "docs" / "guide" / "training-torch.md"):
        exec(compile(text, "training-torch.md", "exec"), names)
    assert "epsilon 3, delta 1e-05 for one row" in capsys.readouterr().out


def test_uniform_batches_need_the_noise_that_opacus_finds() -> None:
    utils = pytest.importorskip("opacus.accountants.utils")
    theirs = utils.get_noise_multiplier(
        target_epsilon=2.0, target_delta=1e-5, sample_rate=0.02, steps=300, accountant="prv", epsilon_tolerance=1e-3
    )
    ours = training.plan(300, epsilon=2.0, delta=1e-5, bounds={1.0: 10_000}, mean_batch=200)
    # The other accountant has an error of its own, and rounds up.
    assert ours.noise * ours.rates[0] == pytest.approx(theirs, rel=1e-2)


def test_uniform_batches_train_as_the_engine_of_opacus_does() -> None:
    opacus = pytest.importorskip("opacus")
    from sklearn.datasets import load_digits

    digits = load_digits()
    X, y = torch.tensor(digits.data / 16.0, dtype=torch.float32), torch.tensor(digits.target)
    plan = training.plan(60, epsilon=3.0, delta=1e-5, bounds={1.0: 1_797}, mean_batch=180)
    rate = float(plan.rates[0])

    def loss_of(model: object) -> float:
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(model(X), y))  # type: ignore[operator]

    def start() -> tuple[object, object]:
        model = torch.nn.Linear(64, 10)
        torch.nn.init.zeros_(model.weight)
        torch.nn.init.zeros_(model.bias)
        return model, torch.optim.SGD(model.parameters(), lr=2.0)

    def ours(seed: int) -> float:
        model, optimizer = start()
        wrapped = opacus.GradSampleModule(model, loss_reduction="sum")
        sampler = WeightedPoissonSampler(plan, lambda X: np.ones(len(X)), (X.numpy(),), random_state=seed)
        for batch in sampler:
            index = torch.as_tensor(batch.index)
            torch.nn.functional.cross_entropy(wrapped(X[index]), y[index], reduction="sum").backward()
            training.torch_step(sampler, batch, optimizer, divisor=1_797)
            optimizer.step()  # type: ignore[attr-defined]
        return loss_of(model)

    def theirs(seed: int) -> float:
        torch.manual_seed(seed)
        model, optimizer = start()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=180)
        wrapped, optimizer, loader = opacus.PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=plan.noise * rate, max_grad_norm=1.0
        )
        done = 0
        while done < plan.n_steps:
            for rows, labels in loader:
                if done < plan.n_steps:
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(wrapped(rows), labels).backward()
                    optimizer.step()
                    done += 1
        return loss_of(wrapped)

    losses = np.array([[run(seed) for seed in range(6)] for run in (ours, theirs)])
    error = np.sqrt(losses.var(axis=1, ddof=1).sum() / 6)
    assert abs(losses[0].mean() - losses[1].mean()) < 4.0 * error
    assert losses.mean() < 1.0
