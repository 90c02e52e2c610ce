"""Settings of every property test."""

import hypothesis

# A slow machine is no failure, and a failure is the same for whoever looks into it.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")
