"""Federated learning with straggling clients: schedules in virtual time, client training on MPI ranks."""

__version__ = "0.1.0"
