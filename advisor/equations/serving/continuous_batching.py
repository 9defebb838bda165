r"""Continuous batching: the time that one prompt costs an engine which serves many requests.

A step of the engine carries the running sequences, one token each, and at most :math:`B` prompt
tokens. Every function takes floats or arrays and broadcasts.

References
----------
.. [1] Agrawal et al., Sarathi-Serve, 2024, arXiv:2403.02310, sections 3 and 4.
.. [2] Kwon et al., PagedAttention, 2023, arXiv:2309.06180, section 4.
"""

import numpy as np

from advisor.equations import Number


def pipeline_batches(*, stages: Number, share: Number) -> Number:
    r"""Micro-batches that a pipeline of serving works on at the same time.

    Between 1 and ``stages``.

    Parameters
    ----------
    stages : float or ndarray
        Pipeline stages, :math:`p`.
    share : float or ndarray
        Share of the further stages that work at the same time, :math:`\varphi`: 1 if the scheduler
        divides its sequences evenly, 0 if they travel together.

    Notes
    -----
    .. math:: m = 1 + \varphi\,(p - 1)

    Schedulers that give most sequences to one micro-batch leave stages idle.

    References
    ----------
    .. [1] vllm-project/vllm, issues 41682 (a scheduler does not split its sequences into
       micro-batches) and 15330 (four stages decode at a third of the rate of tensor parallelism).

    Examples
    --------
    >>> float(pipeline_batches(stages=4, share=0.5))
    2.5
    """
    batches: Number = 1.0 + share * (stages - 1.0)
    return batches


def prompts_sharing_step(
    *, concurrency: Number, output_tokens: Number, steps_per_prompt: Number
) -> Number:
    r"""Prompts that arrive within one step and share it.

    At least 1.

    Parameters
    ----------
    concurrency : float or ndarray
        Requests in flight on the engine, :math:`N`.
    output_tokens : float or ndarray
        Generated tokens per request, :math:`O`. [tokens]
    steps_per_prompt : float or ndarray
        Prompt over the engine's token limit, :math:`n = P / B`.

    Notes
    -----
    .. math:: m = \min\left(\max\left(\frac{N}{O}, 1\right), \max\left(\frac{1}{n}, 1\right)\right)

    A request ends after :math:`O` steps, so :math:`N / O` requests start in each step. Assumes that
    the requests are out of phase.

    Examples
    --------
    >>> float(prompts_sharing_step(concurrency=512, output_tokens=128, steps_per_prompt=0.5))
    2.0
    """
    together: Number = np.clip(
        concurrency / output_tokens, 1.0, np.maximum(1 / steps_per_prompt, 1.0)
    )
    return together


def most_generating(*, prompt_tokens: Number, steps: Number, step_tokens: Number) -> Number:
    r"""Requests that generate at the same time, however many wait for their prompts.

    At least 1.

    Parameters
    ----------
    prompt_tokens : float or ndarray
        Of one request, :math:`P`. [tokens]
    steps : float or ndarray
        In which a request generates, :math:`O`.
    step_tokens : float or ndarray
        Most tokens of a step, :math:`B`. [tokens]

    Notes
    -----
    .. math:: R = \max\left(\frac{B\,O}{P + O}, 1\right)

    A request takes :math:`P + O` tokens of steps and stays for :math:`O` steps: Little's law,
    counted in steps.

    Examples
    --------
    >>> most_generating(prompt_tokens=1020.0, steps=4.0, step_tokens=8192.0).item()
    32.0
    """
    most: Number = np.maximum(step_tokens * steps / (prompt_tokens + steps), 1.0)
    return most


