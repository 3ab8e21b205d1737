"""Wall and processor milliseconds of a piece of code; all peers are timed by this."""

import time


class Stopwatch:
    """with Stopwatch() as watch: ...        then watch.ms, watch.cpu_ms"""

    def __enter__(self):
        self.since, self.cpu_since = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        self.ms, self.cpu_ms = (time.perf_counter() - self.since) * 1e3, (time.process_time() - self.cpu_since) * 1e3
