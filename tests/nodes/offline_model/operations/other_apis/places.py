"""Weather, places and ways between them."""

from tests.nodes.offline_model.operations.other_apis.operations import DAY, flag, number, one_of, operation, text, whole

CITY = {"city": text("Name of the city")}

PLACES = (
    operation(
        "get_current_weather",
        "GET /weather/now",
        "Tell the weather in a city right now.",
        CITY,
        units=one_of("metric", "imperial"),
    ),
    operation(
        "get_forecast",
        "GET /weather/forecast",
        "Tell how the weather will be in the coming days.",
        CITY,
        days=whole("For how many days", minimum=1, maximum=14),
    ),
    operation(
        "find_places",
        "GET /places",
        "Find places of a kind near a location.",
        {"kind": one_of("restaurant", "museum", "hotel", "cafe", "pharmacy"), "location": text("Where to look")},
        radius_km=number("Not farther away than so many kilometres"),
        open_now=flag("Only places that are open now"),
    ),
    operation(
        "get_route",
        "GET /routes",
        "Find the way from one place to another.",
        {"origin": text("Where the way begins"), "destination": text("Where the way ends")},
        mode=one_of("car", "bike", "foot", "train", description="How to travel"),
    ),
    operation("get_air_quality", "GET /air", "Tell how clean the air is.", CITY),
    operation("get_sun_times", "GET /sun", "Tell when the sun rises and sets.", CITY, date=DAY),
    operation(
        "save_place",
        "POST /favourites",
        "Save a place as a favourite.",
        {"name": text("What the place is called"), "address": text("Street and town")},
        note=text("A remark"),
    ),
)
