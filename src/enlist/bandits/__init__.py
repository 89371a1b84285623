"""What selectors share: estimates, posteriors, decision rules, solvers, draws."""

from __future__ import annotations

from enlist.bandits import staleness
from enlist.bandits.annealing import annealing, check_sets, exhaustive
from enlist.bandits.clusters import hellinger
from enlist.bandits.credible import absurd, credible, credible_extent, largest_credible
from enlist.bandits.estimates import BetaPosterior, Estimates, RecentValues
from enlist.bandits.evidence import ArmStatistics
from enlist.bandits.extreme import BayesianExtremeExplore, ExtremeExplore
from enlist.bandits.gaussian import ExactGP, FeatureGP, feature_count, median_distance, rbf
from enlist.bandits.latency import MeanLatency, scored_latency
from enlist.bandits.linear import Ridge, RidgePerClient, Standardiser
from enlist.bandits.lognormal import LogLatency, round_end
from enlist.bandits.maxmin import argmax_min_plus_sum, objective
from enlist.bandits.pareto import best_subset, dominated, front, hypervolume
from enlist.bandits.queues import VirtualQueues, capped_shares, proportional_shares
from enlist.bandits.rules import UCB, DiscountedThompson, EpsilonGreedy, Rule, Thompson
from enlist.bandits.sampling import (
    rest,
    sets_by_time,
    systematic,
    top_k,
    uniform,
    unseen_first,
    weighted,
    weighted_by_logarithm,
)
from enlist.bandits.sketches import Sketches, distances, facility_location
from enlist.bandits.validity import Validity, in_time

__all__ = [
    "UCB",
    "ArmStatistics",
    "BayesianExtremeExplore",
    "BetaPosterior",
    "DiscountedThompson",
    "EpsilonGreedy",
    "Estimates",
    "ExactGP",
    "ExtremeExplore",
    "FeatureGP",
    "LogLatency",
    "MeanLatency",
    "RecentValues",
    "Ridge",
    "RidgePerClient",
    "Rule",
    "Sketches",
    "Standardiser",
    "Thompson",
    "Validity",
    "VirtualQueues",
    "absurd",
    "annealing",
    "argmax_min_plus_sum",
    "best_subset",
    "capped_shares",
    "check_sets",
    "credible",
    "credible_extent",
    "distances",
    "dominated",
    "exhaustive",
    "facility_location",
    "feature_count",
    "front",
    "hellinger",
    "hypervolume",
    "in_time",
    "largest_credible",
    "median_distance",
    "objective",
    "proportional_shares",
    "rbf",
    "rest",
    "round_end",
    "scored_latency",
    "sets_by_time",
    "staleness",
    "systematic",
    "top_k",
    "uniform",
    "unseen_first",
    "weighted",
    "weighted_by_logarithm",
]