def prefill_extra_s(
    *,
    prompt_overhead_s: Number,
    prompts_sharing: Number,
    chunks: Number,
    mixed_step_s: Number,
    running_step_s: Number,
) -> Number:
    r"""Time that one prompt adds to the steps that carry it. [s]

    Parameters
    ----------
    prompt_overhead_s : float or ndarray
        Host time to set up a prompt, :math:`h`. [s]
    prompts_sharing : float or ndarray
        Prompts that set up together, :math:`m`.
    chunks : float or ndarray
        Steps that carry the prompt, :math:`c`.
    mixed_step_s : float or ndarray
        Step that carries a chunk of prompt beside the running sequences, :math:`M`. [s]
    running_step_s : float or ndarray
        Step that runs anyway, :math:`d`; 0 if a single request starts it. [s]

    Notes
    -----
    .. math:: E = \frac{h}{m} + c\,\max(M - d, 0)

    Examples
    --------
    >>> found = prefill_extra_s(
    ...     prompt_overhead_s=0.0,
    ...     prompts_sharing=1.0,
    ...     chunks=2.0,
    ...     mixed_step_s=0.5,
    ...     running_step_s=0.25,
    ... )
    >>> float(found)
    0.5
    """
    added = np.maximum(mixed_step_s - running_step_s, 0.0)
    extra: Number = prompt_overhead_s / prompts_sharing + chunks * added
    return extra


def others_extra_s(*, prefill_extra_s: Number, batches: Number, concurrency: Number) -> Number:
    r"""Time that a prompt adds to the steps of one of the other requests. [s]

    Mean over all requests; 0 for a single one.

    Parameters
    ----------
    prefill_extra_s : float or ndarray
        Time that it adds to the steps that carry it, :math:`E`. [s]
    batches : float or ndarray
        Micro-batches of a pipeline, :math:`m`: the prompt delays each by its share.
    concurrency : float or ndarray
        Requests that run, :math:`N`.

    Notes
    -----
    .. math:: E_o = \frac{E}{m}\,\frac{N - 1}{N}

    Examples
    --------
    >>> others_extra_s(prefill_extra_s=0.5, batches=1.0, concurrency=2.0)
    0.25
    """
    return prefill_extra_s / batches * (concurrency - 1) / concurrency


def first_token_s(
    *, prompt_overhead_s: Number, chunks: Number, mixed_step_s: Number, chunks_at_once: Number
) -> Number:
    r"""Time from the start of a prompt to its first token. [s]

    Parameters
    ----------
    prompt_overhead_s : float or ndarray
        Host time to set up a prompt, :math:`h`. [s]
    chunks : float or ndarray
        Steps that carry the prompt, :math:`c`.
    mixed_step_s : float or ndarray
        Step through all pipeline stages, :math:`M`. [s]
    chunks_at_once : float or ndarray
        Chunks of one prompt in flight, :math:`p`: the number of pipeline stages if the engine lets
        chunks follow each other, otherwise 1.

    Notes
    -----
    .. math:: F = h + \frac{c + p - 1}{p}\,M

    Examples
    --------
    >>> first_token_s(prompt_overhead_s=0.0, chunks=4.0, mixed_step_s=0.5, chunks_at_once=1.0)
    2.0
    """
    return prompt_overhead_s + (chunks + chunks_at_once - 1) / chunks_at_once * mixed_step_s


def prompt_service_s(
    *,
    steps_per_prompt: Number,
    running_step_s: Number,
    extra_s: Number,
    full_step_s: Number,
    pipeline: Number,
) -> Number:
    r"""Time for which one prompt occupies the engine. [s]

    Parameters
    ----------
    steps_per_prompt : float or ndarray
        Prompt over the engine's token limit, :math:`n`.
    running_step_s : float or ndarray
        Step that runs anyway, :math:`d`. [s]
    extra_s : float or ndarray
        Time that the prompt adds to the steps that carry it, :math:`E`. [s]
    full_step_s : float or ndarray
        Step full of prompt tokens, :math:`f`. [s]
    pipeline : float or ndarray
        Stages that work on different prompts, :math:`p`.

    Notes
    -----
    .. math:: s = \frac{\max(n d + E,\; n f)}{p}

    A short prompt adds almost nothing to a running step, but full steps of prompts set the limit.

    Examples
    --------
    >>> found = prompt_service_s(
    ...     steps_per_prompt=0.5, running_step_s=0.25, extra_s=0.125, full_step_s=1.0, pipeline=1.0
    ... )
    >>> float(found)
    0.5
    """
    alone = steps_per_prompt * running_step_s + extra_s
    service: Number = np.maximum(alone, steps_per_prompt * full_step_s) / pipeline
    return service
