"""Where a partition stands among the steps, and what is told of an annotation that is no list of them."""

from __future__ import annotations

import pytest

from controller.api.formats import IntOrPercent
from kubectl_plugin.errors import CommandError
from kubectl_plugin.rollout.steps import STEPS_ANNOTATION, Steps, steps_of

FOUR: tuple[IntOrPercent, ...] = (22, 16, 8, 0)


def steps(text: str, partition: IntOrPercent | None, desired: int = 24) -> Steps:
    found = steps_of({STEPS_ANNOTATION: text}, partition, desired)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("partition", "index", "following"),
    [
        pytest.param(24, 0, 22, id="before-the-first"),
        pytest.param(22, 1, 16, id="first"),
        pytest.param(20, 1, 16, id="between-two"),
        pytest.param(16, 2, 8, id="second"),
        pytest.param("70%", 2, 8, id="a-percentage-that-comes-to-16"),
        pytest.param(1, 3, 0, id="before-the-last"),
        pytest.param(0, 4, None, id="last"),
        pytest.param(None, 4, None, id="no-partition"),
        pytest.param(1000, 0, 22, id="more-than-there-are-nodes"),
    ],
)
def test_where_a_partition_stands(partition: IntOrPercent | None, index: int, following: IntOrPercent | None) -> None:
    assert steps("22,16,8,0", partition) == Steps(values=FOUR, index=index, count=4, next=following)


@pytest.mark.parametrize("text", ["22,16,8,0", " 22, 16 ,8,0 ", "22,16,8", "022,16,8,00"])
def test_spellings_of_the_same_steps(text: str) -> None:
    assert steps(text, 16).values == FOUR


def test_percentages_stay_as_they_are_written() -> None:
    assert steps("90%,50%,0", "90%") == Steps(values=("90%", "50%", 0), index=1, count=3, next="50%")
    assert steps("90%,50%,0%", "50%") == Steps(values=("90%", "50%", "0%"), index=2, count=3, next="0%")


def test_numbers_and_percentages_may_be_mixed() -> None:
    assert steps("23,50%,2,0", 23) == Steps(values=(23, "50%", 2, 0), index=1, count=4, next="50%")


def test_steps_that_come_to_the_same_number_are_passed_together() -> None:
    assert steps("90%,80%,50%,0", "90%", desired=3) == Steps(
        values=("90%", "80%", "50%", 0), index=2, count=4, next="50%"
    )


def test_without_the_annotation_there_are_none() -> None:
    assert steps_of({"kruise-ds/other": "22,16"}, 16, 24) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", '"" is neither a number nor a percentage'),
        ("22,,0", '"" is neither a number nor a percentage'),
        ("22,half,0", '"half" is neither a number nor a percentage'),
        ("22,-1", '"-1" is neither a number nor a percentage'),
        ("22;16", '"22;16" is neither a number nor a percentage'),
        ("٢٢,0", '"٢٢" is neither a number nor a percentage'),
        ("1" * 5000, f'"{"1" * 5000}" is neither a number nor a percentage'),
        ("120%,0", "120% is more than all"),
        ("8,16,0", "16 is not smaller than 8"),
        ("50%,50%,0", "50% is not smaller than 50%"),
    ],
)
def test_what_is_no_list_of_steps_is_refused_by_the_name_of_the_annotation(text: str, why: str) -> None:
    with pytest.raises(CommandError) as refused:
        steps(text, 16)
    assert refused.value.message == f'annotation kruise-ds/steps="{text}" is not a list of steps: {why}'
    assert refused.value.hints == ("write partitions from the largest to the smallest: 22,16,8,0 or 90%,50%,0",)
    assert refused.value.exit_code == 6
