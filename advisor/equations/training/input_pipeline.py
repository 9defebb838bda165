"""Input pipeline: the host reads, decodes and augments samples while the accelerator computes."""

import numpy as np

from advisor.equations import Number


def input_time_s(
    *,
    samples: Number,
    workers: Number,
    worker_s: Number,
    sample_bytes: Number,
    storage_bytes_per_s: Number,
) -> Number:
    r"""Time that the host needs to prepare the samples of one step. [s]

    Parameters
    ----------
    samples : Samples of one step. [samples]
    workers : Processes that decode and augment, each on its own core. [1]
    worker_s : Time of one worker for one sample; 0 if the samples are stored decoded. [s]
    sample_bytes : Size of one sample in storage. [bytes]
    storage_bytes_per_s : Read rate of the storage; infinite if the samples are in memory. [bytes/s]

    Notes
    -----
    .. math:: t = \max\left(\frac{n}{w} t_w, \frac{n b}{R}\right)

    Reading and decoding overlap each other and the accelerator's step, so the step takes at least
    this time. Leaves out the copy to the accelerator, which is pinned and hidden, and the first
    batch of an epoch.

    References
    ----------
    .. [1] Mohan et al., Analyzing and Mitigating Data Stalls in DNN Training, 2021,
       arXiv:2007.06775, section 3.

    Examples
    --------
    >>> found = input_time_s(
    ...     samples=256, workers=8, worker_s=0.005, sample_bytes=1e5, storage_bytes_per_s=1e9
    ... )
    >>> float(found)
    0.16
    """
    decoded = samples * worker_s / workers
    read = samples * sample_bytes / storage_bytes_per_s
    return np.maximum(decoded, read)
