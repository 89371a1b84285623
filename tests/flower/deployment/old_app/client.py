"""A client of the old API:  client.py PORT NAME"""

from __future__ import annotations

import sys
from typing import Any

from flwr.client import NumPyClient, start_client


class Client(NumPyClient):
    """Adds one."""

    def fit(self, parameters: Any, config: Any) -> Any:
        return [values + 1.0 for values in parameters], 10, {"my_loss": 0.5, "client-id": sys.argv[2]}

    def evaluate(self, parameters: Any, config: Any) -> Any:
        return 0.5, 10, {"accuracy": 0.5}


start_client(server_address=f"127.0.0.1:{sys.argv[1]}", client=Client().to_client())
