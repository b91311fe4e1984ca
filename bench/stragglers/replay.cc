#include "bench/stragglers/replay.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/core/stragglers/detector/detector.h"

namespace paceline::detect {
namespace {

using nlohmann::json;

const char* Name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kSuspect:
      return "SUSPECT";
    case VerdictKind::kTransient:
      return "TRANSIENT";
    case VerdictKind::kPersistent:
      return "PERSISTENT";
    case VerdictKind::kRecovered:
      return "RECOVERED";
    case VerdictKind::kNode:
      return "NODE";
    case VerdictKind::kGroup:
      return "GROUP";
  }
  return "";
}

const char* Name(StragglerCause cause) {
  switch (cause) {
    case StragglerCause::kCompute:
      return "compute";
    case StragglerCause::kData:
      return "data";
    case StragglerCause::kHostPause:
      return "host pause";
    case StragglerCause::kCommunication:
      return "communication";
    case StragglerCause::kImbalance:
      return "imbalance";
  }
  return "";
}

json Median(std::vector<double> values) {
  if (values.empty()) return nullptr;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The worker that a verdict is about; of a node, its only one.
std::optional<size_t> WorkerOf(const Verdict& verdict, const Trace& trace) {
  if (verdict.rank >= 0) return static_cast<size_t>(verdict.rank);
  std::optional<size_t> only;
  for (size_t i = 0; i < trace.ranks.size(); ++i) {
    if (verdict.node < 0 || trace.ranks[i].node != verdict.node) continue;
    if (only.has_value()) return std::nullopt;
    only = i;
  }
  return only;
}

json NodeName(int node, const Trace& trace) {
  for (size_t i = 0; i < trace.ranks.size(); ++i) {
    if (trace.ranks[i].node == node && !trace.workers[i].node.empty()) return trace.workers[i].node;
  }
  return nullptr;
}

json Line(const Verdict& verdict, const Trace& trace) {
  json line = {{"step", verdict.step},
               {"dp", nullptr},
               {"stage", nullptr},
               {"node", NodeName(verdict.node, trace)},
               {"kind", Name(verdict.kind)},
               {"slowdown", verdict.slowdown},
               {"slowdown_low", verdict.slowdown_low},
               {"slowdown_high", verdict.slowdown_high},
               {"cause", Name(verdict.cause)},
               {"since_step", verdict.since_step},
               {"lost_share", verdict.lost_share},
               {"episodes", verdict.episodes}};
  if (verdict.peer_group >= 0) {
    line["stage"] = trace.stages[static_cast<size_t>(verdict.peer_group)];
  }
  if (const std::optional<size_t> worker = WorkerOf(verdict, trace); worker.has_value()) {
    line["dp"] = trace.workers[*worker].dp;
    line["stage"] = trace.workers[*worker].stage;
  }
  return line;
}

// Of each stage: workers, state, and its typical time beside that of all.
json Groups(const Trace& trace, const StragglerDetector& detector) {
  std::map<int, std::vector<double>> compute;  // By stage.
  std::vector<double> of_all;
  for (const TraceRow& row : trace.rows) {
    const double seconds = row.sample.forward_s + row.sample.backward_s;
    if (!(seconds > 0)) continue;
    compute[trace.ranks[static_cast<size_t>(row.sample.rank)].peer_group].push_back(seconds);
    of_all.push_back(seconds);
  }
  const json typical = Median(of_all);
  json groups = json::array();
  for (size_t g = 0; g < trace.stages.size(); ++g) {
    std::map<RankStatus, json> workers;
    int count = 0;
    for (size_t i = 0; i < trace.ranks.size(); ++i) {
      if (trace.ranks[i].peer_group != static_cast<int>(g)) continue;
      ++count;
      workers[detector.status(static_cast<int>(i))].push_back(trace.workers[i].dp);
    }
    const json own = Median(compute[static_cast<int>(g)]);
    std::string status = "watched";
    if (workers.count(RankStatus::kTooFewPeers) > 0) status = "too few peers";
    if (workers.count(RankStatus::kWarmingUp) > 0) status = "warming up";
    groups.push_back(
        {{"stage", trace.stages[g]},
         {"workers", count},
         {"status", status},
         {"compute_s", own},
         {"imbalance", own.is_null() ? json() : json(own.get<double>() / typical.get<double>())},
         {"suspect", std::move(workers[RankStatus::kSuspect])},
         {"persistent", std::move(workers[RankStatus::kPersistent])}});
    for (const char* key : {"suspect", "persistent"}) {
      if (groups.back()[key].is_null()) groups.back()[key] = json::array();
    }
  }
  return groups;
}

}  // namespace

std::vector<json> Replay(const Trace& trace, int warm_up_steps) {
  DetectorOptions options;
  options.warm_up_steps = warm_up_steps;
  StragglerDetector detector(options, trace.ranks);
  std::vector<Verdict> verdicts;
  std::set<std::pair<int64_t, int64_t>> steps;
  for (const TraceRow& row : trace.rows) {
    if (!steps.empty() && row.generation != steps.rbegin()->first) {
      detector.Close(verdicts);
      detector.Restart(trace.ranks);
    }
    steps.emplace(row.generation, row.sample.step);
    detector.Add(row.sample, verdicts);
  }
  detector.Close(verdicts);

  std::vector<json> lines;
  json kinds = {{"SUSPECT", 0},   {"TRANSIENT", 0}, {"PERSISTENT", 0},
                {"RECOVERED", 0}, {"NODE", 0},      {"GROUP", 0}};
  for (const Verdict& verdict : verdicts) {
    lines.push_back(Line(verdict, trace));
    kinds[Name(verdict.kind)] = kinds[Name(verdict.kind)].get<int>() + 1;
  }
  const DetectorCounts& counts = detector.counts();
  lines.push_back({{"summary",
                    {{"rows", trace.rows.size()},
                     {"steps", steps.size()},
                     {"workers", trace.workers.size()},
                     {"groups", Groups(trace, detector)},
                     {"verdicts", kinds},
                     {"reports",
                      {{"taken", counts.taken},
                       {"masked", counts.masked},
                       {"invalid", counts.invalid},
                       {"late", counts.late},
                       {"repeated", counts.repeated},
                       {"missing", counts.missing}}},
                     {"steps_evaluated", counts.rows},
                     {"steps_left_out", counts.left_out}}}});
  return lines;
}

}  // namespace paceline::detect
