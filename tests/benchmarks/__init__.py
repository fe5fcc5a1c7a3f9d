"""Speed, as ratios measured in one call: ``python -m tests.benchmarks``. Nothing here is a test."""
