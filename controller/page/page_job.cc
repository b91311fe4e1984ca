#include "controller/page/page_job.h"

#include <algorithm>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/core/labels.h"
#include "common/job_spec/ladder_text.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/steps/step_code.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_node.h"
#include "controller/wire/convert_telemetry.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

using nlohmann::json;

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

// By row, then step: codes (step_code.h) of own time and step time, two bytes each, little-endian.
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

// "data wait"; "evaluating 120/400 batches".
std::string PhaseOf(const v1::RankTelemetry& rank) {
  std::string phase = Words(v1::Phase_Name(rank.phase()));
  if (rank.phase() == v1::EVALUATING) {
    absl::StrAppend(&phase, " ", rank.evaluated_batches(), "/", rank.evaluation_batches(),
                    " batches");
  }
  return phase;
}

json DescribeRanksForPage(const v1::JobRanks& ranks) {
  json out = json::array();
  for (const v1::RankTelemetry& rank : ranks.ranks()) {
    out.push_back(
        {{"rank", rank.rank()},
         {"node", rank.node()},
         {"state", Words(v1::TrainerState_Name(rank.state()), "TRAINER_")},
         {"phase", PhaseOf(rank)},
         {"step", rank.step()},
         {"own_s", Known(rank.own_s())},
         {"wait_share", Short(rank.wait_share())},
         {"data_wait_share", Short(rank.data_wait_share())},
         {"memory", Known(static_cast<double>(rank.device_bytes() > 0 ? rank.device_bytes()
                                                                      : rank.host_bytes()))},
         {"mfu", rank.has_mfu() ? json(Short(rank.mfu())) : json()},
         {"last_heard", rank.has_last_heard() ? json(rank.last_heard().seconds()) : json()},
         {"verdict", rank.has_verdict() ? DescribeVerdict(rank.verdict()) : json()}});
  }
  return out;
}

// Events that are durable, newest first.
json DescribeEvents(const JobId& job, const JobHistories& histories) {
  const auto* history = histories.Find(job);
  std::deque<const JobLifeEvent*> newest;
  const JobLifeEvent* event = history == nullptr ? nullptr : history->After(0);
  for (; event != nullptr; event = history->After(event->id)) {
    newest.push_front(event);
    if (newest.size() > kPageEvents) newest.pop_back();
  }
  json out = json::array();
  for (const JobLifeEvent* reported : newest) {
    out.push_back({{"id", reported->id},
                   {"time", Known(reported->time)},
                   {"warning", reported->warning},
                   {"what", reported->what}});
  }
  return out;
}

// The first labels, by key: "model=llama".
json DescribeLabels(const JobLabels& labels, size_t most) {
  json out = json::array();
  for (const auto& [key, value] : labels) {
    if (out.size() == most) break;
    out.push_back(absl::StrCat(key, "=", value));
  }
  return out;
}

// A job before or after another one; it need not be known any more. `step`: of the checkpoint that
// one of them made and the other began from.
json DescribeKin(const Cluster& cluster, const JobId& id, int64_t step) {
  const Job* job = cluster.FindJob(id);
  return {{"id", id.value()},
          {"name", job == nullptr ? id.value() : job->request.name},
          {"known", job != nullptr},
          {"step", step}};
}

// Jobs whose checkpoints the job was made from, the first one first, and the newest jobs that were
// made from its own.
json DescribeLineage(const Cluster& cluster, const Job& job) {
  std::vector<json> ancestors;
  std::string directory;  // That the oldest of them, or the job, was made from; of no job's.
  const Job* oldest = &job;
  while (oldest != nullptr && !oldest->origin.empty() && ancestors.size() < kPageKin) {
    const std::optional<SavedBy> saved = ParseDirectory(oldest->origin);
    if (!saved.has_value()) {
      directory = oldest->origin;
      break;
    }
    ancestors.push_back(DescribeKin(cluster, saved->job, saved->key.step));
    oldest = cluster.FindJob(saved->job);
  }
  std::reverse(ancestors.begin(), ancestors.end());
  std::map<int64_t, std::pair<JobId, int64_t>> children;  // By number: with the step.
  for (const auto& [id, other] : cluster.jobs()) {
    const std::optional<SavedBy> saved = ParseDirectory(other.origin);
    if (saved.has_value() && saved->job == job.request.id) {
      children[other.number] = {id, saved->key.step};
    }
  }
  json newest = json::array();
  for (auto child = children.rbegin(); child != children.rend() && newest.size() < kPageKin;
       ++child) {
    newest.push_back(DescribeKin(cluster, child->second.first, child->second.second));
  }
  return {{"directory", directory},
          {"ancestors", ancestors},
          {"children", newest},
          {"child_count", children.size()}};
}

