"""The parts of the page *Rent or buy*."""

from dataclasses import replace

import streamlit as st

from advisor import api
from advisor.charts import ownership as charts
from advisor.errors import InputError
from advisor.foundation.formatting import hourly_price, money, percent, rate, years
from advisor.foundation.quantities import Range
from advisor.foundation.units import HOURS_PER_MONTH
from advisor.frames import ownership as tables
from advisor.ui.forms import controls, money_inputs
from advisor.ui.forms.inputs import Inputs
from advisor.ui.forms.rules import OWN
from advisor.ui.parts import question, remedies, sliders
from advisor.ui.parts.chart_view import draw, table_below
from advisor.ui.parts.results import metrics, status
from advisor.ui.parts.widgets import behind, show_mistake
from advisor.ui.parts.wording import list_table, plain, span, text_table
from advisor.ui.session import state


def page() -> None:
    """Ask, answer first, then the numbers behind the answer."""
    inputs = question.asked(
        money_inputs.page(),
        title="Rent or buy",
        heading="Rent or buy?",
        elsewhere=money_inputs.CALLED.keys(),
    )
    said = st.container()
    slots = money_inputs.ask()
    asked = money_inputs.question(inputs)
    state.write(money_inputs.page())
    try:
        found = money_inputs.answer(asked)
    except InputError as error:
        with said:
            show_mistake(error)
            if error.field.startswith("hardware"):
                _offer(asked)
        money_inputs.ask_main(slots, None)
        money_inputs.ask_further(None)
    else:
        with said:
            owned = asked.inputs.rent == OWN
            status(tables.owned_sentence(found) if owned else found.answer)
            remedies.undo(asked.inputs)
            _sliders(found)
            _numbers(found)
        money_inputs.ask_main(slots, found)
        _strips(found, slots)
        _charts(found)
        _details(found)
    if money_inputs.question(state.usable(state.current(money_inputs.page()))) != asked:
        # Boxes of a page that this server has just met.
        st.rerun()


def _offer(asked: money_inputs.Question) -> None:
    """Offer the changes of the question with which something can be bought."""

    def said(inputs: Inputs) -> str | None:
        return money_inputs.answer(replace(asked, inputs=inputs)).answer

    rejections = state.recommended(asked.inputs).rejections
    remedies.undo(asked.inputs)
    remedies.offer(asked.inputs, said, rejections)


@behind("What does a budget buy?", key="own_bought", icon="savings")
def _budget(found: api.Ownership) -> None:
    """Ask what a sum buys for the work, and answer."""
    money_inputs.ask_budget()
    bought = found.budget
    if bought is None:
        st.markdown("Enter a budget: every machine that can be bought is tried for this work.")
        return
    st.markdown(plain(bought.sentence))
    if bought.best:
        text_table(tables.budget_table(found))


def _sliders(found: api.Ownership) -> None:
    """Draw sliders for the use and for the price: they fill the boxes below."""
    price = next(item.value.expected for item in found.inputs if item.field == "purchase_usd")
    hours, usd = st.columns(2)
    with hours:
        sliders.slide(
            "Hours a month",
            found.hours_per_month,
            (10, HOURS_PER_MONTH),
            key="slide_hours",
            box=money_inputs.key("hours"),
            take=lambda value: money_inputs.take("hours", int(value)),
            text="{:,.0f} hours a month".format,
            whole=True,
        )
    with usd:
        sliders.slide(
            "Price of one GPU",
            price or 1.0,
            (100, 1e5),
            key="slide_price",
            box=money_inputs.key("purchase_usd"),
            take=lambda value: money_inputs.take("purchase_usd", value),
            text=lambda value: f"{money(value)} for one GPU",
        )


def _numbers(found: api.Ownership) -> None:
    """Show owning, renting, energy and carbon over the horizon."""
    horizon = years(found.months)
    cheapest = None if found.against is None else found.rents[found.against]
    own = found.own
    figures = [
        (
            f"Owning for {horizon}",
            money(own.total_usd),
            f"{_span(own.total_usd)}; {money(own.purchase_usd)} to pay at the start",
        ),
        (
            f"Renting for {horizon}",
            money(cheapest.total_usd) if cheapest else "not offered",
            f"{_span(cheapest.total_usd)}; {cheapest.title}" if cheapest else "nothing rents it",
        ),
        ("Owned, each hour in use", money(own.usd_per_hour), _span(own.usd_per_hour)),
        (
            f"Electricity in {horizon}",
            rate(own.energy_kwh, "kWh"),
            f"{rate(own.carbon_kg, 'kg')} of CO2, {found.place}",
        ),
    ]
    metrics(figures)


