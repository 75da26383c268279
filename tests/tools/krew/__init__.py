"""What is made for a release: the archive of the kubectl plugin and its krew manifest."""
