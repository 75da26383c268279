"""Images on nodes before a pod needs them, without an agent there: ImagePullJobs, carried out by puller pods.

    caches             what is there, and whom a podSelector means
    reconcile          one pass over one job: what is there, what should be done, do it, say how it stands
    world, plan        world in, plan out: the only place with an opinion, also of `job_events`; pure
    execute            the writes, and what their answers teach
    state              what is known of a job and written down nowhere: how each node did, and who lacks the image
    pod                the puller's manifest
    rollouts           makes the jobs that the rollout of a DaemonSet wants (`wanted`, pure)
    assembly           all of it, made and run, and from a change to a key; only where the feature gate is on

How a node did is remembered by the process alone. Who leads next asks the nodes: one whose kubelet tells of the image
has it, one in `status.failedNodes` has failed (in a job that goes on it is tried once more), and every other one gets
another puller, which pulls nothing where the image is there and is gone in a second or two.
"""
