"""Tables and figures of `benchmarks.mollifiers`, and its agreement with reference results."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mollifier_agreement
from benchmarks.mollifier_agreement import Key, Table

BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
# Both in gray or black, so that ten colors do; the optimum lies on the best plug-in.
ENDS: dict[str, dict[str, Any]] = {
    "q0": {"color": "0.6", "linestyle": "--"},
    "optimum": {"color": "black", "linestyle": (0, (4, 4)), "zorder": 3},
}

WHOLE = (
    "dpb_k10_integral", "laplace_hist_integral", "plugin_kde", "plugin_kde_boxQ0",
    "plugin_kde_tilt", "mbde_T3", "mbde_T3_stretch", "scale_shift", "krr_projected_16", "q0",
    "optimum",
)  # fmt: skip
RECORD = ("dpb_k10", "laplace_hist_record", "gan_record")
NAMES = {
    "q0": "reference law", "optimum": "optimum (target known)", "plugin_kde": "plug-in clip (KDE)",
    "plugin_kde_boxQ0": "plug-in clip around the box",
    "plugin_kde_asym.05": "plug-in clip (KDE), window=0.05",
    "plugin_kde_tilt": "plug-in tilt (KDE)", "mbde_T3": "MBDE, 3 rounds",
    "mbde_T3_stretch": "MBDE, stretched", "scale_shift": "scale and shift",
    "krr_projected_4": "4-cell RR hull, projected",
    "krr_projected_16": "16-cell RR hull, projected",
    "laplace_hist_integral": "Laplace histogram on the box",
    "dpb_k10_integral": "Bernstein on the box",
    "dpb_k10": "Bernstein on the box", "laplace_hist_record": "Laplace histogram on the box",
    "gan_record": "DP-SGD GAN, delta = .1",
}  # fmt: skip


def read(file: Path) -> Table:
    """All values by domain, method, epsilon and metric, with the share of the possible gain."""
    found: dict[Key, dict[str, float]] = defaultdict(dict)
    with file.open() as stored:
        for row in csv.reader(stored):
            if len(row) == 6 and row[0] not in ("done", "domain"):
                found[row[0], row[1], float(row[2]), row[4]][row[3]] = float(row[5])
    table = {key: np.array(list(by_rep.values())) for key, by_rep in found.items()}
    for (domain, method, eps, metric), values in list(table.items()):
        ends = [table.get((domain, name, eps, "kl")) for name in ("q0", "optimum")]
        if metric == "kl" and all(end is not None for end in ends) and "boxQ0" not in method:
            none, best = (float(end.mean()) for end in ends)  # type: ignore[union-attr]
            table[domain, method, eps, "gap_share"] = (none - values) / (none - best)
    return table


def summary(table: Table, file: Path) -> None:
    """Means and standard deviations."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("domain", "method", "epsilon", "metric", "reps", "mean", "sd"))
        for key, values in sorted(table.items()):
            sd = values.std(ddof=1) if len(values) > 1 else 0.0
            writer.writerow((*key, len(values), f"{values.mean():.6g}", f"{sd:.3g}"))


