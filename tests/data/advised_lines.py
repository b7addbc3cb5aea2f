"""The line of a message that converts a file: found, and run."""

import re
import shlex

from viewsmith.data import load_dataset

LINE = re.compile(r'(?:pip install (.+?), then )?(python -c ".*"), and give (\S+)((?: --\S+ \S+)*)')


def advised(message):
    """Packages, code as Python gets it from a shell, and the arguments that follow, of a message of one line."""
    packages, line, out, options = LINE.search(message).groups()
    python, flag, code = shlex.split(line)
    assert (python, flag) == ("python", "-c") and len(message.splitlines()) == 1
    given = options.replace("--", "").split()
    return packages, code, out, dict(zip(given[::2], given[1::2], strict=True))


def follow(message, folder, monkeypatch, **more):
    """Run the line of a message in a folder, and read what it has written."""
    packages, code, out, options = advised(message)
    assert packages in (None, "'viewsmith[omics]'", "'viewsmith[microscopy]'", "nibabel")  # what the tests have
    monkeypatch.chdir(folder)
    exec(code, {"__name__": "line"})
    rate = {"rate": float(options.pop("rate"))} if "rate" in options else {}
    return load_dataset(out, **options | rate | more)
