"""Print a pin for each package of pyproject.toml and of the given extras: the lowest version that it allows."""

import re
import sys
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][extra] for extra in sys.argv[1].split(","))
    for requirement in [*project["dependencies"], *(each for extra in extras for each in extra)]:
        print(re.sub(">=([^,]+).*", r"==\1", requirement))
