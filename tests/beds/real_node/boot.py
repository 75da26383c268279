"""The first process of a node, in name spaces of its own: makes a machine out of them, then reaps orphans.

`python -I boot.py STATE NAME ADDRESS`; the folder STATE holds what becomes /var. Its end is the node's power cut.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

UP = Path("/run/node-is-up")
KERNEL = {
    "vm/overcommit_memory": 1,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What the kubelet would set for the whole machine; it finds it set already."""


def main(state: Path, name: str, address: str) -> None:
    socket.sethostname(name)
    folders(state)
    network(address)
    UP.touch()
    while True:
        os.wait()  # there is always one: the sleeper below


def folders(state: Path) -> None:
    """The machine's own files can be read and not written; /var lasts, /run goes with the power."""
    run("mount --make-rshared /")
    run(f"mount --bind {state}/var /var")
    run("mount -t tmpfs -o mode=755 tmpfs /run")
    for setting, value in KERNEL.items():
        ours = Path("/run/kernel", setting)
        ours.parent.mkdir(parents=True, exist_ok=True)
        ours.write_text(f"{value}\n")
        run(f"mount --bind {ours} /proc/sys/{setting}")
    run("mount -o remount,bind,ro /")
    run("mount --make-rshared /")


def network(address: str) -> None:
    """A card whose other end is in here too, so that there is one; and the API server's address for pods."""
    run("ip link set lo up")
    run("ip link add eth0 type veth peer name wire0")
    run(f"ip address add {address}/16 dev eth0")
    run("ip link set wire0 up")
    run("ip link set eth0 up")
    run("ip route add default dev eth0")
    run("ip address add 10.96.0.1/32 dev lo")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


if __name__ == "__main__":
    subprocess.Popen(["sleep", "infinity"])
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
