#!/bin/bash
# Host b of the tests on two hosts: waits for host a's server, then runs the command given.
set -u
until [ -e "$LAB_SHARED/ready" ]; do
  [ -e "$LAB_SHARED/failed" ] && exit 1
  sleep 0.1
done
"$@"
status=$?
touch "$LAB_SHARED/done"
exit $status
