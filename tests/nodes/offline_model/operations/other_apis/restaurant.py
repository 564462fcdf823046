"""A restaurant: its menu and its tables; for tuning only, with no held-back half."""

from tests.nodes.offline_model.operations.other_apis.operations import DAY, flag, number, operation, text, whole

RESTAURANT = (
    operation(
        "search_dishes",
        "GET /dishes",
        "Search the dishes of the menu.",
        query=text("Words to look for"),
        vegetarian=flag("Only vegetarian dishes"),
        max_price=number("Highest price in euros"),
    ),
    operation(
        "reserve_table",
        "POST /tables",
        "Reserve a table.",
        {
            "name": text("Name of the guest"),
            "persons": whole("How many people come"),
            "date": DAY,
            "time": text("Time of day, HH:MM"),
        },
        note=text("Wishes"),
    ),
    operation("list_reservations", "GET /reservations", "List reservations.", date=DAY, name=text("Name of the guest")),
    operation(
        "cancel_reservation",
        "DELETE /reservations/{reservation_id}",
        "Cancel a reservation.",
        {"reservation_id": whole()},
    ),
    operation(
        "add_dish",
        "POST /dishes",
        "Add a dish to the menu.",
        {"name": text(), "price": number("Price in euros")},
        vegetarian=flag(),
    ),
)
