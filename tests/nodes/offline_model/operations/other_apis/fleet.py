"""Vehicles for rent; for tuning only, with no held-back half."""

from tests.nodes.offline_model.operations.other_apis.operations import DAY, one_of, operation, text, whole

FLEET = (
    operation(
        "list_vehicles",
        "GET /vehicles",
        "List vehicles.",
        depot=text("Name of the depot"),
        status=one_of("free", "rented", "broken"),
        driver=text("Who drives it"),
        min_seats=whole("Minimum number of seats"),
    ),
    operation(
        "get_vehicle",
        "GET /vehicles/{plate}",
        "Show a vehicle.",
        {"plate": text("Number plate of the vehicle, such as KA-123")},
    ),
    operation(
        "rent_vehicle",
        "POST /rentals",
        "Rent a vehicle to a customer.",
        {"vehicle_id": whole(), "customer": text("Name of the customer"), "from_date": DAY, "until_date": DAY},
    ),
    operation(
        "end_rental",
        "POST /rentals/{rental_id}/end",
        "End a rental.",
        {"rental_id": whole()},
        kilometres=whole("Kilometres driven"),
    ),
    operation(
        "report_damage",
        "POST /damages",
        "Report a damage of a vehicle.",
        {"vehicle_id": whole(), "description": text("What is broken")},
    ),
)
