"""What clients' availability and devices are like: lines for a plan, and attributes for a result."""

from collections.abc import Iterator

import numpy as np

from fedhpc.latency.availability import Availability
from fedhpc.latency.availability_settings import AvailabilitySettings, GeneratedAvailability, SeasonalForecast
from fedhpc.latency.availability_sources import availability_of, generated
from fedhpc.latency.device_settings import ClusterDevices, Devices
from fedhpc.latency.device_sources import clusters, profiles_in
from fedhpc.latency.devices import DeviceTimes
from fedhpc.latency.forecasts import seasonal_accuracy
from fedhpc.latency.scenario import Scenario

_HOUR, _DAY, _DAYS = 3600.0, 86_400.0, 7
_NIGHT, _DAYTIME = 3, 15


def availability_lines(settings: AvailabilitySettings, clients: int, seed: int, trial: int) -> Iterator[str]:
    """A trial's availability in a line, and its forecast in another where that is fitted."""
    availability = availability_of(settings, clients, seed, trial)
    lengths = availability.intervals.lengths()
    if len(lengths):
        median, most = np.percentile(lengths, [50, 70]) / 60
        night, day = _shares(availability)
        yield (
            f"availability {availability_words(settings)}. A client is online for a median of {median:.1f} min, 70 % "
            f"of the times for less than {most:.1f} min; of {clients:,} clients {night:.0%} are at {_NIGHT}:00 and "
            f"{day:.0%} at {_DAYTIME}:00"
        )
    else:
        yield f"availability {availability_words(settings)}. None of {clients:,} clients ever is online"
    if isinstance(settings.forecast, SeasonalForecast):
        found = seasonal_accuracy(settings, clients, seed, trial)
        yield (
            f"the seasonal forecast has R2 {found.r2:.2f}, MSE {found.mse:.3f}, MAE {found.mae:.3f} on what it was not "
            f"fitted to, of {found.clients:,} clients (RELAY's, of real phones: 0.93, 0.01, 0.028)"
        )


def devices_line(devices: Devices, of_algorithms: dict[str, DeviceTimes]) -> str:
    """The devices in a line. ``of_algorithms``: what they take in a trial, by the algorithms' names."""
    told: dict[str, list[str]] = {}
    for name, times in of_algorithms.items():
        low, median, high = np.percentile(times.updates, [10, 50, 90])
        told.setdefault(f"{median:.3g} s ({low:.3g} to {high:.3g} for 80 %)", []).append(name)
    by_name = "; ".join(f"{seconds} in {', '.join(names)}" for seconds, names in told.items())
    return f"devices {devices_words(devices)}. An update takes them a median of {by_name}"


def deadline_line(percent: float, of_algorithms: dict[str, tuple[float, int]], clients: int) -> str:
    """A scenario's deadline in a line. ``of_algorithms``: its virtual seconds, and how many of the clients miss it with
    all their epochs, by the algorithms' names."""
    told: dict[str, list[str]] = {}
    for name, (deadline, late) in of_algorithms.items():
        seconds = f"{deadline:,.0f}" if deadline >= 1000 else f"{deadline:.4g}"
        missed = "misses" if late == 1 else "miss"
        told.setdefault(f"{seconds} virtual seconds, which {late:,} of {clients:,} clients {missed}", []).append(name)
    by_name = (f"{words} with all their epochs in {', '.join(names)}" for words, names in told.items())
    warning = (
        ""
        if percent >= 1
        else f" (a percentage, below one in a hundred: for {100 * percent:g} % give {100 * percent:g})"
    )
    return f"straggler_percent {percent:g}{warning}: the deadline is {'; '.join(by_name)}"


def availability_words(settings: AvailabilitySettings) -> str:
    """Where it comes from."""
    return generated.WORDS if isinstance(settings, GeneratedAvailability) else f"of the trace {settings.path.name}"


def devices_words(devices: Devices) -> str:
    """Where they come from."""
    faster = f"; the fastest {devices.faster_percent:g} % need half the time" if devices.faster_percent else ""
    if isinstance(devices, ClusterDevices):
        return clusters.WORDS + faster
    count = len(profiles_in(devices).computation)
    return f"of {count:,} {'profile' if count == 1 else 'profiles'} in {devices.path.name}{faster}"


def latency_attributes(scenario: Scenario, clients: int, seed: int, trial: int) -> dict[str, str | float]:
    """What a result says of its clients' availability and devices, and how good a fitted forecast is (RELAY, section
    5.2: ``forecast_r2``, ``forecast_mse``, ``forecast_mae``)."""
    found: dict[str, str | float] = {}
    if scenario.devices is not None:
        found["devices"] = devices_words(scenario.devices)
    if scenario.availability is not None:
        found["availability"] = availability_words(scenario.availability)
        if isinstance(scenario.availability.forecast, SeasonalForecast):
            r2, mse, mae, _ = seasonal_accuracy(scenario.availability, clients, seed, trial)
            found |= {"forecast_r2": r2, "forecast_mse": mse, "forecast_mae": mae}
    return found


def _shares(availability: Availability) -> tuple[float, float]:
    """Of all clients, those that are online by night and by day, over a week."""
    times = [(day * _DAY + hour * _HOUR, hour) for day in range(_DAYS) for hour in (_NIGHT, _DAYTIME)]
    found = {_NIGHT: 0.0, _DAYTIME: 0.0}
    for time, hour in times:
        found[hour] += float(availability.online(time).mean()) / _DAYS
    return found[_NIGHT], found[_DAYTIME]
