"""The study of FedSUV: selection by validity and utility, in training and in its own model world."""
