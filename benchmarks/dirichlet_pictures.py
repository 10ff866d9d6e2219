"""The figures of the experiments: cross-entropy, accuracy and log-likelihood against epsilon."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

SHOWN = {
    "RDP": ("dirichlet_alg1", "dirichlet_exact_opt", "gaussian_clip", "laplace_clip",
            "gaussian_truncmean", "noisy", "auto"),
    "(eps,delta)": ("dirichlet_alg1_eq14", "dirichlet_exact_hockeystick", "gohari_exact",
                    "gaussian_adv_clip", "gaussian_clip", "gaussian_truncmean", "noisy", "auto"),
}  # fmt: skip
NAMES = {
    "dirichlet_alg1": ("Algorithm 1", "#c0652b"), "dirichlet_alg1_eq14": ("Algorithm 1", "#c0652b"),
    "dirichlet_exact_opt": ("exact Dirichlet", "#3b6ea8"),
    "dirichlet_exact_hockeystick": ("exact Dirichlet", "#3b6ea8"),
    "gohari_exact": ("Gohari et al., exact price", "#8a8a8a"),
    "gaussian_adv_clip": ("Gaussian, clipped, as the paper composes", "#d07fa8"),
    "gaussian_clip": ("Gaussian, clipped", "#b9a13b"),
    "laplace_clip": ("Laplace, clipped", "#5aa8a8"),
    "gaussian_truncmean": ("Gaussian, denoised", "#8b5aa8"), "noisy": ("noise-aware", "#4f8f4f"),
    "auto": ("auto", "black"),
}  # fmt: skip
WORDS = {
    "ce": "test cross-entropy (nats)",
    "acc": "test accuracy",
    "ll": "test log-likelihood lost to privacy (nats per record)",
}


def pictures(table: pd.DataFrame, out: Path) -> list[Path]:
    """One figure per task, kind of privacy and metric; one panel per data set."""
    made = []
    table = table.assign(at=table["epsilon"].astype(float))
    for task in ("nb", "bn"):
        for privacy, shown in SHOWN.items():
            for metric in ("ce", "acc", "ll"):
                part = table[(table["task"] == task) & (table["metric"] == metric)]
                if len(part):
                    made.append(_figure(part, task, privacy, shown, metric, out))
    return made


def _figure(part, task, privacy, shown, metric, out) -> Path:
    sets = sorted(part["dataset"].unique())
    across = min(4, len(sets))
    down = -(-len(sets) // across)
    size = (3.3 * across, 2.7 * down + 0.9)
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    for ax, name in zip(axes.ravel(), sets, strict=False):
        here = part[part["dataset"] == name]
        best = float(here[here["method"] == "nonprivate"]["mean"].iloc[0])
        for method in shown:
            label, color = NAMES[method]
            line = here[(here["method"] == method) & (here["privacy"] == privacy)].sort_values("at")
            style = {"lw": 2.2, "ls": "--"} if method == "auto" else {"lw": 1.4}
            value = line["mean"]
            if metric == "ll":  # of log-likelihoods it is the loss that can be seen
                value = (best - value).clip(lower=1e-3)
            ax.errorbar(line["at"], value, line["std"], color=color, label=label, **style)
        if metric != "ll":
            ax.axhline(best, color="black", lw=0.8, ls=":", label="nonprivate")
        ax.set(xscale="log", title=name, xlabel="epsilon")
        if metric != "acc":
            ax.set(yscale="log")
        ax.grid(alpha=0.25)
    for ax in axes.ravel()[len(sets) :]:
        ax.axis("off")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(f"{WORDS[metric]}: {'naive Bayes' if task == 'nb' else 'Bayesian networks'}, "
                    f"{privacy}", fontsize="medium")  # fmt: skip
    file = out / f"{task}_{metric}_{'rdp' if privacy == 'RDP' else 'approximate'}.png"
    figure.savefig(file, dpi=90)
    plt.close(figure)
    return file
