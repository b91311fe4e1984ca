"""Every expression of dashboards, rules and alerts, ready for Prometheus."""

import glob
import json
import re

import yaml

# What Grafana would put in place of its variables. $__rate_interval is at least four scrapes.
VARIABLES = {"cluster": ".*", "job_id": ".*", "node": ".*", "datasource": "",
             "__rate_interval": "20s", "__range": "10m", "__interval": "5s"}
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
# Selectors of our families in an expression, with their labels if there are any.
_SELECTOR = re.compile(
    r'(?<![\w:"])((?:\w+:)?(?:paceline|grpc_server|process|scrape)_\w+(?::\w+)?|up|ALERTS)\b'
    r'(?!\s*\()(\{[^}]*\})?')
# Strings are one token, so that nothing is found in them.
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|(?<![\w:])(?:and|or|unless)(?![\w:])|[=!<>]=|.', re.DOTALL)
_SETS = ("and", "or", "unless")
_MATCHING = re.compile(r"^\s*(?:on|ignoring)\s*\([^)]*\)")
_COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
_VARIABLE_QUERY = re.compile(r"^(label_values|query_result)\((.*)\)$")


def filled(expression):
    return _VARIABLE.sub(lambda match: VARIABLES[match[1]], expression)


def selectors(expression):
    """The selectors of the expression: (family, selector) pairs."""
    return [(match[1], match[0]) for match in _SELECTOR.finditer(expression)]


def of_dashboards():
    """(where, expression) pairs of panels, annotations and variables."""
    found = []
    for path in sorted(glob.glob("deploy/grafana/dashboards/*.json")):
        with open(path, encoding="utf-8") as file:
            dashboard = json.load(file)
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                found.append((f"{dashboard['title']}: {panel['title']} {target['refId']}",
                              filled(target["expr"])))
        for annotation in dashboard["annotations"]["list"]:
            found.append((f"{dashboard['title']}: annotation {annotation['name']}",
                          filled(annotation["expr"])))
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found.append((f"{dashboard['title']}: variable {variable['name']}",
                              of_variable(filled(variable["query"]))))
    return found


def of_variable(query):
    """The expression whose series a variable takes its values from."""
    function, argument = _VARIABLE_QUERY.match(query).groups()
    if function == "query_result":
        return argument
    series, label = argument.rsplit(",", 1)
    return f'count by ({label.strip()}) ({series})'


def _depths(expression):
    """(token, how many brackets are open after it) pairs."""
    depth = 0
    for token in _TOKEN.finditer(expression):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        yield token, depth


def _outside(expression, wanted):
    """The wanted tokens outside of all brackets."""
    return [token for token, depth in _depths(expression) if depth == 0 and token[0] in wanted]


def _in_parentheses(expression):
    """Whether one pair of them is around all of it."""
    end = next((token.end() for token, depth in _depths(expression) if depth == 0), 0)
    return expression.startswith("(") and end == len(expression)


def operands(expression):
    """What `and`, `or` and `unless` join, without parentheses around it."""
    expression = " ".join(expression.split())
    parts, start = [], 0
    for token in _outside(expression, _SETS):
        parts.append(expression[start:token.start()])
        start = token.end()
    parts.append(expression[start:])
    found = []
    for part in parts:
        part = _MATCHING.sub("", part).strip()
        found += operands(part[1:-1]) if _in_parentheses(part) else [part]
    return found


def left_side(operand):
    """What an operand compares; None when it compares nothing."""
    comparisons = _outside(operand, _COMPARISONS)
    return operand[:comparisons[-1].start()].strip() if comparisons else None


def rules(name):
    """The rules of a file, in their order."""
    with open(f"deploy/prometheus/{name}", encoding="utf-8") as file:
        return [rule for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]
