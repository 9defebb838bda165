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
    stages : Pipeline stages, :math:`p`.
    share : Share of the further stages that work at the same time, :math:`\varphi`: 1 if the
        scheduler divides its sequences evenly, 0 if they travel together.

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
    return 1.0 + share * (stages - 1.0)


def prompts_sharing_step(
    *, concurrency: Number, output_tokens: Number, steps_per_prompt: Number
) -> Number:
    r"""Prompts that arrive within one step and share it.

    At least 1.

    Parameters
    ----------
    concurrency : Requests in flight on the engine, :math:`N`.
    output_tokens : Generated tokens per request, :math:`O`. [tokens]
    steps_per_prompt : Prompt over the engine's token limit, :math:`n = P / B`.

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
    return np.clip(concurrency / output_tokens, 1.0, np.maximum(1 / steps_per_prompt, 1.0))


def stopped_wait_s(
    *, concurrency: Number, output_tokens: Number, prompts_sharing: Number, prompt_s: Number
) -> Number:
    r"""Time that a prompt waits for others in a closed loop, if prompts stop generation. [s]

    Parameters
    ----------
    concurrency : float or ndarray
        Requests that run on the engine, :math:`N`.
    output_tokens : float or ndarray
        Steps of generation per request between two looks for prompts, :math:`O`.
    prompts_sharing : float or ndarray
        Prompts that share the step already, :math:`m`.
    prompt_s : float or ndarray
        Time that one more prompt takes, :math:`s`. [s]

    Notes
    -----
    .. math:: W = s \max\left(\frac{N - 1}{O} - (m - 1),\, 0\right)

    A request follows one that ends, and none ends while prompts stop generation. So no queue builds
    up: a prompt meets only those whose requests end in the same step.

    Examples
    --------
    >>> stopped_wait_s(
    ...     concurrency=101.0, output_tokens=200.0, prompts_sharing=1.0, prompt_s=0.1
    ... ).item()
    0.05
    """
    met: Number = np.maximum((concurrency - 1) / output_tokens - (prompts_sharing - 1), 0.0)
    return prompt_s * met


def most_generating(*, prompt_tokens: Number, steps: Number, step_tokens: Number) -> Number:
    r"""Requests that generate at the same time, however many wait for their prompts.

    At least 1.

    Parameters
    ----------
    prompt_tokens : Of one request, :math:`P`. [tokens]
    steps : In which a request generates, :math:`O`.
    step_tokens : Most tokens of a step, :math:`B`. [tokens]

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
    return np.maximum(step_tokens * steps / (prompt_tokens + steps), 1.0)


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
    prompt_overhead_s : Host time to set up a prompt, :math:`h`. [s]
    prompts_sharing : Prompts that set up together, :math:`m`.
    chunks : Steps that carry the prompt, :math:`c`.
    mixed_step_s : Step that carries a chunk of prompt beside the running sequences, :math:`M`. [s]
    running_step_s : Step that runs anyway, :math:`d`; 0 if a single request starts it. [s]

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
    return prompt_overhead_s / prompts_sharing + chunks * added


def first_token_s(
    *, prompt_overhead_s: Number, chunks: Number, mixed_step_s: Number, chunks_at_once: Number
) -> Number:
    r"""Time from the start of a prompt to its first token. [s]

    Parameters
    ----------
    prompt_overhead_s : Host time to set up a prompt, :math:`h`. [s]
    chunks : Steps that carry the prompt, :math:`c`.
    mixed_step_s : Step through all pipeline stages, :math:`M`. [s]
    chunks_at_once : Chunks of one prompt in flight, :math:`p`: the number of pipeline stages if the
        engine lets chunks follow each other, otherwise 1.

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
    steps_per_prompt : Prompt over the engine's token limit, :math:`n`.
    running_step_s : Step that runs anyway, :math:`d`. [s]
    extra_s : Time that the prompt adds to the steps that carry it, :math:`E`. [s]
    full_step_s : Step full of prompt tokens, :math:`f`. [s]
    pipeline : Stages that work on different prompts, :math:`p`.

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
    return np.maximum(alone, steps_per_prompt * full_step_s) / pipeline
