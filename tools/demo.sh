#!/usr/bin/env bash
# Shows the whole of Paceline on this machine: two worker daemons under a controller train
# ResNet-18 on real handwritten digits with four ranks. Fails unless it learns to read them.
# shellcheck source=tools/demo-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo-cluster.sh"
readonly required=0.97  # Accuracy on the test images.

step "The data: UCI's handwritten digits, as image shards"
import_digits
cp deploy/examples/digits-resnet18.yaml "$work"

step "A cluster: a controller and two workers with two slots each"
"$paceline" --quiet dev up --workers 2 --slots 2
"$paceline" node list
page=$("$paceline" --output json dev status |
  /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["controller"]["http"])')
echo "In a browser: http://$page/"

step "The job: ResNet-18, four ranks, two on each worker"
"$paceline" submit "$work/digits-resnet18.yaml" --follow
job=$("$paceline" --output json job list --limit 1)

step "The result"
/usr/bin/python3 - "$required" "$job" <<'PYTHON'
import json
import sys

required, listed = float(sys.argv[1]), json.loads(sys.argv[2])
job = listed["jobs"][0]
progress, accuracy = job["progress"], job["evaluation"]["accuracy"]
print(f"test accuracy {accuracy:.2%} of {job['evaluation']['samples']} images "
      f"after {int(progress['step'])} steps in {progress['training_s']:.1f} s, "
      f"{progress['samples_per_s']:.0f} samples/s")
if accuracy < required:
    sys.exit(f"demo: below the required {required:.0%}")
PYTHON

step "Explore further"
cat <<TEXT
  export PATH=$PWD/build/bin:\$PATH
  paceline dev up                          # a cluster that stays; state in ~/.paceline/dev
  paceline data import-digits --csv ${digits_csv[0]} --out deploy/examples
  paceline submit deploy/examples/digits-resnet18.yaml --follow
  paceline job list                        # and: job describe JOB, job logs -f JOB, job cancel JOB
  paceline node list                       # and: node describe NODE
  paceline top                             # jobs and ranks, live
  paceline dev status                      # the daemons' addresses; each serves /metrics
  paceline dev down --purge
TEXT

step "Watch it"
if [[ -t 0 && -t 1 ]]; then
  cat <<TEXT
  In a browser: http://$page/
  Prometheus, and Grafana if it is installed, from another terminal:
    PACELINE_DEV_DIR=$PACELINE_DEV_DIR make -C $PWD monitor

TEXT
  read -rp "The demo's cluster is up; Enter ends it. " || true
else
  cat <<TEXT
  The page of the demo's cluster was http://$page/ and goes with it. Of one that stays:
  $paceline dev up    # prints the address of its page for browsers
  make -C $PWD monitor    # Prometheus beside it, and Grafana if it is installed
TEXT
fi
