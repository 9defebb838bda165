"""One module per page."""

PAGES = (
    ("advisor", "Advisor", "memory", "Which GPUs to rent for a model, a task and your limits."),
    ("fits", "What fits my GPU", "fit_screen", "Which models a card can serve and train."),
    ("rent_or_buy", "Rent or buy", "balance", "From how many hours a month buying beats renting."),
    ("fleet", "Fleet", "dns", "What to buy and what to rent, and when, for many workloads."),
    ("catalog", "Catalog", "inventory_2", "Accelerators and prices: browse, compare, see sources."),
    ("learn", "Learn", "school", "What people ask about GPUs, answered with figures of your case."),
    ("my_machine", "My machine", "speed", "How fast this machine is, and what that changes."),
    ("accuracy", "Accuracy", "science", "How far predictions are from what people measured."),
)
"""Name, title, icon and help of each page; the first is at the address of the app."""
