"""A clinic: doctors, their patients and appointments; for tuning only, with no held-back half."""

from tests.nodes.offline_model.operations.other_apis.operations import DAY, operation, text, whole

CLINIC = (
    operation(
        "search_doctors",
        "GET /doctors",
        "Search doctors.",
        specialty=text("Field of the doctor, such as cardiology"),
        city=text("City of the practice"),
        name=text("Name of the doctor"),
    ),
    operation(
        "list_appointments",
        "GET /appointments",
        "List appointments.",
        patient=text("Name of the patient"),
        doctor=text("Name of the doctor"),
        date=DAY,
    ),
    operation(
        "create_appointment",
        "POST /appointments",
        "Make an appointment with a doctor.",
        {
            "doctor": text("Name of the doctor"),
            "patient": text("Name of the patient"),
            "starts_at": text("Day and time", format="date-time"),
        },
        reason=text("Why the patient comes"),
    ),
    operation(
        "cancel_appointment",
        "DELETE /appointments/{appointment_id}",
        "Cancel an appointment.",
        {"appointment_id": whole()},
    ),
    operation("get_patient", "GET /patients/{patient_id}", "Show a patient.", {"patient_id": whole()}),
    operation(
        "prescribe",
        "POST /prescriptions",
        "Prescribe a medicine to a patient.",
        {"patient": text("Name of the patient"), "medicine": text("Name of the medicine")},
        days=whole("For how many days"),
    ),
)
