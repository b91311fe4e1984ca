#include "controller/page/page_curves.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "controller/page/page_job.h"

namespace paceline {
namespace {

using nlohmann::json;

// "decision"; null: such an event is no mark, as curves or the state of the job show it.
const char* MarkOf(JobEventKind kind) {
  switch (kind) {
    case JobEventKind::kRestart:
      return "restart";
    case JobEventKind::kMembership:
      return "membership";
    case JobEventKind::kPlan:
      return "plan";
    case JobEventKind::kCheckpoint:
      return "checkpoint";
    case JobEventKind::kStraggler:
      return "straggler";
    case JobEventKind::kDecision:
      return "decision";
    case JobEventKind::kStall:
      return "stall";
    case JobEventKind::kState:
    case JobEventKind::kEvaluation:
    case JobEventKind::kLabels:
      return nullptr;
  }
  return nullptr;
}

// Six digits: a zoomed curve needs more than a table.
json Digits(double value) {
  double rounded = 0;
  if (!std::isfinite(value)) return json();
  return absl::SimpleAtod(absl::StrFormat("%.6g", value), &rounded) ? json(rounded) : json();
}

json DescribeCurve(const CurveName& name, const Curve& curve) {
  json steps = json::array();
  json least = json::array();
  json mean = json::array();
  json most = json::array();
  for (const CurvePoint& point : curve.points()) {
    const bool any = point.values > 0;
    steps.push_back(point.step);
    least.push_back(any ? Digits(point.least) : json());
    mean.push_back(any ? Digits(point.sum / point.values) : json());
    most.push_back(any ? Digits(point.most) : json());
  }
  return {{"name", name.name},         {"reported", name.reported}, {"width", curve.width()},
          {"steps", std::move(steps)}, {"least", std::move(least)}, {"mean", std::move(mean)},
          {"most", std::move(most)}};
}

}  // namespace

JobRun CopyRun(const JobId& id, const Cluster& cluster, const RunCurves& curves,
               const JobHistories& histories) {
  JobRun run;
  run.id = id.value();
  const Job* job = cluster.FindJob(id);
  if (job == nullptr) return run;
  run.known = true;
  run.name = job->request.name;
  run.ended = job->ended_already();
  if (const JobCurves* kept = curves.Find(id); kept != nullptr) run.curves = *kept;
  const EventHistory* history = histories.Find(id);
  const JobLifeEvent* event = history == nullptr ? nullptr : history->After(0);
  for (; event != nullptr; event = history->After(event->id)) {
    if (event->step > 0 && MarkOf(event->kind) != nullptr) run.marks.push_back(*event);
  }
  return run;
}

json DescribeRunForPage(const JobRun& run) {
  json out = {{"id", run.id}, {"known", run.known}};
  if (!run.known) return out;
  out["name"] = run.name;
  out["ended"] = run.ended;
  out["since"] = run.curves.has_value() ? Known(run.curves->since) : json();
  out["since_step"] = run.curves.has_value() ? run.curves->since_step : 0;
  out["left_out"] = run.curves.has_value() && run.curves->left_out;
  json& curves = out["curves"] = json::array();
  if (run.curves.has_value()) {
    for (const auto& [name, curve] : run.curves->curves) {
      if (!curve.points().empty()) curves.push_back(DescribeCurve(name, curve));
    }
  }
  json& marks = out["marks"] = json::array();
  for (const JobLifeEvent& mark : run.marks) {
    marks.push_back({{"id", mark.id},
                     {"step", mark.step},
                     {"time", Known(mark.time)},
                     {"kind", MarkOf(mark.kind)},
                     {"warning", mark.warning},
                     {"what", mark.what}});
  }
  return out;
}

}  // namespace paceline
