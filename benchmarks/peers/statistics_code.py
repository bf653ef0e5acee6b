"""The same question in three packages: the private means of three columns of a frame, without import lines."""

from __future__ import annotations

QUESTION = (
    "The means of three columns of a frame with public bounds, at epsilon 1 for all of them together; lines without "
    "imports. pais also returns standard errors, intervals and a certificate; a ledger is one more argument."
)

CODE = {
    "pais": """
pais.mean(frame, columns={"age": (17, 90), "hours": (1, 99), "gain": (0, 99999)}, epsilon=1.0).value
""",
    "diffprivlib": """
bounds = {"age": (17, 90), "hours": (1, 99), "gain": (0, 99999)}
budget = diffprivlib.BudgetAccountant(epsilon=1.0)
{name: tools.mean(frame[name], epsilon=1 / 3, bounds=ends, accountant=budget) for name, ends in bounds.items()}
""",
    "OpenDP": """
bounds = {"age": (17.0, 90.0), "hours": (1.0, 99.0), "gain": (0.0, 99999.0)}
means = {}
for name, ends in bounds.items():
    context = dp.Context.compositor(
        data=frame[name].astype(float).tolist(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1 / 3),
        split_evenly_over=2,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    count = context.query().count().laplace().release()
    total = context.query().clamp(ends).sum().laplace().release()
    means[name] = total / max(count, 1)
""",
}
