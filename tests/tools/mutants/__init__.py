"""Planted faults: each is a small change that breaks a promise, and the tests named beside it must then fail.

`make test-mutants` applies them one after another to a copy of the repository and runs those tests. A fault that was
once found by other means than the tests belongs here, together with the test that finds it now.

The entries are in `lists`, a file for each top folder. An entry:

    [[fault]]
    says = "one sentence: what goes wrong"
    file = "controller/planner/nodes.py"
    was = "exact text that is in the file once"
    now = "the same with the fault"
    tests = "tests/unit/controller/planner/test_surge.py"
"""
