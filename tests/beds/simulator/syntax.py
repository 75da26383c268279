"""Names, labels and required fields: the syntax that all kinds share."""

from __future__ import annotations

import re

from tests.beds.simulator.objects import Cause, Object

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

BAD_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN.pattern}')"
)
BAD_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{LABEL_VALUE.pattern}')"
)


def required(path: str, why: str = "") -> Cause:
    return Cause(path, "FieldValueRequired", f"Required value{': ' if why else ''}{why}")


def immutable(path: str, value: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f"Invalid value: {value}: field is immutable")


def _wrong(path: str, value: str, why: str) -> Cause:
    return Cause(path, "FieldValueInvalid", f'Invalid value: "{value}": {why}')


def name_causes(name: str) -> list[Cause]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    return subdomain_causes("metadata.name", name)


def subdomain_causes(path: str, name: str) -> list[Cause]:
    causes = []
    if len(name) > 253:
        causes.append(_wrong(path, name, "must be no more than 253 bytes"))
    if not SUBDOMAIN.fullmatch(name):
        causes.append(_wrong(path, name, BAD_NAME))
    return causes


def label_causes(found: Object) -> list[Cause]:
    causes = []
    for value in (found["metadata"].get("labels") or {}).values():
        if len(value) > 63:
            causes.append(_wrong("metadata.labels", value, "must be no more than 63 bytes"))
        if not LABEL_VALUE.fullmatch(value):
            causes.append(_wrong("metadata.labels", value, BAD_LABEL))
    return causes
