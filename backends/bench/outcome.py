"""What became of a job, as its messages tell it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from backends.bench.messages import Built, Checked, Done, Failed, Message, Round, Sample
from backends.bench.stopwatch import Part


@dataclass
class Outcome:
    """`rounds`: the samples by arm of each round; an arm in `failures` may have some, which say
    nothing. `errors`: the largest of each arm, over the allowed one."""

    rounds: list[dict[str, Sample]] = field(default_factory=list)
    workspace_bytes: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, bytes] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    failures: dict[str, Failed] = field(default_factory=dict)
    seconds: Mapping[Part, float] = field(default_factory=dict)

    def note(self, message: Message) -> None:
        """Take in what a worker says."""
        match message:
            case Built(arm, size, kernel):
                self.workspace_bytes[arm], self.kernels[arm] = size, kernel
            case Checked(arm, error):
                self.errors[arm] = max(error, self.errors.get(arm, 0.0))
            case Failed() as failed:
                self.failures[failed.arm] = failed
            case Round(samples):
                self.rounds.append(samples)
            case Done(seconds):
                self.seconds = seconds

    def times(self, arm: str) -> list[float]:
        """Device us by round."""
        return [samples[arm].us for samples in self.rounds]

    def host_times(self, arm: str) -> list[float]:
        """Host us by round."""
        return [samples[arm].host_us for samples in self.rounds]