// As `paceline job describe` says it; empty for a command that is no session.
std::string DescribeStrategy(const Job& job) {
  if (!HasEngine(job.request)) return "";
  v1::Strategy asked;
  v1::Strategy used;
  asked.ParseFromString(job.request.strategy_spec);
  used.ParseFromString(job.plan.strategy);
  return StrategyInUse(asked, used);
}

json DescribeArtifacts(const JobArtifacts& artifacts) {
  json out = json::array();
  for (const auto& [name, artifact] : artifacts.by_name) {
    out.push_back({{"name", name},
                   {"path", artifact.path},
                   {"node", artifact.node.value()},
                   {"step", artifact.step},
                   {"bytes", artifact.bytes},
                   {"sha256", artifact.sha256},
                   {"error", artifact.error}});
  }
  return out;
}

// Exactly 0: not known, as of a watched script.
json KnownLoss(double loss) { return loss == 0 ? json() : json(Short(loss)); }

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
    out["loss"].push_back(point.step() > 0 ? KnownLoss(point.loss()) : json());
    out["samples_per_s"].push_back(Known(point.samples_per_s()));
    out["tokens_per_s"].push_back(Known(point.tokens_per_s()));
  }
  return out;
}

}  // namespace

using nlohmann::json;

double Short(double value) {
  double rounded = 0;
  return absl::SimpleAtod(absl::StrFormat("%.4g", value), &rounded) ? rounded : 0;
}

json Known(double value) { return value > 0 ? json(Short(value)) : json(); }

json Known(absl::Time time) {
  return time == absl::InfinitePast() ? json() : json(absl::ToUnixSeconds(time));
}

std::string Words(absl::string_view name, absl::string_view prefix) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(absl::StripPrefix(name, prefix)), {{"_", " "}});
}

std::string NameOfState(JobState state) { return Words(v1::JobState_Name(ToProto(state))); }

std::string NameOfState(NodeState state) {
  return Words(v1::NodeState_Name(ToProto(state)), "NODE_");
}

int ShownRanks(const Job& job) {
  const bool has_ranks = IsElastic(job.request) && !job.ranks.empty();
  return has_ranks ? static_cast<int>(job.ranks.size()) : job.request.ranks;
}

json DescribeJobLine(const Job& job, const PageSources& sources, absl::Time wall_now) {
  const MeasuredJob* measured = sources.steps.Find(job.request.id);
  const JobStragglers* stragglers = sources.stragglers.Find(job.request.id);
  const JobProgress progress = Summarize(job, wall_now);
  const bool ended = job.ended_already();
  json out = {
      {"id", job.request.id.value()},
      {"name", job.request.name},
      {"labels", DescribeLabels(job.request.labels, kPageLabels)},
      {"label_count", job.request.labels.size()},
      {"state", NameOfState(job.state)},
      {"reason", job.reason},
      {"save_trouble", SaveTrouble(job, wall_now)},
      {"ranks", ShownRanks(job)},
      {"generation", job.generation.value()},
      {"restarts", job.restarts},
      {"step", progress.step},
      {"steps", job.request.steps == kUnknownSteps ? 0 : job.request.steps},
      {"ended", Known(job.ended)},
      {"loss", progress.step > 0 ? KnownLoss(progress.loss) : json()},
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

json DescribeJobForPage(const PageSources& sources, const JobId& id, absl::Time wall_now) {
  const auto found = sources.cluster.jobs().find(id);
  if (found == sources.cluster.jobs().end()) return {{"id", id.value()}, {"known", false}};
  const Job& job = found->second;
  const MeasuredJob* measured = sources.steps.Find(id);
  const JobStragglers* stragglers = job.ended_already() ? nullptr : sources.stragglers.Find(id);
  const v1::JobRanks ranks = DescribeRanks(job, measured, stragglers, kPageRanks);
  return {{"id", id.value()},
          {"known", true},
          {"labels", DescribeLabels(job.request.labels, job.request.labels.size())},
          {"description", job.request.description},
          {"strategy", DescribeStrategy(job)},
          {"lineage", DescribeLineage(sources.cluster, job)},
          {"artifacts", DescribeArtifacts(job.artifacts)},
          {"job", DescribeJobLine(job, sources, wall_now)},
          {"table", DescribeTable(DescribeSteps(job, measured, 0, kPageRows))},
          {"median_own_s", Known(ranks.median_own_s())},
          {"rank_count", ranks.rank_count()},
          {"ranks", DescribeRanksForPage(ranks)},
          {"events", DescribeEvents(id, sources.histories)},
          {"series", DescribeSeriesForPage(DescribeSeries(job, measured, absl::InfinitePast()))}};
}

}  // namespace paceline
