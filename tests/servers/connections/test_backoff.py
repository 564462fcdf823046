from toolweave.servers.connections.connection import Backoff
from toolweave.servers.connections.status import DEFAULT_TIMING


def test_delays_grow_to_one_second_and_start_over_after_a_reset() -> None:
    backoff = Backoff(DEFAULT_TIMING)
    for limit in (0.25, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0):
        assert 0.8 * limit <= backoff.next_delay(exited=False) <= limit
    backoff.reset()
    assert backoff.next_delay(exited=False) <= 0.25


def test_only_a_command_that_exited_five_times_in_a_row_rests_thirty_seconds() -> None:
    backoff = Backoff(DEFAULT_TIMING)
    for exited in (True, True, True, True, False, True, True, True, True):
        assert backoff.next_delay(exited=exited) <= 1.0
    assert [backoff.next_delay(exited=True) for _ in range(2)] == [30.0, 30.0]
