"""Reads one JSON string per line from stdin, and prints for each whether google-adk loads it as
root_agent.yaml."""

import json
import logging
import os
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from google.adk.agents.config_agent_utils import from_config  # noqa: E402


def loads(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "root_agent.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with open(os.path.join(folder, "below.yaml"), "w", encoding="utf-8") as file:
            file.write("name: below\ninstruction: x\n")
        try:
            from_config(path)
            return True
        except Exception:
            return False


for line in sys.stdin:
    print(json.dumps(loads(json.loads(line))), flush=True)
