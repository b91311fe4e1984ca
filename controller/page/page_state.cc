#include "controller/page/page_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/version.h"
#include "controller/rpc/convert.h"
#include "controller/rpc/convert_node.h"
#include "controller/rpc/convert_telemetry.h"

namespace paceline {
namespace {

using nlohmann::json;

// Four digits are as many as a page shows.
double Short(double value) {
  double rounded = 0;
  return absl::SimpleAtod(absl::StrFormat("%.4g", value), &rounded) ? rounded : 0;
}

// Null of what is not known.
json Known(double value) { return value > 0 ? json(Short(value)) : json(); }
json Known(absl::Time time) {
  return time == absl::InfinitePast() ? json() : json(absl::ToUnixSeconds(time));
}

// "host pause" of CAUSE_HOST_PAUSE.
std::string Words(absl::string_view name, absl::string_view prefix = "") {
  return absl::StrReplaceAll(absl::AsciiStrToLower(absl::StripPrefix(name, prefix)), {{"_", " "}});
}

std::string NameOfState(JobState state) { return Words(v1::JobState_Name(ToProto(state))); }

std::string NameOfState(NodeState state) {
  return Words(v1::NodeState_Name(ToProto(state)), "NODE_");
}

json DescribeVerdict(const v1::StragglerVerdict& verdict) {
  json out = {
      {"kind", Words(v1::VerdictKind_Name(verdict.kind()), "VERDICT_")},
      {"cause", Words(v1::StragglerCause_Name(verdict.cause()), "CAUSE_")},
      {"rank", verdict.rank()},
      {"node", verdict.node()},
      {"slowdown", Short(verdict.slowdown())},
      {"lost_share", Short(verdict.lost_share())},
  };
  if (verdict.has_exchange()) {
    out["first_rank"] = verdict.exchange().first_rank();
    out["ranks"] = verdict.exchange().ranks();
  }
  return out;
}

json DescribeJob(const Job& job, const PageSources& sources, absl::Time wall_now) {
  const MeasuredJob* measured = sources.steps.Find(job.request.id);
  const JobStragglers* stragglers = sources.stragglers.Find(job.request.id);
  const JobProgress progress = Summarize(job, wall_now);
  const bool ended = job.ended_already();
  json out = {
      {"id", job.request.id.value()},
      {"name", job.request.name},
      {"state", NameOfState(job.state)},
      {"reason", job.reason},
      {"ranks", job.request.ranks},
      {"generation", job.generation.value()},
      {"restarts", job.restarts},
      {"step", progress.step},
      {"steps", job.request.steps},
      {"ended", Known(job.ended)},
      {"loss", progress.step > 0 ? json(Short(progress.loss)) : json()},
      {"samples_per_s", ended ? json() : Known(progress.samples_per_second)},
      {"tokens_per_s", ended ? json() : Known(progress.tokens_per_second)},
      {"mfu", progress.mfu.has_value() ? json(Short(*progress.mfu)) : json()},
  };
  const v1::JobTelemetry telemetry = DescribeTelemetry(job, measured, ended ? nullptr : stragglers);
  out["step_s"] = Known(telemetry.step_s());
  out["wait_share"] = telemetry.step_s() > 0 ? json(Short(telemetry.wait_share())) : json();
  json& line = out["recent_step_s"] = json::array();
  for (const float seconds : telemetry.recent_step_s()) line.push_back(Known(seconds));
  json& slow = out["slow"] = json::array();
  for (const v1::StragglerVerdict& verdict : telemetry.slow()) {
    slow.push_back(DescribeVerdict(verdict));
  }
  out["slow_count"] = telemetry.slow_count();
  return out;
}

// Those that hold slots, those that wait, and those that have ended, each the newest first.
std::vector<const Job*> ShownJobs(const Cluster& cluster) {
  std::vector<const Job*> live;
  std::vector<const Job*> ended;
  for (const auto& [id, job] : cluster.jobs()) {
    (job.ended_already() ? ended : live).push_back(&job);
  }
  const auto keep = [](std::vector<const Job*>& jobs, size_t count, const auto& newer) {
    const auto kept = jobs.begin() + std::min(jobs.size(), count);
    std::partial_sort(jobs.begin(), kept, jobs.end(), newer);
    jobs.erase(kept, jobs.end());
  };
  keep(live, kPageJobs, [](const Job* a, const Job* b) {
    return std::pair(a->holds_slots(), a->number) > std::pair(b->holds_slots(), b->number);
  });
  keep(ended, kPageEndedJobs, [](const Job* a, const Job* b) {
    return std::pair(a->ended, a->number) > std::pair(b->ended, b->number);
  });
  live.insert(live.end(), ended.begin(), ended.end());
  return live;
}

// How many there are in each state.
template <typename Items>
json CountStates(const Items& items) {
  json counts = json::object();
  for (const auto& [name, item] : items) {
    json& count = counts[NameOfState(item.state)];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  return counts;
}

// What of these counts of all jobs is not shown: only states of which something is not.
json CountLeftOut(json counts, const std::vector<const Job*>& shown) {
  for (const Job* job : shown) {
    json& count = counts[NameOfState(job->state)];
    count = count.get<int>() - 1;
  }
  for (auto count = counts.begin(); count != counts.end();) {
    count = *count == 0 ? counts.erase(count) : std::next(count);
  }
  return counts;
}

// What the jobs hold of a node.
struct NodeUse {
  int cpu = 0;
  int cuda = 0;
  std::vector<std::string> jobs;
};

std::map<NodeName, NodeUse> UsesOf(const Cluster& cluster) {
  std::map<NodeName, NodeUse> uses;
  const auto add = [&](const JobRequest& request, const std::vector<RankState>& trainers) {
    for (const RankState& trainer : trainers) {
      NodeUse& use = uses[trainer.place.node];
      ++(request.device == Device::kCuda ? use.cuda : use.cpu);
      if (use.jobs.empty() || use.jobs.back() != request.name) use.jobs.push_back(request.name);
    }
  };
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.holds_slots()) continue;
    add(job.request, job.ranks);
    add(job.request, job.spares);
  }
  return uses;
}

// Of all jobs and nodes, shown or not.
json DescribeSums(const PageSources& sources, const std::map<NodeName, NodeUse>& uses) {
  int64_t ranks = 0;
  int64_t slow = 0;
  for (const auto& [id, job] : sources.cluster.jobs()) {
    if (job.ended_already()) continue;
    if (job.state == JobState::kRunning) ranks += job.request.ranks;
    slow += CountSlow(sources.stragglers.Find(id));
  }
  int64_t places = 0;
  for (const auto& [name, node] : sources.cluster.nodes()) {
    places += node.facts.slots + static_cast<int64_t>(node.facts.gpus.size());
  }
  int64_t used = 0;
  for (const auto& [name, use] : uses) used += use.cpu + use.cuda;
  return {{"ranks", ranks}, {"slow", slow}, {"places", places}, {"places_used", used}};
}

// By name. Where there are too many, those that are not ready are kept.
json DescribeNodes(const Cluster& cluster, const std::map<NodeName, NodeUse>& uses) {
  std::vector<const Node*> shown;
  for (const auto& [name, node] : cluster.nodes()) shown.push_back(&node);
  if (shown.size() > kPageNodes) {
    std::stable_partition(shown.begin(), shown.end(),
                          [](const Node* node) { return node->state != NodeState::kReady; });
    shown.resize(kPageNodes);
    std::sort(shown.begin(), shown.end(),
              [](const Node* a, const Node* b) { return a->facts.name < b->facts.name; });
  }
  json nodes = json::array();
  for (const Node* node : shown) {
    const auto found = uses.find(node->facts.name);
    const NodeUse use = found == uses.end() ? NodeUse() : found->second;
    nodes.push_back({{"name", node->facts.name.value()},
                     {"state", NameOfState(node->state)},
                     {"reason", node->reason},
                     {"slots", node->facts.slots},
                     {"slots_used", use.cpu},
                     {"gpus", node->facts.gpus.size()},
                     {"gpus_used", use.cuda},
                     {"jobs", use.jobs}});
  }
  return nodes;
}

// One of the two.
struct Decided {
  absl::Time time;
  const Job* job;
  const MembershipChange* change;
  const RemedyDecision* remedy;
};

json DescribeDecision(const Decided& decided) {
  const std::string& id = decided.job->request.id.value();
  json out = {{"job_name", decided.job->request.name}, {"time", Known(decided.time)}};
  if (decided.remedy != nullptr) {
    const RemedyDecision& remedy = *decided.remedy;
    out["id"] = absl::StrCat(id, "/d", remedy.id);
    out["what"] = DescribeRemedy(remedy);
    out["why"] = remedy.reason;
    out["state"] = Words(NameOf(remedy.state));
    out["outcome"] = remedy.outcome;
    return out;
  }
  const MembershipChange& change = *decided.change;
  const bool done = change.ended != absl::InfinitePast();
  out["id"] = absl::StrCat(id, "/g", change.generation.value());
  out["what"] = change.reason;
  out["why"] = done && change.ranks_before != change.ranks_after
                   ? absl::StrCat(change.ranks_before, " ranks became ", change.ranks_after)
                   : "";
  out["state"] = done ? "done" : "under way";
  out["outcome"] = "";
  return out;
}

// What was decided about stragglers, and how memberships changed, of all jobs; the newest first.
json DescribeDecisions(const PageSources& sources) {
  std::vector<Decided> all;
  for (const auto& [id, job] : sources.cluster.jobs()) {
    for (const MembershipChange& change : job.recovery.history) {
      all.push_back({change.begun, &job, &change, nullptr});
    }
    const JobStragglers* stragglers = sources.stragglers.Find(id);
    if (stragglers == nullptr) continue;
    for (const RemedyDecision& remedy : stragglers->policy().decisions()) {
      all.push_back({remedy.made, &job, nullptr, &remedy});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Decided& a, const Decided& b) { return a.time > b.time; });
  all.erase(all.begin() + static_cast<ptrdiff_t>(std::min(all.size(), kPageDecisions)), all.end());
  json out = json::array();
  for (const Decided& decided : all) out.push_back(DescribeDecision(decided));
  return out;
}

// By row, then step: the codes (step_code.h) of own time and step, each two bytes, the lower first.
std::string EncodeCells(const v1::JobSteps& steps) {
  std::string bytes;
  const auto add = [&](double seconds) {
    const StepCode code = seconds > 0 ? EncodeSeconds(seconds) : 0;
    bytes.push_back(static_cast<char>(code & 0xff));
    bytes.push_back(static_cast<char>(code >> 8));
  };
  for (const v1::StepRow& row : steps.rows()) {
    for (int c = 0; c < steps.steps(); ++c) {
      add(row.own_s(c));
      add(row.step_s(c));
    }
  }
  return absl::Base64Escape(bytes);
}

json DescribeTable(const v1::JobSteps& steps) {
  json rows = json::array();
  for (const v1::StepRow& row : steps.rows()) {
    json nodes = json::array();
    for (const std::string& node : row.nodes()) nodes.push_back(node);
    rows.push_back({{"first_rank", row.first_rank()}, {"nodes", std::move(nodes)}});
  }
  return {{"ranks", steps.rank_count()},
          {"ranks_per_row", steps.ranks_per_row()},
          {"first_step", steps.first_step()},
          {"steps", steps.steps()},
          {"median_own_s", Known(steps.median_own_s())},
          {"rows", std::move(rows)},
          {"cells", EncodeCells(steps)}};
}

json DescribeRanksForPage(const v1::JobRanks& ranks) {
  json out = json::array();
  for (const v1::RankTelemetry& rank : ranks.ranks()) {
    out.push_back(
        {{"rank", rank.rank()},
         {"node", rank.node()},
         {"state", Words(v1::TrainerState_Name(rank.state()), "TRAINER_")},
         {"phase", Words(v1::Phase_Name(rank.phase()))},
         {"step", rank.step()},
         {"own_s", Known(rank.own_s())},
         {"wait_share", Short(rank.wait_share())},
         {"data_wait_share", Short(rank.data_wait_share())},
         {"memory", Known(static_cast<double>(rank.device_bytes() > 0 ? rank.device_bytes()
                                                                      : rank.host_bytes()))},
         {"mfu", rank.has_mfu() ? json(Short(rank.mfu())) : json()},
         {"verdict", rank.has_verdict() ? DescribeVerdict(rank.verdict()) : json()}});
  }
  return out;
}

// Those that may be told, the newest first.
json DescribeEvents(const JobId& job, const JobHistories& histories) {
  const auto* history = histories.Find(job);
  std::deque<const JobLifeEvent*> newest;
  const JobLifeEvent* event = history == nullptr ? nullptr : history->After(0);
  for (; event != nullptr; event = history->After(event->id)) {
    newest.push_front(event);
    if (newest.size() > kPageEvents) newest.pop_back();
  }
  json out = json::array();
  for (const JobLifeEvent* told : newest) {
    out.push_back({{"id", told->id},
                   {"time", Known(told->time)},
                   {"warning", told->warning},
                   {"what", told->what}});
  }
  return out;
}

json DescribeSeriesForPage(const v1::JobSeries& series) {
  json out = {{"step_s", json::array()},
              {"wait_share", json::array()},
              {"loss", json::array()},
              {"samples_per_s", json::array()},
              {"tokens_per_s", json::array()}};
  const int count = series.points_size();
  for (int i = std::max(0, count - static_cast<int>(kPagePoints)); i < count; ++i) {
    const v1::SeriesPoint& point = series.points(i);
    out["step_s"].push_back(Known(point.step_s()));
    out["wait_share"].push_back(point.step_s() > 0 ? json(Short(point.wait_share())) : json());
    out["loss"].push_back(point.step() > 0 ? json(Short(point.loss())) : json());
    out["samples_per_s"].push_back(Known(point.samples_per_s()));
    out["tokens_per_s"].push_back(Known(point.tokens_per_s()));
  }
  return out;
}

}  // namespace

