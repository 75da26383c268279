"""Where a test belongs, and what it may stand on.

**Take the least powerful kind of test that can fail for your fault.** From the least to the most:

    unit          does this module do what it says, case by case? Laid out as the code is. Values only.
    integration   does it do so with this machine's processes, sockets and terminals, and in real time?
    properties    does this law hold in every world? On random ones.
    simulation    do the laws hold through every history? The whole process on the simulator in virtual time.
    contract      does the simulator answer as the API server does? Each test of the API runs on both.
    system        does the controller write the right thing, when, and how often? On the simulator in virtual
                  time; where the server itself decides, on the real one too.
    plugin        what does a verb print, write and return? On the scenes of `plugin.scene`; screens are in
                  `plugin/golden`; what a server decides is in `plugin/real`.
    manifests, monitoring, packaging
                  do those for whom we make it accept what we ship? kubectl, helm, the API server, Prometheus.
    e2e           do the installed programs work together? Processes, nearly always on the real control plane.
    real_node     does it hold where containers really run? A kubelet and containerd decide, and nothing is simulated.

So: a rule of a rollout is a table in `unit/controller/planner`. What follows from several rules is a law in
`properties`, what must hold of each write one in `simulation`. What depends on the order of watches and writes is a
system test on the simulator, which can delay, refuse and lose each of them. Only what the server decides (conflicts,
validation, garbage collection, the watch protocol, ownership, rights) needs the real one. What one module does with a
program, a socket or a terminal is `integration`, and only what our own processes do (signals, files, ports, leases)
needs `e2e`. What an image, a container, a probe or a node does needs `real_node`, which takes root on Linux.

`beds` is what tests stand on: `worlds` and `objects` make what a test begins with, `pods` asks questions about a
pod, `api` is the server without our own client, `virtual_time` lets hours pass in milliseconds. `simulator` is an
API server in memory and `control_plane` a real one; `nodes` plays kubelets and scheduler for either, and `real_node`
has real ones. `controller` is our controller in a test's hands, `installed` the same as a process. The beds have
tests of their own: `unit/beds`, `integration` and `contract`.

`tools` holds what is no test: the demo, the benchmarks, the fail-over table, the bundle and the krew archive, what
is made of other files, and `tools.mutants`, which plants faults in a copy of the code that the tests must find.

A test fails for one reason and names the pod or the node. None waits for a guessed time, and none asserts how fast
a machine is: wait for what you need, or let virtual time pass. None needs another one, an order, or a fixed port.
What is missing on a machine (a control plane, a Prometheus) is told at the end of the run; under `CI=true` it fails.
"""
