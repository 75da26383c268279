"""Scenes that were only looked at are shown again; one that was touched is ended, and the next one is played anew.

    @story
    def canary(scene: Scene) -> None:
        settled.play(scene)
        ...

    with canary() as scene:
        ...

The door is a new one at each opening. Everything else must be as it was when the story was told: see `State`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from typing import Concatenate, Generic, ParamSpec

import msgspec

from tests.plugin.playing import Scene, opened
from tests.plugin.users_machine import UserTransport

P = ParamSpec("P")


class Story(Generic[P]):
    """How a scene comes about, and the scene itself as a context manager."""

    def __init__(self, tell: Callable[Concatenate[Scene, P], None]) -> None:
        self._tell = tell
        update_wrapper(self, tell)

    def play(self, scene: Scene, *args: P.args, **kwargs: P.kwargs) -> None:
        """Let it happen in `scene`, which is empty."""
        self._tell(scene, *args, **kwargs)

    @contextmanager
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Scene]:
        key = f"{self._tell.__module__}.{self._tell.__qualname__} {args} {sorted(kwargs.items())}"
        kept = _kept.pop(key, None)
        if kept is None:
            kept = _begun(lambda scene: self._tell(scene, *args, **kwargs))
        else:
            kept.scene.door = UserTransport(kept.scene.cluster)
        with ExitStack() as stack:
            stack.push(kept.end)
            yield kept.scene
            if key not in _kept and kept.state.holds(kept.scene):
                _kept[key] = kept
                stack.pop_all()


def story(tell: Callable[Concatenate[Scene, P], None]) -> Story[P]:
    """Makes a scene of what happens in it. Its arguments must tell by their `repr` what they are."""
    return Story(tell)


class State:
    """All that a test can change of a scene: when this holds, a test of the scene cannot tell it from a new one."""

    def __init__(self, scene: Scene) -> None:
        store = scene.cluster.store
        self._values: list[object] = [
            scene.now(),
            _documents(scene),
            [history.forgotten for history in store.histories.values()],
            [watch.closed for watches in store.watches.values() for watch in watches],
            {name: scene.nodes.behaviour_of(name) for name in scene.nodes.names},
            [*scene.cluster.admission],
            {*scene.cluster.frozen},
            scene.running(),
            [*_attributes(scene)],
        ]

    def holds(self, scene: Scene) -> bool:
        return self._values == State(scene)._values


def _attributes(scene: Scene) -> Iterator[tuple[str, object]]:
    """Of the parts of the scene: numbers and words by their value, other objects as themselves."""
    for part in (scene, scene.cluster, scene.cluster.store, scene.api, scene.nodes, scene.controller):
        for name, value in vars(part).items():
            if name != "door":
                yield name, value if isinstance(value, int | float | str) else _Same(value)


@dataclass(frozen=True)
class _Same:
    """Equal to itself alone; what it means lives as long as it does, so that its place is not taken by another."""

    one: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.one is other.one


def _documents(scene: Scene) -> bytes:
    """What is stored, each version of it."""
    found = hashlib.blake2b()
    for objects in scene.cluster.store.objects.values():
        for stored in objects.values():
            found.update(msgspec.json.encode(stored.object))
    return found.digest()


@dataclass(frozen=True)
class _Kept:
    scene: Scene
    state: State
    end: ExitStack


_kept: dict[str, _Kept] = {}


def _begun(tell: Callable[[Scene], None]) -> _Kept:
    with ExitStack() as stack:
        scene = stack.enter_context(opened())
        tell(scene)
        return _Kept(scene, State(scene), stack.pop_all())


def end_all() -> None:
    """Nothing that was kept runs any longer."""
    while _kept:
        _, kept = _kept.popitem()
        kept.end.close()
