"""Whether the kernels of optional libraries run here and compute what torch computes.

    python3 -m bench.peers.third --check             # on a GPU: a small and a middle size of each; without one: small sizes, interpreted
    python3 -m bench.peers.third --lower             # TileLang's kernels to CUDA source; no GPU
"""
import argparse
import os
import sys
import tempfile


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--check", action="store_true")
    ap.add_argument("--lower", action="store_true")
    ap.add_argument("--only", default="", help="regex on 'library family/kind'")
    ap.add_argument("--dtype", choices=["fp16", "bf16"], default="fp16")
    ap.add_argument("--seconds", type=float, default=110, help="for all of --check")
    ap.add_argument("--case-s", type=float, default=45, help="for one kernel of --check")
    ap.add_argument("--log", default=os.path.join(os.environ.get("OUT", tempfile.gettempdir()), "third_check.log"), help="messages of --check")
    ap.add_argument("--worker", default="", help=argparse.SUPPRESS)
    args = ap.parse_args()
    from . import check

    if args.lower and not os.environ.get("PEERS_ROLE"):
        os.environ["PEERS_ROLE"] = "dry"  # with which torch is imported
        os.chdir(check.ROOT)
        os.execv(sys.executable, [sys.executable, "-m", check.PACKAGE] + sys.argv[1:])
    if args.worker:
        return check.work(args)
    if args.lower:
        return check.lower(args)
    if args.check:
        return check.check(args)
    ap.print_help()
    return 2


sys.exit(main())
