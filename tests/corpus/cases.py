"""All cases of the corpus, each name once."""

from corpus import fake_claims, fakes, honest, honest_claims, others
from corpus.case import Case

CASES: tuple[Case, ...] = (*honest.CASES, *honest_claims.CASES, *fakes.CASES, *fake_claims.CASES, *others.CASES)
