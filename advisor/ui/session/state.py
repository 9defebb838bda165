"""The session: inputs kept in widgets, the last good answer, and one cached call of the engine."""

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Final, TypeVar

import streamlit as st

import advisor
from advisor import api
from advisor.architecture.titles import by_use, model_label
from advisor.errors import AdvisorError, InputError
from advisor.foundation.record import record
from advisor.frames import catalog
from advisor.nouns.case import Case
from advisor.nouns.case_files import load_sent
from advisor.nouns.inputs import ADAPTERS, FINE_TUNING, SAMPLES, Network, Task
from advisor.nouns.limits import OwnedHardware
from advisor.ui.forms.cases import case_of, in_words, input_field
from advisor.ui.forms.inputs import (
    DEFAULTS,
    EXAMPLE_CARD,
    FROM_CONFIG,
    FROM_COUNT,
    TUNED_SAMPLES,
    Inputs,
)
from advisor.ui.forms.networks import EXAMPLES, network_named
from advisor.ui.forms.reading import read, used
from advisor.ui.forms.rules import OWN, RULES, SHAPE
from advisor.ui.parts.wording import plain
from advisor.ui.session import address, links, own_catalog
from advisor.ui.session.kept import kept, kept_for
from advisor.ui.session.links import Page
from advisor.ui.session.question import KEY, question

T = TypeVar("T")
MEASURED: Final = "measured"
"""Session's key of measured cards, by catalog key."""
VALID: Final = "valid"
"""Session's key of the last inputs that had an answer."""
MODEL: Final = {"model", "config", "parameters", *SHAPE}
"""Inputs that name a model together: where one is wrong, none is new."""
LOGGER: Final = logging.getLogger(__name__)


@record
class Answer:
    """What the page shows: the recommendation, the inputs behind it, and what was wrong."""

    inputs: Inputs
    """Those that the recommendation rests on; a wrong field keeps its last good value."""
    recommendation: api.Recommendation
    problems: Mapping[str, str]
    """Sentences by field; the key ``""`` holds one that belongs to no field."""


@record
class Unanswered:
    """A question without an answer: what is wrong, by field."""

    problems: Mapping[str, str]


CATALOGS: Final = 8
"""Catalogs, one for each set of uploaded files, whose names a server keeps."""


def key(name: str) -> str:
    """Return the key of the widget of a field."""
    return KEY + name


@functools.cache
def page() -> Page:
    """Return the inputs as they stand in the address."""
    return question(providers=provider_names, accelerators=accelerator_names)


def beside(
    name: str, own: Mapping[str, links.Field], called: Mapping[str, str] | None = None
) -> Page:
    """Return the inputs of another page: its own, and the question that all pages share.

    Names of its own go before those of the question; ``called`` holds names that the page has for
    inputs of the question.
    """
    held = dict(own)
    for known, field in page().fields.items():
        if field.key.startswith(KEY):
            title = (called or {}).get(known, known)
            other = replace(field, aliases=(known, *field.aliases))
            held[field.key if title in own else title] = other
    return Page(name, held)


def open_page(of: Page | None = None) -> links.Opened:
    """Fill the inputs of a page, if not of the first, where the address decides."""
    return address.open_page(of or page())


def current(of: Page | None = None) -> Inputs:
    """Return the question as it stands in the widgets of a page."""
    return inputs_of(address.values(of or page()), of)


def inputs_of(values: links.Values, of: Page | None = None) -> Inputs:
    """Return the inputs among the values of a page; a box that was emptied holds nothing."""
    names = _names(of or page())
    held = {item.name: values[names[item.name]] for item in fields(Inputs)}
    return Inputs(**{name: held[name] or type(getattr(DEFAULTS, name))() for name in held})  # type: ignore[arg-type]


def _names(of: Page) -> dict[str, str]:
    """Return what a page calls each input of the question."""
    keys = {field.key: name for name, field in of.fields.items()}
    return {item.name: keys[key(item.name)] for item in fields(Inputs)}


def write(of: Page | None = None) -> Inputs:
    """Write the inputs to the address; a wrong one as it stands, if its box can show it again.

    Others are written as they were last right, as the answer takes them. Returns the question.
    """
    shown = of or page()
    names, asked = _names(shown), address.values(shown)
    inputs = inputs_of(asked, of)
    kept_inputs = usable(inputs)
    right = {names[item.name]: getattr(kept_inputs, item.name) for item in fields(Inputs)}
    wrong = {
        names[name]: asked[names[name]]
        for name in read(inputs).problems
        if shown.fields[names[name]].keeps_wrong and links.short(asked[names[name]])
    }
    address.write(shown, asked | right | wrong)
    return inputs