def _strips(found: api.Ownership, slots: controls.Slots) -> None:
    """Draw break-even across each input below its box."""
    for strip in found.strips:
        with slots[strip.field]:
            ticks, text = _strip_text(strip.field, strip.value)
            st.markdown(f"Hours a month above which buying pays; now {plain(text)}:")
            draw(
                charts.strip_chart,
                tables.strip_frame(strip),
                key=f"own_strip_{strip.field}",
                title=money_inputs.page().fields[strip.field].label,
                value=strip.value,
                text=text,
                hours=found.hours_per_month,
                ticks=ticks,
            )


def _strip_text(field: str, value: float) -> tuple[str, str]:
    """Return the format of a strip's ticks, and the value in use as text."""
    if field == "resale_share":
        return "~%", percent(value)
    if field == "electricity_usd_per_kwh":
        return "$.2f", f"${value:.3f}/kWh"
    if field == "usd_per_hour":
        return charts.dollars(value), hourly_price(value)
    return charts.dollars(value), money(value)


def _span(value: Range) -> str:
    """Return a range of money alone."""
    return span(money(value, with_range=True)) or "exact"


def _charts(found: api.Ownership) -> None:
    if found.against is None:
        return
    st.header("What would turn the answer?", anchor=False)
    st.markdown(plain(tables.flips_sentence(found)))
    text_table(tables.flips_table(found))
    main = found.rents[found.against]
    even = main.break_even
    st.header("When does owning overtake?", anchor=False)
    timeline = tables.timeline_frame(found)
    st.markdown(plain(charts.timeline_finding(timeline, month=even.month)))
    st.caption(
        plain(
            f"Against {main.title}. Bands are 80 % ranges; their inputs are assumptions. What the "
            "machines are worth at the end counts in the last month."
        )
    )
    months = even.first_month, even.month, even.last_month
    draw(charts.timeline_chart, timeline, key="own_timeline", months=months)
    table_below("own_timeline", lambda: tables.timeline_table(found), timeline)
    effects = tables.effects_frame(found)
    if effects.empty:
        return
    st.header("What matters?", anchor=False)
    st.markdown(plain(charts.effects_finding(effects)))
    draw(charts.effects_chart, effects, key="own_effects")
    table_below("own_effects", lambda: tables.effects_table(found), effects)


def _details(found: api.Ownership) -> None:
    """Show the bill, the ways of renting, processors, inputs, terms and what is assumed."""
    st.header("Ways of renting", anchor=False)
    if found.rents:
        # A plain table of eight columns would scroll on a phone beyond the keyboard's reach.
        list_table(tables.rents_table(found))
        bought = f"{found.count:,}x {found.accelerator_name}"
        st.caption(plain(f"Where a row names no accelerator, it rents what owning buys: {bought}."))
    else:
        st.markdown("No offer in the catalog is for this hardware; enter a rent above.")
    st.header("The bill of owning", anchor=False)
    text_table(tables.bill_table(found))
    money_inputs.ask_further(found)
    _budget(found)
    _work(found)
    _computed(found)
    _assumed(found)


@behind("The work: cost of a run, and the same on processors", key="own_run", icon="work")
def _work(found: api.Ownership) -> None:
    st.markdown(plain(found.workload))
    text_table(tables.processors_table(found))


@behind("How the numbers are computed", key="own_computed", icon="functions")
def _computed(found: api.Ownership) -> None:
    text_table(tables.inputs_table(found), links=True)
    terms = [*found.own.terms, *(term for rent in found.rents for term in rent.terms)]
    text_table([*api.term_cells(terms)])


@behind("Assumed", key="own_assumed", icon="checklist")
def _assumed(found: api.Ownership) -> None:
    lines = (*found.assumptions, *found.attributions)
    st.markdown("\n".join(f"- {plain(line)}" for line in lines))
