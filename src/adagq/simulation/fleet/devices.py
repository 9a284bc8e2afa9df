"""Devices: how long work takes, in closed form.

    training    samples * epochs * seconds_per_sample          forward and backward
    probing     samples * passes * seconds_per_sample / 3      a backward pass costs two forward ones
    codec       elements * seconds_per_element

`seconds_per_sample` is given, or follows from the data and the model once they are known (`calibrated`): from
a local epoch's seconds at an equal share of samples, or from FLOPs a sample over the device's FLOP/s.
"""

from dataclasses import dataclass, replace

from adagq.core.errors import ConfigError
from adagq.core.seeds import generator

FORWARD_SHARE = 1 / 3
# Assumed, for one element through the entropy coder on one phone-class core; not measured on a device.
ENCODE_SECONDS_PER_ELEMENT = 5e-9
DECODE_SECONDS_PER_ELEMENT = 5e-9


@dataclass(frozen=True, slots=True)
class Device:
    """One client's computer. Set one of `epoch_seconds`, `flops_per_second` and `seconds_per_sample`.

    >>> device = Device(epoch_seconds=15.5).calibrated(samples=2500, flops_per_sample=1.7e9)
    >>> device.train_seconds(samples=2500, epochs=1), round(device.probe_seconds(samples=250, passes=3), 3)
    (15.5, 1.55)
    """

    epoch_seconds: float | None = None  # one local epoch over an equal share of the samples, with any model
    flops_per_second: float | None = None
    seconds_per_sample: float | None = None
    encode_seconds_per_element: float = ENCODE_SECONDS_PER_ELEMENT
    decode_seconds_per_element: float = DECODE_SECONDS_PER_ELEMENT
    jitter: float = 0.0  # each round is slower or faster by up to this share, uniformly
    seed: int = 0

    def calibrated(self, samples: float, flops_per_sample: float) -> "Device":
        """Return this device with `seconds_per_sample` set; `samples` is an equal share (their mean)."""
        if self.seconds_per_sample is not None:
            return self
        if self.epoch_seconds is not None:
            return replace(self, seconds_per_sample=self.epoch_seconds / samples)
        if self.flops_per_second is not None:
            return replace(self, seconds_per_sample=flops_per_sample / self.flops_per_second)
        raise ConfigError("device: none of epoch_seconds, flops_per_second, seconds_per_sample is set, one must be")

    def train_seconds(self, samples: int, epochs: float, round: int = 0) -> float:
        """Return the seconds of `epochs` over `samples`."""
        return samples * epochs * self._seconds_per_sample * self._slowness(round)

    def probe_seconds(self, samples: int, passes: int, round: int = 0) -> float:
        """Return the seconds of `passes` forward passes over `samples`."""
        return samples * passes * self._seconds_per_sample * FORWARD_SHARE * self._slowness(round)

    def encode_seconds(self, elements: float) -> float:
        """Return the seconds that encoding so many elements takes."""
        return elements * self.encode_seconds_per_element

    def decode_seconds(self, elements: float) -> float:
        """Return the seconds that decoding so many elements takes."""
        return elements * self.decode_seconds_per_element

    @property
    def _seconds_per_sample(self) -> float:
        if self.seconds_per_sample is None:
            raise ConfigError("device: seconds_per_sample is not known yet, call calibrated(...) first")
        return self.seconds_per_sample

    def _slowness(self, round: int) -> float:
        if self.jitter == 0.0:
            return 1.0
        return 1.0 + self.jitter * generator(self.seed, "jitter", round).uniform(-1.0, 1.0)
