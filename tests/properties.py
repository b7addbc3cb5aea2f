"""Number of examples of property tests: few in `make test`, all in `make test-all`."""

from hypothesis import HealthCheck, settings

settings.register_profile("quick")
settings.register_profile("thorough")


def examples(number: int, *more: HealthCheck) -> settings:
    """Settings for `number` examples, a fifth of them unless the profile is ``thorough``.

    They are the same examples every time: a run of the tests that fails can be repeated.
    """
    thorough = settings.get_current_profile_name() == "thorough"
    return settings(
        max_examples=number if thorough else max(5, number // 5),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, *more],
    )
