"""Counts the test cases of one `bazel test`, given its --build_event_json_file.

Prints what failed and the beginning of why, then "N passed, N failed[, N skipped]" alone on the
last line. A test
that writes no cases of its own counts as one; so does a target that failed without a failed
case (a crash, a time-out, a build error), of which the end of the log is shown. Exits with 1 when something failed or nothing ran.
"""
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

LINES_OF_A_FAILURE = 16
COLUMNS = 240


def cases(xml_path):
    """(name, "passed" | "failed" | "skipped", why) of each case in a test.xml."""
    for case in ElementTree.parse(xml_path).iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        failed = [f for kind in ("failure", "error") for f in case.iter(kind)]
        if failed:
            why = "\n".join(f.text or f.get("message") or "" for f in failed)
            yield name, "failed", why.splitlines()[:LINES_OF_A_FAILURE]
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            yield name, "skipped", []
        else:
            yield name, "passed", []


def path_of(output):
    return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)


def end_of(log_path):
    with open(log_path, encoding="utf-8", errors="replace") as log:
        return log.read().splitlines()[-LINES_OF_A_FAILURE:]


def count(events):
    """Totals by outcome, and (label or case, lines of why) of each that failed."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failures = []
    for event in map(json.loads, events):
        kind = event["id"]
        if "testResult" in kind and "testResult" in event:
            label, result = kind["testResult"]["label"], event["testResult"]
            outputs = {o["name"]: path_of(o) for o in result.get("testActionOutput", [])}
            found = list(cases(outputs["test.xml"])) if "test.xml" in outputs else []
            passed = result["status"] in ("PASSED", "FLAKY")
            if not found or (not passed and all(outcome != "failed" for _, outcome, _ in found)):
                why = [] if passed or "test.log" not in outputs else end_of(outputs["test.log"])
                found.append(("", "passed" if passed else "failed", why))
            for name, outcome, why in found:
                totals[outcome] += 1
                if outcome == "failed":
                    failures.append((f"{label} {name}".rstrip(), why))
        elif "targetCompleted" in kind and not event.get("completed", {}).get("success"):
            # A test that ran and failed has its own events; this finds targets that were not built.
            if "aborted" in event or "failureDetail" in event.get("completed", {}):
                label = kind["targetCompleted"]["label"]
                totals["failed"] += 1
                failures.append((f"{label} (not built)", []))
    return totals, failures


def main():
    with open(sys.argv[1], encoding="utf-8") as events:
        totals, failures = count(events)
    for failure, why in failures:
        print("failed:", failure)
        for line in why:
            print("   ", line[:COLUMNS])
    skipped = f", {totals['skipped']} skipped" if totals["skipped"] else ""
    print(f"{totals['passed']} passed, {totals['failed']} failed{skipped}")
    return 1 if totals["failed"] or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
