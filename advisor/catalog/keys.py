"""Keys of offers."""

import re


def slug(text: str) -> str:
    """Return the text as lower-case words joined by dashes.

    Examples
    --------
    >>> slug("gpu-h100-sxm 8gpu-128vcpu")
    'gpu-h100-sxm-8gpu-128vcpu'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def offer_key(provider: str, instance_type: str, region: str, tier: str) -> str:
    """Return the key of an offer: its four names as slugs.

    Examples
    --------
    >>> offer_key("AWS", "p5.48xlarge", "us-east-1", "on-demand list")
    'aws/p5-48xlarge/us-east-1/on-demand-list'
    """
    return "/".join(map(slug, (provider, instance_type, region, tier)))
