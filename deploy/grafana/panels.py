"""What the dashboards are made of: panels, variables, annotations, and the dashboard around them.

Every expression of a dashboard passes through `of_cluster` and `whole_counts`, so that sources name
families and labels only. Shapes are those of Grafana 10 and later (schemaVersion 39).
"""

import re

SCHEMA_VERSION = 39
COLUMNS = 24  # Of Grafana's grid.
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

# Names of series in an expression, with their selector if there is one.
_SERIES = re.compile(
    r'(?<![\w:"$])((?:\w+:)?(?:paceline|grpc_server|process|scrape)_\w+(?::\w+)?|up|ALERTS)\b'
    r'(?!\s*\()(?:\{([^}]*)\})?')


def of_cluster(expression):
    """The expression, where each series is of the chosen clusters."""
    def selector(match):
        matchers = ['cluster=~"$cluster"'] + ([match[2]] if match[2] else [])
        return f"{match[1]}{{{','.join(matchers)}}}"

    return _SERIES.sub(selector, " ".join(expression.split()))


# Counts within a time range, which Prometheus extrapolates to fractions.
_COUNT = re.compile(r"increase\([^()]*\)")


def whole_counts(expression):
    """The expression, where each count of events is a whole number."""
    return _COUNT.sub(lambda match: f"round({match[0]})", expression)


# Dashboards that a value links to: title, address, and the label for their variable.
_DASHBOARDS = {
    "job": ("The job", "/d/paceline-job?var-job_id=", "job_id"),
    "stragglers": ("Its stragglers", "/d/paceline-stragglers?var-job_id=", "job_id"),
    "node": ("The node", "/d/paceline-node?var-node=", "node"),
}


def _link(to, value):
    """`value`: Grafana's name of the label's value, with %s for the label."""
    title, address, label = _DASHBOARDS[to]
    return {"title": title, "targetBlank": False,
            "url": f"{address}${{{value % label}}}&${{__url_time_range}}"
                   "&${datasource:queryparam}&${cluster:queryparam}"}


def _thresholds(steps):
    """From (from which value, colour) pairs; the first has no value."""
    return {"mode": "absolute",
            "steps": [{"value": value, "color": colour} for value, colour in steps]}


def _targets(queries, form):
    """A table shows the present; so does what is counted over the whole time that is shown."""
    targets = []
    for index, (expression, legend) in enumerate(queries):
        instant = form == "table" or "$__range" in expression
        targets.append({"refId": chr(ord("A") + index), "datasource": DATASOURCE,
                        "expr": whole_counts(of_cluster(expression)), "legendFormat": legend,
                        "format": form, "instant": instant, "range": not instant})
    return targets


def _panel(kind, title, about, queries, unit, options, *, width=8, height=8, thresholds=None,
           low=None, high=None, decimals=None, links=(), mappings=(), custom=None, colour=None,
           overrides=(), form="time_series"):
    defaults = {"unit": unit, "custom": custom or {}, "mappings": list(mappings),
                "links": [_link(to, "__field.labels.%s") for to in links],
                "thresholds": _thresholds(thresholds or [(None, "green")])}
    for key, value in (("min", low), ("max", high), ("decimals", decimals)):
        if value is not None:
            defaults[key] = value
    if colour:
        defaults["color"] = {"mode": colour}
    return {"type": kind, "title": title, "description": about, "datasource": DATASOURCE,
            "gridPos": {"w": width, "h": height},
            "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
            "options": options, "targets": _targets(queries, form)}


def lines(title, about, queries, unit, *, stacked=False, **more):
    """Values over time. `queries`: (expression, legend) pairs."""
    custom = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 60 if stacked else 8,
              "showPoints": "never", "spanNulls": False,
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
              "thresholdsStyle": {"mode": "line" if more.get("thresholds") else "off"}}
    more.setdefault("low", 0)
    return _panel("timeseries", title, about, queries, unit, {
        "legend": {"displayMode": "table", "placement": "bottom", "showLegend": True,
                   "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"}}, custom=custom, colour="palette-classic",
        **more)


def number(title, about, expression, unit, **more):
    """One value, large; with a `legend` that instead, for series that say all by their labels."""
    more.setdefault("width", 4)
    more.setdefault("height", 4)
    legend = more.pop("legend", "")
    return _panel("stat", title, about, [(expression, legend)], unit, {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value", "graphMode": more.pop("graph", "area"), "justifyMode": "auto",
        "orientation": "auto", "textMode": "name" if legend else "auto"}, colour="thresholds",
        **more)


def table(title, about, queries, unit, columns, *, sort=None, links=(), overrides=(), **more):
    """Now, by label: `columns` maps labels (and "Value", or "Value #A", ...) to their headings;
    what it does not name is hidden. Several queries are joined by their labels."""
    linked = {}
    for to in links:
        linked.setdefault(_DASHBOARDS[to][2], []).append(_link(to, "__data.fields.%s"))
    overrides = [*overrides, *(
        {"matcher": {"id": "byName", "options": columns[label]},
         "properties": [{"id": "links", "value": found}]} for label, found in linked.items())]
    panel = _panel("table", title, about, [(query, "") for query in queries], unit, {
        "showHeader": True, "cellHeight": "sm",
        "sortBy": [{"displayName": sort, "desc": True}] if sort else []}, colour="thresholds",
        custom={"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True},
        overrides=overrides, form="table", **more)
    panel["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {
            "indexByName": {name: index for index, name in enumerate(columns)},
            "renameByName": dict(columns)}},
        {"id": "filterFieldsByName", "options": {"include": {"names": list(columns.values())}}},
    ]
    return panel


