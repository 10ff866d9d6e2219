"""Print constraints that hold every dependency at the oldest version pyproject.toml allows."""

import re
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    dependencies = tomllib.load(file)["project"]["dependencies"]
for dependency in dependencies:
    found = re.fullmatch(r"([\w.-]+)>=([\d.]+)", dependency)
    if found:  # upper bounds stay as they are
        print(f"{found[1]}=={found[2]}.*")
