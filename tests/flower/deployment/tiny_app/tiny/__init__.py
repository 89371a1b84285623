"""As little as a Flower app can be: the model is one number, and every node pulls it halfway to its own.

Flower starts a process for every message, so what is not imported here makes the tests shorter.
"""
