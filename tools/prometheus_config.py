#!/usr/bin/env python3
"""Writes deploy/prometheus/prometheus.yml for one controller: its address, other intervals.

    tools/prometheus_config.py --controller 127.0.0.1:7451 --interval 2 > prometheus.yml
"""

import argparse
import os
import sys

import yaml

DEPLOY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                      "deploy/prometheus")


def configuration(controller, interval=None, rules=DEPLOY):
    """`interval`: whole seconds of scrapes, evaluations and discovery; default: as in the file.
    The result has no Alertmanager. `rules`: the folder of the rule files."""
    with open(os.path.join(DEPLOY, "prometheus.yml"), encoding="utf-8") as file:
        config = yaml.safe_load(file)
    del config["alerting"]
    config["rule_files"] = [os.path.join(rules, name) for name in config["rule_files"]]
    ours, workers = config["scrape_configs"]
    ours["static_configs"][0]["targets"] = [controller]
    discovery = workers["http_sd_configs"][0]
    discovery["url"] = f"http://{controller}/sd"
    if interval:
        every = f"{interval}s"
        config["global"] = {"scrape_interval": every, "scrape_timeout": every,
                            "evaluation_interval": every}
        discovery["refresh_interval"] = every
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--controller", required=True, metavar="HOST:PORT")
    parser.add_argument("--interval", type=int, metavar="SECONDS")
    chosen = parser.parse_args()
    yaml.safe_dump(configuration(chosen.controller, chosen.interval), sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
