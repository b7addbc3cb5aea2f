"""The command viewsmith, and python -m viewsmith: also an interrupt while they are imported is said in one line."""

import sys


def main() -> None:
    """Run a command and exit."""
    try:
        from viewsmith.cli import main as run

        run()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
