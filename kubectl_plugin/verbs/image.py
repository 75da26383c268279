"""set-image."""

from __future__ import annotations

from kubectl_plugin.asked import Image as Asked
from kubectl_plugin.cluster.invocation import Invocation
from kubectl_plugin.edits.image import parse, set_images
from kubectl_plugin.failures import UsageError
from kubectl_plugin.flags import Acting
from kubectl_plugin.report.values import int_or_percent
from kubectl_plugin.verbs.acting import Change, carry_out_all, choose


async def set_image(invocation: Invocation, asked: Asked, acting: Acting) -> int:
    images = parse([word for word in asked.words if "=" in word])
    if not images:
        raise UsageError("which image? use set-image NAME CONTAINER=IMAGE, or *=IMAGE")
    hold_at = int_or_percent(asked.hold_at, "--hold-at") if asked.hold_at is not None else None
    names = tuple(word for word in asked.words if "=" not in word)
    found = await choose(invocation, asked.with_names(names), acting)
    return await carry_out_all(
        invocation, found, lambda one: Change(one, set_images(one, images, hold_at)), acting, verb="set-image"
    )
