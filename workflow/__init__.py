"""The Parsl side of fedhpc: an experiment as a DAG of runs, and the ``fedhpc`` command."""
