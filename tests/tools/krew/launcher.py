"""The program of the archive, which any Python 3 can read: one that is too old looks for another one on the PATH."""

from tests.tools.krew.natives import MINORS

LAUNCHER = f"""#!/usr/bin/env python3
import os
import sys

MINORS = {MINORS}
HERE = os.path.dirname(os.path.realpath(__file__))


def other_pythons():
    import shutil
    import subprocess

    for minor in reversed(MINORS):
        found = shutil.which("python3.%d" % minor)
        if found and subprocess.call([found, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            yield found


if sys.version_info[0] == 3 and sys.version_info[1] in MINORS:
    sys.path.insert(0, os.path.join(HERE, "lib"))
    from kubectl_plugin.main import main

    main()
else:
    for python in other_pythons():
        os.execv(python, [python, os.path.abspath(__file__)] + sys.argv[1:])
    sys.exit(
        "error: kubectl kruise-ds needs Python 3.%d to 3.%d on the PATH; python3 is %d.%d"
        % (MINORS[0], MINORS[-1], sys.version_info[0], sys.version_info[1])
    )
"""
