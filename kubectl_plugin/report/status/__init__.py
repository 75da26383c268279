"""The status of one rollout: as a document for programs, in words for people, and whether a wait for it is over."""
