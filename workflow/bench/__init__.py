"""``fedhpc bench``: speed as ratios, each measured in one call on the machine at hand."""
