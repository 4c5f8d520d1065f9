"""A process that dies as a reader of a damaged index does."""

import os
import signal

os.kill(os.getpid(), signal.SIGSEGV)
