"""What papers and other programs call things, beside the words of fedhpc."""

OURS: dict[str, tuple[str, ...]] = {
    # Algorithms -> their schedulers.
    "fedavg": ("synchronous",),
    "fedavgm": ("synchronous",),
    "fedadam": ("synchronous",),
    "fedprox": ("synchronous",),
    "fedcore": ("synchronous",),
    "fedasync": ("asynchronous",),
    "fedbuff": ("buffered",),
    "fedcompass": ("compass",),
    "fedat": ("tiered",),
    "relay": ("stale_synchronous",),
    "refl": ("stale_synchronous",),
    "safa": ("stale_synchronous",),
    # Keys, and words that may stand as their values.
    "lr": ("rate", "optimizer.rate", "client.optimizer.rate"),
    "learning_rate": ("rate", "optimizer.rate", "client.optimizer.rate"),
    "local_lr": ("rate", "optimizer.rate", "client.optimizer.rate"),
    "client_lr": ("optimizer.rate", "client.optimizer.rate"),
    "server_lr": ("server_optimizer.rate",),
    "alpha": ("concentration", "mixing", "exponent"),
    "mu": ("proximal", "client.proximal"),
    "rho": ("distillation", "client.distillation"),
    "lambda": ("latest_time_factor",),
    "rounds": ("server_updates",),
    "num_rounds": ("server_updates",),
    "global_rounds": ("server_updates",),
    "communication_rounds": ("server_updates",),
    "max_time": ("virtual_seconds",),
    "local_epochs": ("epochs", "client.epochs"),
    "num_epochs": ("epochs", "client.epochs"),
    "local_steps": ("steps", "client.steps"),
    "iterations": ("steps", "client.steps"),
    "batch": ("batch_size", "client.batch_size"),
    "num_clients": ("clients",),
    "n_clients": ("clients",),
    "clients_per_round": ("cohort",),
    "aggregation_goal": ("buffer_size",),
    "q_min": ("min_steps",),
    "q_max": ("max_steps",),
    "clip_norm": ("clip",),
    "dataset": ("data",),
    "non_iid": ("dirichlet",),
    "gaussian": ("normal",),
    "stddev": ("std",),
}
"""A foreign word, in lower case -> what it is here; the first whose first part is known where it was written."""


def ours(word: str, known: list[str]) -> str | None:
    """What a foreign word is called among the ``known`` ones: one of them, or a key within one of their blocks."""
    return next((one for one in OURS.get(word.lower(), ()) if one.partition(".")[0] in known), None)