def heat_map(title, about, expression, legend, unit, value, *, low, high, scheme="RdYlGn",
             reverse=True, repeat=None, **more):
    """Rows by legend (in the order of numbers if all are), colour by value. `repeat`: a variable,
    of which each value that is chosen has a panel."""
    more.setdefault("width", 24)
    more.setdefault("height", 12)
    panel = _panel("heatmap", title, about, [(expression, legend)], unit, {
        "calculate": False, "cellGap": 0,
        "rowsFrame": {"layout": "auto", "value": value},
        "color": {"mode": "scheme", "scheme": scheme, "reverse": reverse, "steps": 64,
                  "min": low, "max": high, "fill": "dark-orange", "exponent": 0.5,
                  "scale": "exponential"},
        "yAxis": {"axisPlacement": "left", "reverse": True},
        "cellValues": {"unit": unit, "decimals": 2},
        "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": True},
        "legend": {"show": True}, "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "showValue": "never"}, **more)
    if repeat:
        panel.update({"repeat": repeat, "repeatDirection": "v"})
    return panel


def distribution(title, about, bucket, unit, **more):
    """A histogram over time: `bucket` is a rate summed by `le`."""
    return _panel("heatmap", title, about, [(bucket, "{{le}}")], unit, {
        "calculate": False, "cellGap": 0,
        "color": {"mode": "scheme", "scheme": "Oranges", "reverse": False, "steps": 64,
                  "fill": "dark-orange", "exponent": 0.5, "scale": "exponential"},
        "yAxis": {"axisPlacement": "left", "unit": unit, "reverse": False},
        "rowsFrame": {"layout": "auto"}, "filterValues": {"le": 1e-9},
        "tooltip": {"mode": "single", "yHistogram": True}, "legend": {"show": True},
        "exemplars": {"color": "rgba(255,0,255,0.7)"}, "showValue": "never"}, form="heatmap",
        **more)


def states(title, about, expression, legend, mappings, **more):
    """What each was when. `mappings`: value -> (text, colour)."""
    more.setdefault("width", 24)
    return _panel("state-timeline", title, about, [(expression, legend)], "none", {
        "mergeValues": True, "showValue": "auto", "alignValue": "left", "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "single", "sort": "none"}},
        mappings=value_mappings(mappings), colour="thresholds",
        custom={"lineWidth": 0, "fillOpacity": 80}, **more)


def value_mappings(mappings):
    """Of numbers: value -> (text, colour)."""
    return [{"type": "value", "options": {
        str(value): {"text": text, "color": colour, "index": index}
        for index, (value, (text, colour)) in enumerate(mappings.items())}}]


def text(content, *, title="What to do", height=5):
    """Markdown."""
    return {"type": "text", "title": title, "description": "Advice for who looks at this page.",
            "gridPos": {"w": COLUMNS, "h": height}, "targets": [],
            "options": {"mode": "markdown", "content": content.strip() + "\n"}}


def variable(name, label, query, *, regex="", many=False):
    """A choice among label values; `query` is Grafana's label_values(...) or query_result(...)."""
    chosen = {"selected": True, "text": ["All"], "value": ["$__all"]} if many else {}
    found = {"name": name, "label": label, "type": "query", "datasource": DATASOURCE,
             "query": query, "definition": query, "regex": regex, "refresh": 2, "sort": 1,
             "hide": 0, "multi": many, "includeAll": many, "current": chosen, "options": []}
    if many:
        found["allValue"] = ".*"
    return found


def events(name, expression, title, colour, *, on=True):
    """Annotations where the expression has a value."""
    return {"name": name, "enable": on, "hide": False, "iconColor": colour,
            "datasource": DATASOURCE, "expr": of_cluster(expression), "step": "15s",
            "titleFormat": title, "textFormat": "", "tagKeys": "", "useValueForTime": False}


def _placed(sections):
    """All panels with ids and places: each section is a row, filled from left to right."""
    panels, y = [], 0
    for heading, members in sections:
        if heading:
            panels.append({"type": "row", "title": heading, "collapsed": False, "panels": [],
                           "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}})
            y += 1
        x = tallest = 0
        for panel in members:
            size = panel["gridPos"]
            if x + size["w"] > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            panel["gridPos"] = {"x": x, "y": y, "w": size["w"], "h": size["h"]}
            panels.append(panel)
            x += size["w"]
            tallest = max(tallest, size["h"])
        y += tallest
    return [{"id": index, **panel} for index, panel in enumerate(panels, start=1)]


def dashboard(uid, title, about, sections, *, variables=(), annotations=(), span="1h"):
    """`sections`: (heading, panels) pairs."""
    return {
        "uid": uid, "title": f"Paceline / {title}", "description": about, "tags": ["paceline"],
        "schemaVersion": SCHEMA_VERSION, "version": 1, "editable": False, "graphTooltip": 1,
        "refresh": "30s", "time": {"from": f"now-{span}", "to": "now"}, "timezone": "browser",
        "timepicker": {}, "fiscalYearStartMonth": 0, "weekStart": "", "id": None,
        "links": [{"type": "dashboards", "title": "Paceline", "tags": ["paceline"], "icon": "",
                   "asDropdown": False, "includeVars": True, "keepTime": True,
                   "targetBlank": False, "tooltip": "", "url": ""}],
        "annotations": {"list": list(annotations)},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource",
             "query": "prometheus", "regex": "", "refresh": 1, "hide": 0, "multi": False,
             "includeAll": False, "current": {}, "options": []},
            variable("cluster", "Cluster", "label_values(paceline_build_info, cluster)",
                     many=True),
            *variables]},
        "panels": _placed(sections),
    }
