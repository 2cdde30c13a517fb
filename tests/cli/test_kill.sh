#!/usr/bin/env bash
# SIGKILL at random moments, once; `scripts/kill_test.sh` does it 200 times.
# test: release
# test: timeout 300
exec scripts/kill_test.sh 1