def curve(table: Table, domain: str, method: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """A metric against epsilon."""
    eps = sorted(e for d, m, e, k in table if (d, m, k) == (domain, method, metric))
    return np.array(eps), np.array([table[domain, method, e, metric].mean() for e in eps])


def errors(table: Table, domain: str, method: str, metric: str) -> np.ndarray:
    """Two standard errors of each point of a curve; 0 where there is one replication."""
    eps, _ = curve(table, domain, method, metric)
    found = [table[domain, method, e, metric] for e in eps]
    return np.array([2 * v.std(ddof=1) / len(v) ** 0.5 if len(v) > 1 else 0.0 for v in found])


def figures(table: Table, folder: Path) -> None:
    """Draw everything."""
    for domain in dict.fromkeys(key[0] for key in table):
        if (domain, "optimum", 1.0, "nll") in table:
            _by_epsilon(table, domain, folder / f"{domain}.png")
    _rounds(table, folder / "rounds.png")
    _wide(table, folder / "wide.png")
    _pictures(folder / "laws.png")
    _costs(folder / "costs.png")


def _by_epsilon(table: Table, domain: str, file: Path) -> None:
    """NLL and mode coverage against epsilon; two promises in two rows."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11.5, 7), layout="constrained", sharex=True)
    promises = (("the whole sample, one draw", WHOLE), ("one record, any number of draws", RECORD))
    for row, (promise, methods) in zip(axes, promises, strict=True):
        for ax, metric in zip(row, ("nll", "coverage"), strict=True):
            for i, method in enumerate(methods):
                eps, values = curve(table, domain, method, metric)
                if len(eps) and np.nanmin(values) < 1e3:
                    style = ENDS.get(method, {"color": f"C{i % 10}", "marker": "."})
                    wide = errors(table, domain, method, metric)
                    ax.errorbar(eps, values, wide, label=NAMES[method], elinewidth=0.8, **style)
            ax.set_xscale("log")
            if metric == "coverage":
                ax.set_ylim(top=1.03)
            elif methods is WHOLE:  # a histogram with noise for all records would hide the rest
                ax.set_ylim(top=1.15 * table[domain, "q0", 1.0, "nll"].mean())
            ax.set_ylabel({"nll": "-E log Q (nats)", "coverage": "mode coverage"}[metric])
            ax.set_title(f"protects {promise}", fontsize=9)
        row[1].legend(*row[0].get_legend_handles_labels(), fontsize=8, frameon=False, **BESIDE)
    for ax in axes[1]:
        ax.set_xlabel("epsilon")
    figure.suptitle(f"{domain}; bars are two standard errors")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _rounds(table: Table, file: Path) -> None:
    """The gain of each round, and the least that its edges promise."""
    import matplotlib.pyplot as plt

    domains = [d for d in ("mix1d", "ring", "random1d", "random2d") if _has(table, d)]
    if not domains:
        return
    figure, axes = plt.subplots(
        1, len(domains), figsize=(3.4 * len(domains), 3.2), layout="constrained", squeeze=False
    )
    for ax, domain in zip(axes[0], domains, strict=True):
        for t in (1, 2, 3):
            eps, gain = curve(table, domain, f"mbde_round_{t}", "gain")
            _, least = curve(table, domain, f"mbde_round_{t}", "least_gain")
            ax.loglog(eps, np.maximum(gain, 1e-5), color=f"C{t}", label=f"round {t}")
            ax.loglog(eps, np.maximum(least, 1e-5), "k:", lw=1, label="T14" if t == 3 else None)
        ax.set(title=domain, xlabel="epsilon", ylabel="gain (nats)")
    axes[0][0].legend(fontsize=8, frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _has(table: Table, domain: str) -> bool:
    return (domain, "mbde_round_1", 1.0, "gain") in table


def _wide(table: Table, file: Path) -> None:
    """Gains in five and ten dimensions."""
    import matplotlib.pyplot as plt

    domains = [d for d in ("wide5", "wide10") if (d, "mbde_T3", 1.0, "gain") in table]
    if not domains:
        return
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", squeeze=False)
    methods = {
        "optimum": "optimum (target known)", "plugin_trees": "clip, boosted trees",
        "plugin_network": "clip, network", "plugin_network_tilt": "tilt, network",
        "mbde_T3": "MBDE, 3 rounds",
    }  # fmt: skip
    for ax, domain in zip(axes[0], domains, strict=False):
        for i, (method, name) in enumerate(methods.items()):
            eps, gain = curve(table, domain, method, "gain")
            ax.plot(eps, gain, "--" if i == 0 else "-", marker=".", label=name)
        ax.set(title=domain, xlabel="epsilon", ylabel="KL(P, Q0) - KL(P, Q) (nats)")
    axes[0][0].legend(fontsize=8, frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _pictures(file: Path) -> None:
    """The two targets and what is made of them at epsilon = 1 and 5."""
    import matplotlib.pyplot as plt

    from benchmarks.mollifier_targets import TARGETS
    from pymc_private import mollify
    from pymc_private.mollifiers import Box

    figure, axes = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained")
    line, ring = TARGETS["mix1d"], TARGETS["ring"]
    rows = line.sample(10_000, 0)
    x = np.linspace(-2, 3, 1000)
    for ax, eps in zip(axes[0], (0.5, 1.0, 5.0), strict=True):
        law = mollify(rows, line.reference, eps)
        law.plot(ax)
        ax.plot(x, np.exp(line.logpdf(x[:, None])), "k:", lw=1, label="target")
        ax.set(title=f"mix1d, epsilon = {eps:g}", xlim=(-3, 3))
        ax.legend(fontsize=7, frameon=False)
    rows = ring.sample(10_000, 0)
    rows = rows[np.abs(rows).max(axis=1) < 7]
    for ax, eps in zip(axes[1], (0.5, 1.0, 5.0), strict=True):
        mollify(rows, Box([-7, -7], [7, 7]), eps).plot(ax)
        ax.set_title(f"ring, epsilon = {eps:g}")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _costs(file: Path) -> None:
    """What k draws cost, and how far the log ratio may range at a fixed total."""
    import matplotlib.pyplot as plt

    from pymc_private.mollifiers import mollified
    from pymc_private.privacy import Guarantee, mollifier_affordable, range_affordable

    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    mollified.plot_costs(0.1, 1e-6, 1000, axes[0])
    axes[0].set_title("k draws at epsilon = 0.1 each")
    k = np.unique(np.geomspace(1, 1000, 20).astype(int))
    clip = [mollifier_affordable(1.0, 1e-6, int(n)) for n in k]
    tilt = [range_affordable(1.0, 1e-6, int(n)) / 2 for n in k]
    share = [mollifier_affordable(1.0, 1e-6, int(n), mollified.EXAMPLE_SHARE) for n in k]
    axes[1].loglog(
        k, share, color=mollified.ORANGE, ls="--", label=f"clip, window={mollified.EXAMPLE_SHARE:g}"
    )
    axes[1].loglog(k, clip, color=mollified.ORANGE, label="clip")
    axes[1].loglog(k, tilt, color=mollified.BLUE, label="tilt")
    axes[1].set(xlabel="draws", ylabel="range of log Q/Q0", title="a total of (1, 1e-6)")
    axes[1].legend(frameon=False)
    for name, color, price in (
        ("clip", mollified.ORANGE, Guarantee.mollifier_of),
        ("tilt", mollified.BLUE, Guarantee.bounded_range_of),
    ):
        records = [price(0.1, int(n)).epsilon(1e-6) / 0.1 for n in k]
        axes[2].loglog(k, records, color=color, label=f"as dear: {name}")
    axes[2].fill_between(k, records, 1e3, color=mollified.BLUE, alpha=0.1, lw=0)
    axes[2].text(2, 300, "draws of a mollified law cost less")
    axes[2].text(2.6, 1.2, "a density of 0.1 per record costs less")
    axes[2].set(
        xlabel="draws k", ylabel="records m protected together", title="k against m, at 0.1"
    )
    axes[2].set_ylim(1, 1e3)
    axes[2].legend(frameon=False, loc="center left")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def text_table(table: Table, domain: str, metric: str, methods: Sequence[str]) -> str:
    """One metric by method and epsilon, as text."""
    eps = sorted({key[2] for key in table if key[0] == domain})
    lines = [f"{domain}, {metric}".ljust(24) + "".join(f"{e:>10g}" for e in eps)]
    for method in methods:
        cells: list[Any] = [table.get((domain, method, e, metric)) for e in eps]
        if any(cell is not None for cell in cells):
            row = "".join(f"{'-':>10}" if c is None else f"{c.mean():10.4f}" for c in cells)
            lines.append(method.ljust(24) + row)
    return "\n".join(lines)


STANDING = (
    "q0", "optimum", "plugin_kde", "plugin_kde_asym.05", "plugin_kde_tilt", "mbde_T3",
    "mbde_T3_stretch", "plugin_kde_boxQ0", "krr_projected_4", "krr_projected_16", "scale_shift",
    "laplace_hist_integral", "dpb_k10_integral", "dpb_k10", "laplace_hist_record", "gan_record",
)  # fmt: skip


def standing(table: Table) -> str:
    """KL at epsilon = 1 as a table of Markdown: means, and standard errors in their last digit."""
    domains = [
        d for d in ("ring", "mix1d", "random1d", "random2d") if (d, "q0", 1.0, "kl") in table
    ]
    lines = ["| law | " + " | ".join(domains) + " | replications | protects |"]
    lines.append("|---" * (len(domains) + 3) + "|")
    for method in STANDING:
        found = [table.get((d, method, 1.0, "kl")) for d in domains]
        numbers = ["-" if v is None else _with_error(v) for v in found]
        reps = max((len(v) for v in found if v is not None), default=0)
        whom = "one record" if method in RECORD else "" if method in ENDS else "whole sample"
        count = str(reps) if whom else ""
        name = NAMES.get(method, method)
        lines.append(f"| {name} | " + " | ".join(numbers) + f" | {count} | {whom} |")
    return "\n".join(lines)


def _with_error(values: np.ndarray) -> str:
    """As 5.71(14): a mean with its standard error in units of the last digit, if it has one."""
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    digits = 3 if error < 0.01 else 2
    units = round(error * 10**digits)
    text = f"{values.mean():.{digits}f}" + (f"({units})" if units else "")
    return text.removeprefix("0")


def make(folder: Path, reference: Path | None) -> None:
    """Write all tables and figures, and print the short ones."""
    table = read(folder / "mollifiers.csv")
    summary(table, folder / "summary.csv")
    for domain in dict.fromkeys(key[0] for key in table):
        for metric in ("kl", "nll", "coverage", "gain"):
            methods = list(dict.fromkeys(k[1] for k in table if (k[0], k[3]) == (domain, metric)))
            if methods:
                print(text_table(table, domain, metric, methods), end="\n\n")
    print(standing(table), end="\n\n")
    if reference is not None:
        print(mollifier_agreement.report(table, reference, folder / "agreement.csv"))
    figures(table, folder)
