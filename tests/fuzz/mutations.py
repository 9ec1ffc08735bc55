"""Bytes that were right, changed in a few places."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

LONGEST = 4  # mutations of one input


@st.composite
def mutated(draw: DrawFn, base: SearchStrategy[bytes], words: Sequence[bytes]) -> bytes:
    """`words` are inserted, beside random bytes."""
    data = draw(base)
    inserted = st.sampled_from(words) | st.binary(min_size=1, max_size=8)
    for _ in range(draw(st.integers(1, LONGEST))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        match draw(st.integers(0, 4)):
            case 0:  # left out
                data = data[:start] + data[end:]
            case 1:  # repeated
                data = data[:end] + data[start:end] * draw(st.integers(1, 3)) + data[end:]
            case 2:  # added
                data = data[:start] + draw(inserted) + data[start:]
            case 3:  # replaced
                data = data[:start] + draw(inserted) + data[end:]
            case 4:  # moved
                place = draw(st.integers(0, len(data)))
                cut = data[:start] + data[end:]
                data = cut[:place] + data[start:end] + cut[place:]
    return data
