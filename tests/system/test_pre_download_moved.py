"""Images that admission moves to another registry, in pullers as in pods: what counts as there (virtual time)."""

from __future__ import annotations

import pytest

from tests.beds.controller.bed import Bed, uids
from tests.beds.nodes import Behaviour
from tests.beds.objects import V2, daemonset, image_of
from tests.system.in_place import restarts
from tests.system.pulls import restart
from tests.system.test_in_place_admission import MIRROR, move, not_in_place, of_containers
from tests.system.webhook import judged

IN_PLACE = {"rollingUpdateType": "InPlaceIfPossible"}
ONLY_MIRROR = Behaviour(missing_images=(V2,))


async def rolled_out(pulls: Bed) -> None:
    pulls.nodes.behave("*", ONLY_MIRROR)
    await pulls.set_image(V2)
    pulls.patience = 1200.0
    await pulls.settled()


@pytest.mark.parametrize("writes", [("create",), ("create", "update")], ids=["at creation only", "at updates too"])
@pytest.mark.parametrize("since", ["before the pods", "after them"])
async def test_a_moved_image_is_there_under_its_new_name_only(
    pulls: Bed, since: str, writes: tuple[str, ...]
) -> None:
    """By the name in the template nobody can pull it."""
    webhook = of_containers(move, *writes)
    if since == "after them":
        await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    with judged(pulls, webhook):
        if since == "before the pods":
            await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
        before = uids(await pulls.pods())
        await rolled_out(pulls)
        pods = await pulls.pods()
    assert {image_of(pod) for pod in pods.values()} == {MIRROR + V2}
    in_place = "update" in writes
    assert (uids(pods) == before) is in_place
    assert {restarts(pod) for pod in pods.values()} == {int(in_place)}
    assert ("admission changes their image at creation" in await not_in_place(pulls)) is not in_place


async def test_a_new_leader_learns_it_again(pulls: Bed) -> None:
    await pulls.deploy(daemonset(rolling=IN_PLACE), nodes=3)
    with judged(pulls, of_containers(move, "create")):
        pulls.nodes.behave("*", ONLY_MIRROR)
        await pulls.edit({"updateStrategy": {"rollingUpdate": {"partition": 1}}})
        await pulls.set_image(V2)
        await pulls.status(updated=2, available=3)
        await pulls.controller.stop()
        restart(pulls)
        await pulls.edit({"updateStrategy": {"rollingUpdate": {"partition": 0}}})
        pulls.patience = 1200.0
        await pulls.settled()
        assert {image_of(pod) for pod in (await pulls.pods()).values()} == {MIRROR + V2}
