"""ImagePullJobs: images on nodes before a pod needs them, without a node agent. Puller pods pull them.

    caches             what the caches show of a job, and the nodes of a podSelector
    reconcile          one pass over one job: read the caches, plan, carry out, write the status
    world, plan        world in, plan out, with `puller_results`: the only place where anything is decided; pure
    execute            the writes, and what their answers teach
    state              what is remembered of a job between passes: the result of each node
    puller_manifest    the manifest of a puller
    rollouts           makes the jobs that the rollout of a DaemonSet wants (`wanted_jobs`, pure)
    assembly           makes and runs all of it, and turns changes into keys; only if the feature gate is on

Only this process remembers the result of each node. A new leader asks the nodes: a node whose kubelet reports the
image has it; one in `status.failedNodes` has failed (and is tried once more in a job that never completes); any other
gets another puller, which pulls nothing if the image is there, and is gone in a second or two.
"""
