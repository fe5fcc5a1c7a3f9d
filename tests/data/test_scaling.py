import numpy as np

from fedhpc.data.sources.scaling import scaled

ALL = np.ones(3, bool)


def test_none_keeps_the_values():
    images = np.array([[0, 7], [255, 1], [3, 2]], np.uint8)
    result = scaled(images, ALL, "none")
    assert result.dtype == np.float32
    assert result.tolist() == [[0, 7], [255, 1], [3, 2]]


def test_unit_divides_integers_by_their_type_s_maximum():
    assert scaled(np.array([[51], [255], [0]], np.uint8), ALL, "unit").ravel().tolist() == [np.float32(0.2), 1, 0]
    assert scaled(np.array([[32767], [-32767], [0]], np.int16), ALL, "unit").ravel().tolist() == [1, -1, 0]
    assert scaled(np.array([[True], [False], [True]]), ALL, "unit").ravel().tolist() == [1, 0, 1]


def test_unit_divides_each_column_by_its_largest_absolute_training_value():
    features = np.array([[1.0, 0.0], [-4.0, 0.0], [8.0, 0.0]])
    training = np.array([True, True, False])
    assert scaled(features, training, "unit").tolist() == [[0.25, 0], [-1, 0], [2, 0]]


def test_standard_is_by_the_training_examples_and_constant_features_become_0():
    # Training column 0 is 1 and 5: mean 3, deviation 2. Column 1 is constant in training.
    features = np.array([[1.0, 0.1], [5.0, 0.1], [9.0, 7.0]])
    training = np.array([True, True, False])
    assert scaled(features, training, "standard").tolist() == [[-1, 0], [1, 0], [3, 0]]


def test_standard_over_many_blocks_agrees_with_numpy():
    generator = np.random.default_rng(0)
    features = generator.normal(1e6, 3, (10_000, 2, 2))
    training = generator.random(10_000) < 0.5
    expected = (features - features[training].mean(axis=0)) / features[training].std(axis=0)
    np.testing.assert_allclose(scaled(features, training, "standard"), expected, atol=1e-5)


def test_a_column_of_equal_values_is_constant_whatever_the_rounding_of_its_sum():
    features = np.full((9973, 1), 0.1)
    assert scaled(features, np.ones(9973, bool), "standard").tolist() == [[0.0]] * 9973
