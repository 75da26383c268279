"""Where one rollout is: as a document for programs, in words, and whether whoever waits for it is done waiting."""
