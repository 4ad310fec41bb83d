"""Addresses of the papers that experiments refer to."""

from __future__ import annotations

import re

PAPERS = {
    "Ba et al. 2016": "https://arxiv.org/abs/1607.06450",
    "Bahdanau et al. 2015": "https://arxiv.org/abs/1409.0473",
    "Bengio et al. 2015": "https://arxiv.org/abs/1506.03099",
    "Chorowski et al. 2015": "https://arxiv.org/abs/1506.07503",
    "Clark et al. 2019": "https://arxiv.org/abs/1906.04341",
    "Devlin et al. 2019": "https://arxiv.org/abs/1810.04805",
    "Dosovitskiy et al. 2021": "https://arxiv.org/abs/2010.11929",
    "He et al. 2016": "https://arxiv.org/abs/1512.03385",
    "Huang et al. 2019": "https://arxiv.org/abs/1809.04281",
    "Jain and Wallace 2019": "https://arxiv.org/abs/1902.10186",
    "Kalchbrenner et al. 2016": "https://arxiv.org/abs/1610.10099",
    "Luong et al. 2015": "https://arxiv.org/abs/1508.04025",
    "Michel et al. 2019": "https://arxiv.org/abs/1905.10650",
    "Parmar et al. 2018": "https://arxiv.org/abs/1802.05751",
    "Press et al. 2022": "https://arxiv.org/abs/2108.12409",
    "Ranzato et al. 2016": "https://arxiv.org/abs/1511.06732",
    "Vaswani et al. 2017": "https://arxiv.org/abs/1706.03762",
    "Xu et al. 2015": "https://arxiv.org/abs/1502.03044",
    "Yang et al. 2016": "https://doi.org/10.18653/v1/N16-1174",
}
CITATION = re.compile(r"[A-Z][a-z]+(?: et al\.| and [A-Z][a-z]+) \d{4}")


def link_references(text: str) -> str:
    """Replace each citation of a known paper by a Markdown link."""
    return CITATION.sub(lambda match: f"[{match[0]}]({PAPERS[match[0]]})" if match[0] in PAPERS else match[0], text)
