"""The papers' tables by which models are built, with torch, and their parameters counted, without it."""

RESNET_WIDTHS = (64, 128, 256, 512)
"""Channels of each stage (He et al. 2016, table 1)."""

RESNET18_BLOCKS, RESNET34_BLOCKS = (2, 2, 2, 2), (3, 4, 6, 3)
"""Blocks of each stage (He et al. 2016, table 1)."""

SHUFFLENET_FIRST, SHUFFLENET_LAST = 24, 1024
SHUFFLENET_STAGES = ((48, 4), (96, 8), (192, 4))
"""Each one's channels and units, at half width (Ma et al. 2018, table 5)."""

EFFICIENTNET_FIRST, EFFICIENTNET_LAST = 32, 1280
EFFICIENTNET_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Each one's blocks, kernel, stride of the first block, expansion and channels (Tan and Le 2019, table 1)."""

UNET_FIRST = 8
"""Channels of the first convolution; each level's second one doubles them (FLamby's Fed-IXI)."""

CONVNET_CHANNELS = 32
"""Of each of the four convolutions (Caldas et al. 2018, CelebA)."""

SENT140_WIDTH, SENT140_UNITS, SENT140_LINEAR = 300, 100, 128
"""Numbers a word, units of an LSTM layer, and the linear layer behind them (Nguyen et al. 2022, appendix B.1)."""

TRANSFORMER_WIDENING = 4
"""How much wider a block's perceptron is inside (Vaswani et al. 2017, section 3.3)."""
