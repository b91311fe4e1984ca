#include "controller/page/page_state.h"

#include <algorithm>
#include <deque>
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

// Those that have not ended, and then those that have, each the newest first.
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
  keep(live, kPageJobs, [](const Job* a, const Job* b) { return a->number > b->number; });
  keep(ended, kPageEndedJobs, [](const Job* a, const Job* b) {
    return std::pair(a->ended, a->number) > std::pair(b->ended, b->number);
  });
  live.insert(live.end(), ended.begin(), ended.end());
  return live;
}

json DescribeNodes(const Cluster& cluster) {
  struct Use {
    int cpu = 0;
    int cuda = 0;
    std::vector<std::string> jobs;
  };
  std::map<NodeName, Use> uses;
  const auto add = [&](const JobRequest& request, const std::vector<RankState>& trainers) {
    for (const RankState& trainer : trainers) {
      Use& use = uses[trainer.place.node];
      ++(request.device == Device::kCuda ? use.cuda : use.cpu);
      if (use.jobs.empty() || use.jobs.back() != request.name) use.jobs.push_back(request.name);
    }
  };
  for (const auto& [id, job] : cluster.jobs()) {
    if (!job.holds_slots()) continue;
    add(job.request, job.ranks);
    add(job.request, job.spares);
  }
  json nodes = json::array();
  for (const auto& [name, node] : cluster.nodes()) {
    if (nodes.size() == kPageNodes) break;
    const Use& use = uses[name];
    nodes.push_back({{"name", name.value()},
                     {"state", NameOfState(node.state)},
                     {"reason", node.reason},
                     {"slots", node.facts.slots},
                     {"slots_used", use.cpu},
                     {"gpus", node.facts.gpus.size()},
                     {"gpus_used", use.cuda},
                     {"jobs", use.jobs}});
  }
  return nodes;
}

// What was decided about stragglers, and how memberships changed; the newest first.
json DescribeDecisions(const std::vector<const Job*>& jobs, const Stragglers& all) {
  std::vector<std::pair<absl::Time, json>> told;
  for (const Job* job : jobs) {
    const json about = {{"job_name", job->request.name}};
    for (const MembershipChange& change : job->recovery.history) {
      json out = about;
      out["id"] = absl::StrCat(job->request.id.value(), "/g", change.generation.value());
      out["what"] = change.reason;
      const bool done = change.ended != absl::InfinitePast();
      out["why"] = done && change.ranks_before != change.ranks_after
                       ? absl::StrCat(change.ranks_before, " ranks became ", change.ranks_after)
                       : "";
      out["state"] = done ? "done" : "under way";
      out["outcome"] = "";
      told.emplace_back(change.begun, std::move(out));
    }
    const JobStragglers* stragglers = all.Find(job->request.id);
    if (stragglers == nullptr) continue;
    for (const RemedyDecision& decision : stragglers->policy().decisions()) {
      json out = about;
      out["id"] = absl::StrCat(job->request.id.value(), "/d", decision.id);
      out["what"] = DescribeRemedy(decision);
      out["why"] = decision.reason;
      out["state"] = Words(NameOf(decision.state));
      out["outcome"] = decision.outcome;
      told.emplace_back(decision.made, std::move(out));
    }
  }
  std::stable_sort(told.begin(), told.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  json out = json::array();
  for (auto& [time, decision] : told) {
    if (out.size() == kPageDecisions) break;
    decision["time"] = Known(time);
    out.push_back(std::move(decision));
  }
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
  json& job_counts = out["job_counts"] = json::object();
  for (const auto& [id, job] : cluster.jobs()) {
    json& count = job_counts[NameOfState(job.state)];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  json& node_counts = out["node_counts"] = json::object();
  for (const auto& [name, node] : cluster.nodes()) {
    json& count = node_counts[NameOfState(node.state)];
    count = count.is_null() ? 1 : count.get<int>() + 1;
  }
  const std::vector<const Job*> shown = ShownJobs(cluster);
  json& jobs = out["jobs"] = json::array();
  for (const Job* job : shown) jobs.push_back(DescribeJob(*job, sources, wall_now));
  out["jobs_left_out"] = cluster.jobs().size() - shown.size();
  out["nodes"] = DescribeNodes(cluster);
  out["nodes_left_out"] = cluster.nodes().size() - out["nodes"].size();
  out["decisions"] = DescribeDecisions(shown, sources.stragglers);
  const Automation& automation = cluster.automation();
  out["automation"] = {
      {"paused", automation.paused}, {"owner", automation.owner}, {"reason", automation.reason}};
  return out;
}

json DescribeJobForPage(const PageSources& sources, const JobId& id) {
  const auto found = sources.cluster.jobs().find(id);
  if (found == sources.cluster.jobs().end()) return {{"id", id.value()}, {"known", false}};
  const Job& job = found->second;
  const MeasuredJob* measured = sources.steps.Find(id);
  const JobStragglers* stragglers = job.ended_already() ? nullptr : sources.stragglers.Find(id);
  const v1::JobRanks ranks = DescribeRanks(job, measured, stragglers, kPageRanks);
  return {{"id", id.value()},
          {"known", true},
          {"table", DescribeTable(DescribeSteps(job, measured, 0, kPageRows))},
          {"median_own_s", Known(ranks.median_own_s())},
          {"rank_count", ranks.rank_count()},
          {"ranks", DescribeRanksForPage(ranks)},
          {"events", DescribeEvents(id, sources.histories)},
          {"series", DescribeSeriesForPage(DescribeSeries(job, measured, absl::InfinitePast()))}};
}

}  // namespace paceline
