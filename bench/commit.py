"""The commit that a table of figures names: $MICA_COMMIT if it is set, for a build without a checkout; else git's."""
import os
import subprocess


def commit():
    """The text of $MICA_COMMIT, else at least eight digits from git, else an empty string."""
    named = os.environ.get("MICA_COMMIT", "")
    if named:
        return named
    try:
        r = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "--short=8", "HEAD"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, universal_newlines=True)
    except OSError:
        return ""
    return r.stdout.strip() if r.returncode == 0 else ""
