"""A server of the old API:  server.py PORT FOLDER"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerConfig, start_server
from flwr.server.strategy import FedAvg

from enlist.flower import with_selector

inner = FedAvg(min_available_clients=3, initial_parameters=ndarrays_to_parameters([np.zeros(2)]))
terms: dict[str, Any] = {"k": 2, "patience": 90.0, "folder": sys.argv[2], "keys": {"loss_rms": "my_loss"}}
strategy: Any = with_selector(inner, "oort", **terms)  # type: ignore[arg-type]
start_server(server_address=f"127.0.0.1:{sys.argv[1]}", config=ServerConfig(num_rounds=3), strategy=strategy)
strategy.close()
