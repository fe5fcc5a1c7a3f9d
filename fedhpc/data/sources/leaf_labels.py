"""The labels of LEAF's users, where they are numbers."""

from fedhpc.data.sources.leaf_json import User, of_user


def numbered_labels(user: User, key: str, classes: int) -> list[int]:
    """The user's ``y`` as whole numbers in 0..classes-1; CelebA's are written 0.0 and 1.0. Raises ExperimentError."""
    for value in user.y:
        # json reads NaN and Infinity too, and true is no label.
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < classes or value % 1:
            raise of_user(user, key, f"y has {value!r}; it takes the whole numbers 0 to {classes - 1}")
    return [int(value) for value in user.y]
