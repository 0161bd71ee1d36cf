"""How far random draws of several chains can be trusted: rank-normalised split R-hat, and effective
sample sizes.

Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), "Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16(2). All
functions take draws of shape (..., chains, draws), and work along the last two axes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, special

Array = NDArray[np.float64]
#: Chains that mixed are below this R-hat, and have more effective draws in all than this (Vehtari
#: et al. 2021).
RHAT, ENOUGH = 1.01, 400


def rhat(draws: ArrayLike) -> Array:
    """The larger of the R-hats of ranks and of folded ranks of split chains; 1 where nothing
    varies.

    >>> rng = np.random.default_rng(0)
    >>> bool(rhat(rng.normal(size=(4, 500))) < 1.01), bool(rhat(rng.normal(size=(4, 500)) + np.arange(4)[:, None]) > 1.5)
    (True, True)
    """  # noqa: E501
    x = _split(np.asarray(draws, dtype=float))
    return _rhat_by_ranks(x, _normal_ranks(x))


def effective_sample_size(draws: ArrayLike) -> Array:
    """The smallest of the effective sizes for the bulk and for both tails (5% and 95%).

    >>> rng = np.random.default_rng(0)
    >>> independent = rng.normal(size=(4, 500))
    >>> bool(effective_sample_size(independent) > 1000), bool(effective_sample_size(independent.cumsum(axis=1)) < 50)
    (True, True)
    """  # noqa: E501
    x = _split(np.asarray(draws, dtype=float))
    return _size_by_ranks(x, _normal_ranks(x))


def rhat_and_size(draws: ArrayLike) -> tuple[Array, Array]:
    """`rhat` and `effective_sample_size` of the same draws, which are ranked once."""
    x = _split(np.asarray(draws, dtype=float))
    ranks = _normal_ranks(x)
    return _rhat_by_ranks(x, ranks), _size_by_ranks(x, ranks)


def _rhat_by_ranks(x: Array, ranks: Array) -> Array:
    folded = np.abs(x - np.median(x, axis=(-2, -1), keepdims=True))
    return np.maximum(_rhat(ranks), _rhat(_normal_ranks(folded)))


def _size_by_ranks(x: Array, ranks: Array) -> Array:
    ends = np.quantile(x, [0.05, 0.95], axis=(-2, -1))[..., None, None]
    return np.minimum(_size(ranks), np.minimum(*(_size((x <= end).astype(float)) for end in ends)))


def _split(x: Array) -> Array:
    """Either half of a chain as a chain."""
    half = x.shape[-1] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=-2)


def _normal_ranks(x: Array) -> Array:
    from scipy import stats  # slow to load, and only this needs it

    flat = x.reshape(*x.shape[:-2], -1)
    ranks = stats.rankdata(flat, axis=-1)
    return special.ndtri((ranks - 0.375) / (flat.shape[-1] + 0.25)).reshape(x.shape)


def _spread(x: Array) -> tuple[Array, Array]:
    """Mean variance within chains, and the estimate of the whole variance."""
    n = x.shape[-1]
    within = x.var(axis=-1, ddof=1).mean(axis=-1)
    return within, within * (n - 1) / n + x.mean(axis=-1).var(axis=-1, ddof=1)


def _rhat(x: Array) -> Array:
    within, whole = _spread(x)
    return np.sqrt(np.divide(whole, within, out=np.where(whole > 0, np.inf, 1.0), where=within > 0))


def _size(x: Array) -> Array:
    """Draws divided by the autocorrelation time, which is summed over pairs of lags as long as they
    fall (Geyer 1992).
    """
    chains, n = x.shape[-2:]
    centred = x - x.mean(axis=-1, keepdims=True)
    spectrum = fft.rfft(centred, fft.next_fast_len(2 * n), axis=-1)
    power = (np.abs(spectrum) ** 2).mean(axis=-2)  # one transform back serves all chains
    covariance = fft.irfft(power, fft.next_fast_len(2 * n), axis=-1)[..., :n] / n
    within, whole = _spread(x)
    varies = whole > 0
    whole = np.where(varies, whole, 1.0)[..., None]
    correlation = 1 - (within[..., None] - covariance * n / (n - 1)) / whole
    correlation[..., 0] = 1.0
    even = n // 2 * 2
    pairs = correlation[..., :even:2] + correlation[..., 1:even:2]
    pairs = np.minimum.accumulate(
        np.where(np.logical_and.accumulate(pairs > 0, axis=-1), pairs, 0.0), axis=-1
    )
    time = np.maximum(2 * pairs.sum(axis=-1) - 1, 1 / np.log10(chains * n))
    return np.where(varies, chains * n / time, float(chains * n))
