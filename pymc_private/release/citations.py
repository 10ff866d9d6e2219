"""BibTeX entries by theorem number, for the theorems that a guarantee names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_POSTERIOR = """\
@article{dimitrakakis2017posterior,
  title   = {Differential Privacy for {B}ayesian Inference through Posterior Sampling},
  author  = {Dimitrakakis, Christos and Nelson, Blaine and Zhang, Zuhe and
             Mitrokotsa, Aikaterini and Rubinstein, Benjamin I. P.},
  journal = {Journal of Machine Learning Research},
  volume  = {18},
  number  = {11},
  pages   = {1--39},
  year    = {2017}
}"""
_EXPONENTIAL = """\
@inproceedings{mcsherry2007mechanism,
  title     = {Mechanism Design via Differential Privacy},
  author    = {McSherry, Frank and Talwar, Kunal},
  booktitle = {48th Annual IEEE Symposium on Foundations of Computer Science},
  pages     = {94--103},
  year      = {2007}
}"""
_BOUNDED_RANGE = """\
@inproceedings{durfee2019practical,
  title     = {Practical Differentially Private Top-$k$ Selection with
               Pay-what-you-get Composition},
  author    = {Durfee, David and Rogers, Ryan M.},
  booktitle = {Advances in Neural Information Processing Systems 32},
  year      = {2019}
}"""
_UNIFYING = """\
@inproceedings{cesar2021bounding,
  title     = {Bounding, Concentrating, and Truncating: Unifying Privacy Loss Composition
               for Data Analytics},
  author    = {Cesar, Mark and Rogers, Ryan},
  booktitle = {Algorithmic Learning Theory},
  series    = {Proceedings of Machine Learning Research},
  volume    = {132},
  year      = {2021}
}"""
_OPTIMAL = """\
@inproceedings{dong2020optimal,
  title     = {Optimal Differential Privacy Composition for Exponential Mechanisms},
  author    = {Dong, Jinshuo and Durfee, David and Rogers, Ryan},
  booktitle = {International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {119},
  year      = {2020}
}"""
_EXACT_ZCDP = """\
@inproceedings{harrison2026exact,
  title     = {Exact {zCDP} Characterizations for Fundamental Differentially Private Mechanisms},
  author    = {Harrison, Charlie and Manurangsi, Pasin},
  booktitle = {7th Symposium on Foundations of Responsible Computing},
  series    = {Leibniz International Proceedings in Informatics},
  volume    = {368},
  pages     = {3:1--3:18},
  year      = {2026}
}"""
_DISCRETE_GAUSSIAN = """\
@inproceedings{canonne2020discrete,
  title     = {The Discrete {G}aussian for Differential Privacy},
  author    = {Canonne, Cl{\\'e}ment L. and Kamath, Gautam and Steinke, Thomas},
  booktitle = {Advances in Neural Information Processing Systems 33},
  year      = {2020}
}"""
_ZCDP = """\
@inproceedings{bun2016concentrated,
  title     = {Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds},
  author    = {Bun, Mark and Steinke, Thomas},
  booktitle = {Theory of Cryptography Conference},
  pages     = {635--658},
  year      = {2016}
}"""
_CONVEX = """\
@inproceedings{gopi2022private,
  title     = {Private Convex Optimization via Exponential Mechanism},
  author    = {Gopi, Sivakanth and Lee, Yin Tat and Liu, Daogao},
  booktitle = {Conference on Learning Theory},
  series    = {Proceedings of Machine Learning Research},
  volume    = {178},
  year      = {2022}
}"""
_GDP = """\
@article{dong2022gaussian,
  title   = {{G}aussian Differential Privacy},
  author  = {Dong, Jinshuo and Roth, Aaron and Su, Weijie J.},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {84},
  number  = {1},
  pages   = {3--37},
  year    = {2022}
}"""
_PROXIMAL = """\
@inproceedings{chen2022improved,
  title     = {Improved Analysis for a Proximal Algorithm for Sampling},
  author    = {Chen, Yongxin and Chewi, Sinho and Salim, Adil and Wibisono, Andre},
  booktitle = {Conference on Learning Theory},
  series    = {Proceedings of Machine Learning Research},
  volume    = {178},
  year      = {2022}
}"""
_PURIFY = """\
@article{lin2025purifying,
  title   = {Purifying Approximate Differential Privacy with Randomized Post-processing},
  author  = {Lin, Yingyu and Wang, Erchi and Ma, Yi-An and Wang, Yu-Xiang},
  journal = {arXiv preprint arXiv:2503.21071},
  year    = {2025}
}"""
_FILTER = """\
@inproceedings{whitehouse2023fully,
  title     = {Fully-Adaptive Composition in Differential Privacy},
  author    = {Whitehouse, Justin and Ramdas, Aaditya and Rogers, Ryan and Wu, Zhiwei Steven},
  booktitle = {International Conference on Machine Learning},
  year      = {2023}
}"""
_GIBBS = """\
@article{bissiri2016general,
  title   = {A General Framework for Updating Belief Distributions},
  author  = {Bissiri, Pier Giovanni and Holmes, Chris C. and Walker, Stephen G.},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {78},
  number  = {5},
  pages   = {1103--1130},
  year    = {2016}
}"""

_INTEGRAL = """\
@article{husain2019integral,
  title   = {Integral Privacy for Sampling},
  author  = {Husain, Hisham and Cranko, Zac and Nock, Richard},
  journal = {arXiv preprint arXiv:1806.04819},
  year    = {2019}
}"""
_LOCAL = """\
@inproceedings{husain2020local,
  title     = {Local Differential Privacy for Sampling},
  author    = {Husain, Hisham and Balle, Borja and Cranko, Zac and Nock, Richard},
  booktitle = {Artificial Intelligence and Statistics},
  series    = {Proceedings of Machine Learning Research},
  volume    = {108},
  year      = {2020}
}"""
_DIRICHLET = """\
@article{ponnoprat2023dirichlet,
  title   = {{D}irichlet Mechanism for Differentially Private {KL} Divergence Minimization},
  author  = {Ponnoprat, Donlapark},
  journal = {Transactions on Machine Learning Research},
  year    = {2023}
}"""
_RENYI_POSTERIOR = """\
@inproceedings{geumlek2017renyi,
  title     = {{R}\\'enyi Differential Privacy Mechanisms for Posterior Sampling},
  author    = {Geumlek, Joseph and Song, Shuang and Chaudhuri, Kamalika},
  booktitle = {Advances in Neural Information Processing Systems 30},
  year      = {2017}
}"""
_OPENDP = """\
@misc{opendp,
  title  = {The {OpenDP} Library},
  author = {{The OpenDP Team}},
  url    = {https://opendp.org}
}"""
_BOUNDED_INFLUENCE = """\
@article{kunsch1989conditionally,
  title   = {Conditionally Unbiased Bounded-Influence Estimation in General Regression Models,
             with Applications to Generalized Linear Models},
  author  = {K{\\"u}nsch, Hans R. and Stefanski, Leonard A. and Carroll, Raymond J.},
  journal = {Journal of the American Statistical Association},
  volume  = {84},
  number  = {406},
  pages   = {460--466},
  year    = {1989}
}"""
_FAMILIES = """\
@inproceedings{bernstein2018exponential,
  title     = {Differentially Private {B}ayesian Inference for Exponential Families},
  author    = {Bernstein, Garrett and Sheldon, Daniel},
  booktitle = {Advances in Neural Information Processing Systems 31},
  year      = {2018}
}"""
_REGRESSION = """\
@inproceedings{bernstein2019regression,
  title     = {Differentially Private {B}ayesian Linear Regression},
  author    = {Bernstein, Garrett and Sheldon, Daniel},
  booktitle = {Advances in Neural Information Processing Systems 32},
  year      = {2019}
}"""
_AUGMENTATION = """\
@inproceedings{ju2022augmentation,
  title     = {Data Augmentation {MCMC} for {B}ayesian Inference from Privatized Data},
  author    = {Ju, Nianqiao and Awan, Jordan A. and Gong, Ruobin and Rao, Vinayak A.},
  booktitle = {Advances in Neural Information Processing Systems 35},
  year      = {2022}
}"""

ENTRIES_BY_THEOREM: dict[str, tuple[str, ...]] = {
    "T1": (_POSTERIOR, _EXPONENTIAL, _BOUNDED_RANGE),
    "T2": (_UNIFYING, _OPTIMAL, _EXACT_ZCDP),
    "T3": (_OPTIMAL,),
    "T4": (_DISCRETE_GAUSSIAN, _ZCDP),
    "T7": (_CONVEX, _GDP),
    "T8": (_CONVEX, _GDP),
    "T9": (_DIRICHLET, _RENYI_POSTERIOR),
    "T10": (_DIRICHLET, _RENYI_POSTERIOR),
    "T11": (_DIRICHLET,),
    "T12": (_DIRICHLET,),
    "T14": (_INTEGRAL,),
    "T15": (_INTEGRAL, _LOCAL),
    "T16": (_POSTERIOR,),
    "T20": (_GDP,),
    "T21": (_PROXIMAL,),
    "T23": (_FILTER,),
    "T26": (_DISCRETE_GAUSSIAN, _OPENDP),
    "T25": (_GIBBS, _EXPONENTIAL),
    "T29": (_PURIFY, _BOUNDED_RANGE),
    "T30": (_GDP,),
    "T31": (_GDP,),
    "T33": (_FAMILIES, _AUGMENTATION),
    "T35": (_FAMILIES, _REGRESSION),
    "T36": (_BOUNDED_INFLUENCE, _REGRESSION),
    "T38": (_BOUNDED_INFLUENCE,),
}


def cite(theorem: str, more: Iterable[str] = ()) -> str:
    """Collect BibTeX entries for the T-numbers named in ``theorem``, then ``more``, each once.

    Examples
    --------
    >>> print(cite("T3").splitlines()[0])
    @inproceedings{dong2020optimal,
    """
    named = [
        entry for key in _theorem_numbers(theorem) for entry in ENTRIES_BY_THEOREM.get(key, ())
    ]
    once: dict[str, str] = {}
    for entry in [*named, *more]:
        once.setdefault(_bibtex_key(entry), entry.strip())
    return "\n\n".join(once.values())


def _theorem_numbers(theorem: str) -> Iterator[str]:
    """List the T-numbers in a text; ``T1-T3`` names three."""
    for first, last in re.findall(r"\bT(\d+)[a-d]?(?:\s*[-–]\s*T?(\d+)[a-d]?)?\b", theorem):
        yield from (f"T{number}" for number in range(int(first), int(last or first) + 1))


def _bibtex_key(entry: str) -> str:
    """Entries are one if their BibTeX keys are; text without a key counts as itself."""
    found = re.match(r"\s*@\w+\s*\{\s*([^,\s]+)", entry)
    return found.group(1) if found else entry.strip()
