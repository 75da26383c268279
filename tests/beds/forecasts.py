"""Forecasts and plans without their progress."""

from __future__ import annotations

from typing import Any

from controller.planner.world import World
from kubectl_plugin.forecast.forecast import Forecast, finished, forecast_by_wave
from kubectl_plugin.forecast.report import RolloutPlan, plan_by_wave
from kubectl_plugin.rollout.snapshot import Snapshot


def forecast(world: World, **how: Any) -> Forecast:
    return finished(forecast_by_wave(world, **how))


def rollout_plan(snapshot: Snapshot, **how: Any) -> RolloutPlan:
    return finished(plan_by_wave(snapshot, **how))
