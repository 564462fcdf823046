"""Rooms of an office and who meets there: dates, times, people."""

from tests.nodes.offline_model.operations.other_apis.operations import DAY, flag, operation, text, whole

BOOKING = {"booking_id": whole("Number of the booking")}
ROOM = text("Name of the room")
START, END = text("When it begins, HH:MM"), text("When it ends, HH:MM")

MEETINGS = (
    operation(
        "find_rooms",
        "GET /rooms",
        "Find meeting rooms.",
        min_seats=whole("At least so many seats"),
        floor=whole("Floor of the building"),
        projector=flag("Only rooms with a projector"),
    ),
    operation(
        "book_room",
        "POST /bookings",
        "Book a room for a meeting.",
        {"room": ROOM, "date": DAY, "start_time": START},
        end_time=END,
        organizer=text("Who the room is booked for"),
        topic=text("What the meeting is about"),
    ),
    operation(
        "list_bookings",
        "GET /bookings",
        "List the bookings of rooms.",
        room=ROOM,
        date=DAY,
        organizer=text("Only the bookings of this person"),
    ),
    operation("get_booking", "GET /bookings/{booking_id}", "Show one booking.", BOOKING),
    operation(
        "cancel_booking",
        "DELETE /bookings/{booking_id}",
        "Cancel a booking.",
        BOOKING,
        reason=text("Why it is cancelled"),
    ),
    operation(
        "move_booking",
        "PATCH /bookings/{booking_id}",
        "Move a booking to another day or time.",
        BOOKING | {"start_time": START},
        date=DAY,
    ),
    operation(
        "invite_guest",
        "POST /bookings/{booking_id}/guests",
        "Invite a guest to a booked meeting.",
        BOOKING | {"guest": text("Name of the guest")},
        email=text("Where the invitation is sent", format="email"),
    ),
)
