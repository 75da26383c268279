"""What every kubelet does with a running pod that is changed, case by case: as an order of what can be seen.

The real ones and the played one go through the same cases. Where they differ, the played one is wrong.
"""

from __future__ import annotations

from tests.beds.kubelet_cases import images, metadata, resizes
from tests.beds.kubelet_cases.case import ALIAS, CRASHING, MISSING, PROBE, SAME, SLOW, Case, image

__all__ = ["ALIAS", "CASES", "CRASHING", "MISSING", "SAME", "SLOW", "Case", "image"]

SIDECAR = {
    "initContainers": [
        {
            "name": "side",
            "image": image("v1"),
            "restartPolicy": "Always",
            "env": [{"name": "PORT", "value": "8081"}],
        }
    ]
}
GATED = {"readinessGates": [{"conditionType": "gate"}]}
COLOUR = {"name": "COLOUR", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['colour']"}}}
RESTARTS = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]

CASES = {
    case.play.__name__: case
    for case in (
        Case(images.a_new_image_without_probe),
        Case(images.a_new_image_with_a_probe, {"readinessProbe": PROBE}),
        Case(images.another_name_of_the_same_image),
        Case(images.an_image_by_its_digest),
        Case(images.an_image_that_is_not_there),
        Case(images.back_and_forth),
        Case(images.an_image_that_crashes),
        Case(images.an_init_container, spec=SIDECAR),
        Case(images.an_edit_that_overlaps_another),
        Case(images.a_program_that_takes_its_time_to_end, stops=images.TAKES),
        Case(
            images.a_program_that_does_not_end_by_itself,
            spec={"terminationGracePeriodSeconds": images.GRACE},
            stops=None,
        ),
        Case(metadata.a_label),
        Case(metadata.a_label_that_the_environment_reads, {"env": [COLOUR], "readinessProbe": PROBE}),
        Case(metadata.a_readiness_gate, spec=GATED),
        Case(resizes.a_resize, {"resources": resizes.SIZE}),
        Case(
            resizes.a_resize_that_wants_a_new_container,
            {"resources": resizes.SIZE, "resizePolicy": RESTARTS},
        ),
        Case(resizes.image_and_resources, {"resources": resizes.SIZE}),
        Case(resizes.less_memory_than_it_uses, {"resources": resizes.SIZE}),
        Case(resizes.a_resize_that_waits_for_room, {"resources": resizes.SMALL}),
        Case(resizes.a_resize_that_the_kubelet_never_does, {"resources": resizes.GUARANTEED}, own_cpus=True),
        Case(resizes.a_resize_that_no_node_like_this_can_do, {"resources": resizes.SMALL}),
    )
}