def take(values: Mapping[str, object]) -> None:
    """Put inputs of the question into their boxes; a callback."""
    for name, value in values.items():
        st.session_state[key(name)] = list(value) if isinstance(value, tuple) else value


def reset_advanced() -> None:
    """Put every advanced field back to its default; a callback."""
    take({name: getattr(DEFAULTS, name) for name, rules in RULES.items() if rules.advanced})


def changed_advanced(inputs: Inputs) -> list[str]:
    """Return the advanced fields in use that differ from their defaults."""
    return [
        name
        for name, rules in RULES.items()
        if rules.advanced
        and used(name, inputs)
        and getattr(inputs, name) != getattr(DEFAULTS, name)
    ]


def answer(inputs: Inputs, told: Callable[[str, Inputs], object]) -> Answer | Unanswered:
    """Return the answer to the inputs; where one cannot be used, to its last good value.

    ``told`` is called with its sentence and inputs as soon as that is known. A question that has no
    answer from the start, as a link may ask, gets none: the answer to another would mislead. Raises
    AdvisorError if not even the last good inputs have an answer.
    """
    problems = dict(read(inputs).problems)
    asked = usable(inputs)
    try:
        found = _answered(asked, problems, told)
    except InputError as error:
        problems.setdefault(input_field(error.field, asked) or "", sentence(error))
        if VALID not in st.session_state:
            return Unanswered(problems)
        return _answered(st.session_state[VALID], problems, told)
    st.session_state[VALID] = asked
    return found


def usable(inputs: Inputs) -> Inputs:
    """Return the inputs with the last good value for each that cannot be used, or its default."""
    wrong = set(read(inputs).problems)
    valid: Inputs = st.session_state.get(VALID, DEFAULTS)
    if wrong & MODEL and VALID in st.session_state:
        wrong |= MODEL
    return replace(inputs, **{name: getattr(valid, name) for name in wrong})


def _answered(
    inputs: Inputs, problems: Mapping[str, str], told: Callable[[str, Inputs], object]
) -> Answer:
    case = asked_case(inputs)
    heard: list[str] = []

    def tell(sentence: str) -> None:
        heard.append(sentence)
        told(sentence, inputs)

    found = _recommended(case, tell)
    if not heard:
        told(found.answer, inputs)
    return Answer(inputs, found, problems)


def use_machine(owned: Sequence[OwnedHardware]) -> None:
    """Ask the question of all pages about a machine, with what was measured; a callback."""
    st.session_state[MEASURED] = {item.accelerator: item for item in owned if item.measured}
    first = max(owned, key=lambda item: item.count)
    take({"rent": OWN, "own_accelerator": first.accelerator, "own_count": str(first.count)})


def measured(inputs: Inputs) -> OwnedHardware | None:
    """Return what was measured of the card of the question, in this session."""
    found: dict[str, OwnedHardware] = st.session_state.get(MEASURED, {})
    return found.get(inputs.own_accelerator) if inputs.rent == OWN else None


def case_mapping(inputs: Inputs) -> dict[str, object]:
    """Return the case of inputs without problems."""
    case = case_of(inputs, read(inputs).numbers)
    if found := measured(inputs):
        case["limits"]["owned"][0]["measured"] = found.model_dump(mode="json")["measured"]
    return case


def asked_case(inputs: Inputs, **more: object) -> Case:
    """Return the case of inputs without problems, with further sections."""
    return load_sent(Case, case_mapping(inputs) | more)


def recommended(inputs: Inputs) -> api.Recommendation:
    """Return the answer to inputs without problems."""
    return _recommended(asked_case(inputs), str)


def _recommended(case: Case, told: Callable[[str], object]) -> api.Recommendation:
    """Return the answer without what only folded parts of the page show."""
    brief = partial(api.recommend, case, on_sentence=told, brief=True)
    return kept(brief, "brief", case.to_json(indent=None))


def whole(found: Answer) -> api.Recommendation:
    """Return an answer with all that its files and folded parts show."""
    case = found.recommendation.case
    if not found.recommendation.plans:
        return found.recommendation
    return kept_for(case, api.recommend)


def link(of: Page, inputs: Inputs, found: Answer | None = None) -> str:
    """Return the link to a page: its address with every input, and what it says now."""
    plans = found.recommendation.plans if found else ()
    rent = plans[0].estimate.cost.rent_usd if plans else None
    names = _names(of)
    asked = {names[name]: value for name, value in asdict(inputs).items()}
    parameters = links.with_answer(
        links.encode(of, address.values(of) | asked, whole=True),
        engine=advisor.__version__,
        catalog=api.load_catalog().newest_price_date
        if found is None
        else found.recommendation.catalog_date,
        usd=None if rent is None else rent.expected,
    )
    return links.address(address.here(of), parameters)