json DescribeForPage(const PageSources& sources, absl::Time wall_now) {
  const Cluster& cluster = sources.cluster;
  json out = {{"version", kVersion}, {"time", absl::ToUnixMillis(wall_now) / 1000.0}};
  out["job_counts"] = CountStates(cluster.jobs());
  out["node_counts"] = CountStates(cluster.nodes());
  const std::map<NodeName, NodeUse> uses = UsesOf(cluster);
  out["sums"] = DescribeSums(sources, uses);
  const std::vector<const Job*> shown = ShownJobs(cluster);
  json& jobs = out["jobs"] = json::array();
  for (const Job* job : shown) jobs.push_back(DescribeJob(*job, sources, wall_now));
  out["jobs_left_out"] = CountLeftOut(out["job_counts"], shown);
  out["nodes"] = DescribeNodes(cluster, uses);
  out["nodes_left_out"] = cluster.nodes().size() - out["nodes"].size();
  out["decisions"] = DescribeDecisions(sources);
  const Automation& automation = cluster.automation();
  out["automation"] = {
      {"paused", automation.paused}, {"owner", automation.owner}, {"reason", automation.reason}};
  return out;
}

json DescribeJobForPage(const PageSources& sources, const JobId& id, absl::Time wall_now) {
  const auto found = sources.cluster.jobs().find(id);
  if (found == sources.cluster.jobs().end()) return {{"id", id.value()}, {"known", false}};
  const Job& job = found->second;
  const MeasuredJob* measured = sources.steps.Find(id);
  const JobStragglers* stragglers = job.ended_already() ? nullptr : sources.stragglers.Find(id);
  const v1::JobRanks ranks = DescribeRanks(job, measured, stragglers, kPageRanks);
  return {{"id", id.value()},
          {"known", true},
          {"job", DescribeJob(job, sources, wall_now)},
          {"table", DescribeTable(DescribeSteps(job, measured, 0, kPageRows))},
          {"median_own_s", Known(ranks.median_own_s())},
          {"rank_count", ranks.rank_count()},
          {"ranks", DescribeRanksForPage(ranks)},
          {"events", DescribeEvents(id, sources.histories)},
          {"series", DescribeSeriesForPage(DescribeSeries(job, measured, absl::InfinitePast()))}};
}

}  // namespace paceline
