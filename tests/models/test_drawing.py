"""A token by one uniform number: the same distribution as torch's own draw."""

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import TopPLogitsWarper

from powermark.models.drawing import Draw, TopP, draw

DRAWS = 200_000


def test_the_distribution_is_that_of_the_logits() -> None:
    torch.manual_seed(0)
    logits = 2.0 * torch.randn(1300)  # two blocks and a part of one
    logits[[0, 5, 511, 512, 1299]] = -torch.inf
    p = logits.double().softmax(dim=-1).numpy()
    drawn = [draw(logits.repeat(DRAWS // 100, 1)).ravel().numpy() for _ in range(100)]
    seen = np.bincount(np.concatenate(drawn), minlength=1300)
    assert seen[[0, 5, 511, 512, 1299]].tolist() == [0] * 5
    common = p * DRAWS > 5
    found, wanted = (np.append(x[common], x[~common].sum()) for x in (seen, p * DRAWS))
    assert stats.chisquare(found, wanted).pvalue > 1e-6  # one false alarm in a million seeds


def test_one_token_that_is_certain_is_always_drawn() -> None:
    for width, token in ((1024, 0), (1024, 1023), (700, 699), (700, 512), (3, 1)):
        logits = torch.full((1000, width), -torch.inf)
        logits[:, token] = -300.0
        assert set(draw(logits).ravel().tolist()) == {token}


def test_one_token_is_left() -> None:
    torch.manual_seed(1)
    left = Draw()(None, torch.zeros(50, 8))
    assert torch.isfinite(left).sum(dim=-1).tolist() == [1] * 50
    assert len(set(left.argmax(dim=-1).tolist())) > 4


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("width", [100, 5_000])
def test_tokens_are_left_out_as_transformers_does(scale: float, top_p: float, width: int) -> None:
    """In flat rows too, where more tokens are needed than are ordered."""
    torch.manual_seed(2)
    logits = scale * torch.randn(20, width, dtype=torch.float64)
    ids = torch.zeros(20, 1, dtype=torch.long)
    assert torch.equal(TopP(top_p)(ids, logits), TopPLogitsWarper(top_p)(ids, logits))