def case_on_card(inputs: Inputs) -> Case:
    """Return the case on the user's own cards: those of the question, or the example."""
    card, count = card_of(inputs)
    owned = replace(inputs, rent=OWN)
    return asked_case(owned, hardware={"accelerator": card, "count": count})


def card_of(inputs: Inputs) -> tuple[str, int]:
    """Return the card and count of the question, or the example."""
    owned = read(replace(inputs, rent=OWN)).numbers.get("own_count")
    return inputs.own_accelerator or EXAMPLE_CARD, int(owned or 1)


def model_titles(network: str) -> dict[str, str]:
    """Return what the model box offers for a kind of network: value to title, most asked first."""
    others = {FROM_CONFIG: "Own config.json"}
    if network == Network.LANGUAGE:
        # Every name: to tell the kinds apart takes a second, when a page opens.
        others[FROM_COUNT] = "Other: by size"
        return preset_titles() | others
    names = presets_by_network().get(network, ())
    return {name: preset_titles()[name] for name in names} | others


@st.cache_resource(show_spinner=False)
def preset_titles() -> dict[str, str]:
    """Return what a list shows of every preset, most asked first."""
    return {name: model_label(name) for name in by_use()}


@st.cache_resource(show_spinner=False)
def presets_by_network() -> dict[str, tuple[str, ...]]:
    """Return the presets of each kind of network."""
    found: dict[str, list[str]] = {}
    for name in by_use():
        found.setdefault(network_named(name, Network.LANGUAGE), []).append(name)
    return {kind: tuple(names) for kind, names in found.items()}


def open_network() -> None:
    """Take the example of the chosen kind of network, and a task that it has; a callback."""
    network = Network(st.session_state[key("network")])
    st.session_state[key("model")] = EXAMPLES[network]
    if (
        network not in (Network.LANGUAGE, Network.ENCODER)
        and st.session_state[key("task")] in ADAPTERS
    ):
        st.session_state[key("task")] = Task.PRETRAIN.value
    open_work()


def open_work() -> None:
    """Take the example of images or samples of a task, where the other task's stands; a callback.

    Nobody tunes on as many images as a network is trained on from the start.
    """
    task, model, network = (st.session_state.get(key(n)) for n in ("task", "model", "network"))
    tunes = task in FINE_TUNING and network_named(model, network) in SAMPLES
    if st.session_state.get(key("samples")) in (DEFAULTS.samples, TUNED_SAMPLES):
        st.session_state[key("samples")] = TUNED_SAMPLES if tunes else DEFAULTS.samples


def _of_catalog(names: Callable[[], T]) -> Callable[[], T]:
    """Keep what is read of a catalog for all sessions, once for each of the last ``CATALOGS``."""
    kept_names = functools.lru_cache(CATALOGS)(lambda version: names())
    return functools.wraps(names)(lambda: kept_names(own_catalog.version()))


@_of_catalog
def provider_names() -> tuple[str, ...]:
    """Return every provider with an offer."""
    return tuple(sorted({offer.provider for offer in api.load_catalog().offers}, key=str.lower))


@st.cache_resource(show_spinner=False)
def place_names() -> dict[str, str]:
    """Return every place with a carbon intensity and a tariff: key to name."""
    return {item.key: item.name for item in api.places()}


@_of_catalog
def accelerator_names() -> dict[str, str]:
    """Return every accelerator: catalog key to name, by name."""
    cards = sorted(api.load_catalog().accelerators, key=lambda item: item.name.lower())
    return {item.key: item.name for item in cards}


@_of_catalog
def card_titles() -> dict[str, str]:
    """Return every accelerator: catalog key to name and memory, as a list shows them."""
    return catalog.card_titles(api.load_catalog().accelerators)


def sentence(error: AdvisorError) -> str:
    """Return an error as one sentence and what to do."""
    if not isinstance(error, InputError):
        return str(error)
    what, allowed, remedy = map(in_words, (error.what, error.allowed, error.remedy))
    return f"{what[:1].upper()}{what[1:]}. Allowed: {allowed}. {remedy}"


@contextmanager
def boundary() -> Iterator[None]:
    """Turn an error inside the block into a sentence; the log keeps an unexpected one whole.

    Streamlit's own control flow is no ``Exception`` and passes.
    """
    try:
        yield
    except AdvisorError as error:
        st.error(plain(sentence(error)), icon=":material/error:")
    except Exception:
        LOGGER.exception("unexpected error on the page")
        st.error(
            "This part of the page failed on an error of ours; the log has the details. Your "
            "inputs are kept: change one, or reload the page to start afresh.",
            icon=":material/error:",
        )
