"""The commit that a table of figures names: $MICA_COMMIT where it is set, as for a build that travelled without its checkout, else git's."""
import os
import subprocess


def commit():
    """Eight digits or more of git, the text of $MICA_COMMIT as it is, or "" where neither says it."""
    named = os.environ.get("MICA_COMMIT", "")
    if named:
        return named
    try:
        r = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short=8", "HEAD"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, universal_newlines=True)
    except OSError:
        return ""
    return r.stdout.strip() if r.returncode == 0 else ""
