"""A ledger over time: eight charges against one budget, by zCDP and as a sum of epsilons."""

from matplotlib.figure import Figure

import pymc_private as pmp


def draw():
    ledger = pmp.Ledger(epsilon=3, delta=1e-5)
    promise, delta = pmp.Guarantee.gdp_of(0.16), 5e-7  # eight summaries, say
    spent = [0.0]
    for number in range(8):
        ledger.charge(promise, f"summary {number + 1}", delta=delta)
        spent.append(float(ledger.spent.epsilon))
    sums = [k * promise.epsilon(delta) for k in range(9)]
    figure = Figure(figsize=(5.6, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.step(range(9), sums, "--", where="post", color="0.5", label="if epsilons were added")
    axes.step(range(9), spent, where="post", color="#2b6298", lw=2.2, label="spent, by the ledger")
    axes.axhline(3, color="#b3462b", lw=1.2, label="budget")
    axes.set(xlabel="charges", ylabel="epsilon (nats) at delta = 1e-5", ylim=(0, None), xlim=(0, 8))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
