#!/usr/bin/env bash
# Shows the development cluster (`paceline dev up`) in Prometheus with our rules and alerts, and,
# if Grafana is installed, in the dashboards; prints the addresses and ends everything at Ctrl-C.
# Ports are $PROMETHEUS_PORT (9090) and $GRAFANA_PORT (3000), or free ones if these are taken; 0
# means any. $PACELINE and $PYTHON (one with PyYAML) replace this folder's programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly paceline=${PACELINE:-$PWD/build/bin/paceline}
readonly python=${PYTHON:-.venv/bin/python}
readonly interval=5  # Seconds between scrapes; short, so that changes show soon.
work=$(mktemp -d "${TMPDIR:-/tmp}/paceline-monitor.XXXXXX")
children=()

# Called by the trap.
# shellcheck disable=SC2317
stop() {
  trap - EXIT
  ((${#children[@]} == 0)) || kill "${children[@]}" 2>/dev/null || true
  wait
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 0' INT  # Ctrl-C is the normal end.
trap 'exit 143' TERM

fail() {
  printf 'monitor: %s\n' "$@" >&2
  exit 1
}

# Prints the port, or a free one if it is taken, for example by the service of Debian's package.
port_of() {
  local program=$1 variable=$2 port=$3 other
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    other=$("$python" -c '
import socket
with socket.create_server(("127.0.0.1", 0)) as free:
    print(free.getsockname()[1])')
    echo "monitor: port $port is taken: $program is at $other; $variable=PORT chooses another" >&2
    port=$other
  fi
  printf '%s' "$port"
}

# Waits for a log line that matches a pattern, and prints the address in it.
address_in() {
  local log=$1 pattern=$2 child=$3 found
  for _ in $(seq 150); do
    found=$(sed -nE "s/.*$pattern.*/\1/p" "$log" | head -1)
    [[ -z $found ]] || break
    kill -0 "$child" 2>/dev/null || break
    sleep 0.2
  done
  [[ -n $found ]] || fail "it does not start; ${log##*/} ends with:" "$(tail -5 "$log")"
  printf '%s' "$found"
}

command -v prometheus >/dev/null || fail "there is no Prometheus:" \
  "  apt-get install prometheus        # Debian; or any prometheus in PATH"

# Prints the controller's HTTP address, or nothing if no cluster is up.
controller=$("$paceline" --output json dev status 2>/dev/null | "$python" -c '
import json, sys
controller = json.load(sys.stdin)["controller"]
print(controller["http"] if controller["running"] else "")' || true)
[[ -n $controller ]] || fail "no development cluster is up:" "  $paceline dev up"

"$python" tools/prometheus_config.py --controller "$controller" --interval "$interval" \
  >"$work/prometheus.yml"
prometheus_port=$(port_of Prometheus PROMETHEUS_PORT "${PROMETHEUS_PORT:-9090}")
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
  --web.listen-address="127.0.0.1:$prometheus_port" >"$work/prometheus.log" 2>&1 &
children+=($!)
prometheus_address=$(address_in "$work/prometheus.log" 'Listening on" address=([0-9.:]+)' $!)

# Starts Grafana with our data source and dashboards, readable by everybody on this machine.
start_grafana() {
  local home=${GRAFANA_HOME:-/usr/share/grafana} provisioning=$work/provisioning port
  port=$(port_of Grafana GRAFANA_PORT "${GRAFANA_PORT:-3000}")
  cp -rL deploy/grafana/provisioning "$provisioning"
  sed -i -e "s|url: .*|url: http://$prometheus_address|" \
    -e "s|timeInterval: .*|timeInterval: ${interval}s|" "$provisioning/datasources/prometheus.yaml"
  sed -i "s|path: .*|path: $PWD/deploy/grafana/dashboards|" "$provisioning/dashboards/paceline.yaml"
  GF_PATHS_PROVISIONING=$provisioning GF_PATHS_DATA=$work/grafana GF_PATHS_LOGS=$work/grafana \
    GF_SERVER_HTTP_ADDR=127.0.0.1 GF_SERVER_HTTP_PORT=$port \
    GF_AUTH_ANONYMOUS_ENABLED=true GF_ANALYTICS_REPORTING_ENABLED=false \
    GF_ANALYTICS_CHECK_FOR_UPDATES=false \
    "$@" --homepath "$home" >"$work/grafana.log" 2>&1 &
  children+=($!)
  grafana_address=$(address_in "$work/grafana.log" 'HTTP Server Listen.* address=([0-9.:]+)' $!)
}

grafana_address=
if command -v grafana >/dev/null; then
  start_grafana grafana server
elif command -v grafana-server >/dev/null; then
  start_grafana grafana-server
fi

cat <<TEXT
Prometheus  http://$prometheus_address/graph     queries
            http://$prometheus_address/alerts    alerts, each with its run-book in docs/runbooks
            http://$prometheus_address/targets   what is scraped: the controller at $controller, and its workers
TEXT
if [[ -n $grafana_address ]]; then
  echo "Grafana     http://$grafana_address/d/paceline-fleet"
else
  echo "Grafana     not installed; deploy/grafana has the dashboards and how to provision them"
fi
echo "Ctrl-C ends them; what they have recorded goes with them."
wait -n || true
fail "one of them has ended:" "$(tail -n 3 "$work"/*.log)"
