"""What a real kubelet and a real container runtime have to say: the bed's own tests, then ours."""
