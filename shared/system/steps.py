"""Steps in an order that is data, and what runs them: a night, a forgetting, an installation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """`run` may be repeated: a run that died goes on with it. `builds`: a night whose release is up to date skips it."""

    name: str
    run: Callable[..., Any]
    builds: bool = False


class StepRunner:
    """Carries out each step that is not done, and commits what it returned; the first that fails ends the run."""

    def run_all(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if self.is_done(step):
                continue
            try:
                with self.limits(step):
                    began = time.perf_counter()
                    result = self.carry_out(step)
                    self.commit(step, result, round(time.perf_counter() - began, 3))
            except Exception as error:
                self.failed(step, error)
                raise

    def is_done(self, step: Step) -> bool:
        """Whether an earlier run has committed it."""
        del step
        return False

    def limits(self, step: Step) -> AbstractContextManager[None]:
        """What it runs within."""
        del step
        return nullcontext()

    def carry_out(self, step: Step) -> Any:
        """Do it; its result."""
        return step.run(self)

    def commit(self, step: Step, result: Any, seconds: float) -> None:
        """Make it durable that it is done."""
        raise NotImplementedError

    def failed(self, step: Step, error: Exception) -> None:
        """Note the failure, which is raised afterwards."""
