#include "controller/loop/change_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job_spec/enum_name.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_node.h"

namespace paceline {
namespace {

void Add(std::vector<ChangeLine>& lines, std::string text) {
  lines.push_back({LogLevel::kInfo, std::move(text)});
}

// Adds lines for the generations after `reported`, oldest first.
void LookAtGenerations(const Job& job, Generation reported, std::vector<ChangeLine>& lines) {
  const auto line = [&](Generation generation, const char* cause, size_t ranks,
                        const std::string& reason) {
    return absl::StrCat("job_generation job=", job.request.id.value(),
                        " generation=", generation.value(), " cause=", cause, " ranks=", ranks,
                        " reason=\"", reason, "\"");
  };
  std::map<Generation, std::string> news;
  const Generation started = job.recovery.started;
  if (reported < started) {
    news[started] = line(
        started, "start", job.homes.size(),
        absl::StrCat("from ", job.restored_from.empty() ? "the beginning" : job.restored_from));
  }
  for (const MembershipChange& change : job.recovery.history) {
    if (!(reported < change.generation)) continue;
    news[change.generation] = line(change.generation, change.planned ? "planned" : "failure",
                                   static_cast<size_t>(change.ranks_after), change.reason);
  }
  for (auto& [generation, text] : news) Add(lines, std::move(text));
}

}  // namespace

void ChangeLog::Restore(const Cluster& cluster,
                        const std::map<JobId, std::vector<RemedyDecision>>& decisions) {
  for (const auto& [id, job] : cluster.jobs()) jobs_[id] = ReportedOf(job);
  for (const auto& [name, node] : cluster.nodes()) nodes_[name] = node.state;
  for (const auto& [id, stored] : decisions) {
    const auto reported = jobs_.find(id);
    if (reported == jobs_.end()) continue;
    for (const RemedyDecision& decision : stored) {
      reported->second.decisions[decision.id] = decision.state;
    }
  }
}

ChangeLog::Reported ChangeLog::ReportedOf(const Job& job) {
  Reported reported;
  reported.state = job.state;
  reported.generation = job.generation;
  reported.committed = job.checkpoints.committed;
  reported.save_error = job.checkpoints.last_error;
  return reported;
}

std::vector<ChangeLine> ChangeLog::Look(const Cluster& cluster, const Stragglers& stragglers,
                                        const Actions& actions, const StragglerActions& decided) {
  std::vector<ChangeLine> lines;
  for (const StragglerActions::Key& key : decided.store) {
    if (cluster.jobs().count(key.first) == 0) continue;
    LookAtDecision(key, *stragglers.Find(key.first)->policy().Find(key.second), lines);
  }
  for (const auto& [id, number] : decided.forget) {
    const auto reported = jobs_.find(id);
    if (reported != jobs_.end()) reported->second.decisions.erase(number);
  }
  for (const JobId& id : actions.show_jobs) {
    const Job* job = cluster.FindJob(id);
    if (job != nullptr) LookAtJob(*job, jobs_[id], lines);
  }
  for (const JobId& id : actions.delete_jobs) jobs_.erase(id);
  for (const NodeName& name : actions.show_nodes) LookAtNode(cluster.nodes().at(name), lines);
  if (actions.store_automation) {
    const Automation& automation = cluster.automation();
    Add(lines, automation.paused
                   ? absl::StrCat("automation_state paused=true owner=", automation.owner,
                                  " reason=\"", automation.reason, "\"")
                   : "automation_state paused=false");
  }
  return lines;
}

void ChangeLog::LookAtJob(const Job& job, Reported& reported, std::vector<ChangeLine>& lines) {
  const std::string& id = job.request.id.value();
  if (reported.state != job.state) {
    Add(lines, absl::StrCat("job_state job=", id, " state=", v1::JobState_Name(ToProto(job.state)),
                            " reason=\"", job.reason, "\""));
    reported.state = job.state;
  }
  LookAtGenerations(job, reported.generation, lines);
  reported.generation = job.generation;
  const JobCheckpoints& checkpoints = job.checkpoints;
  const Checkpoint* newest = NewestComplete(job);
  if (std::exchange(reported.committed, checkpoints.committed) != checkpoints.committed &&
      newest != nullptr) {
    Add(lines, absl::StrCat("checkpoint_complete job=", id,
                            " directory=", DirectoryOf(job, *newest), " bytes=", newest->bytes,
                            " took=", absl::FormatDuration(checkpoints.durable)));
  }
  if (std::exchange(reported.save_error, checkpoints.last_error) != checkpoints.last_error &&
      !checkpoints.last_error.empty()) {
    lines.push_back({LogLevel::kWarning, absl::StrCat("checkpoint_error job=", id, " error=\"",
                                                      checkpoints.last_error, "\"")});
  }
}

void ChangeLog::LookAtDecision(const StragglerActions::Key& key, const RemedyDecision& decision,
                               std::vector<ChangeLine>& lines) {
  const auto [reported, is_new] = jobs_[key.first].decisions.emplace(key.second, decision.state);
  if (!is_new && std::exchange(reported->second, decision.state) == decision.state) return;
  Add(lines, absl::StrCat("decision job=", key.first.value(), " id=", decision.id, " what=\"",
                          DescribeRemedy(decision), "\" state=", NameOf(decision.state),
                          " reason=\"", decision.reason, "\" outcome=\"", decision.outcome, "\""));
}

void ChangeLog::LookAtNode(const Node& node, std::vector<ChangeLine>& lines) {
  const auto [reported, is_new] = nodes_.emplace(node.facts.name, node.state);
  if (!is_new && std::exchange(reported->second, node.state) == node.state) return;
  Add(lines, absl::StrCat("node_state node=", node.facts.name.value(), " state=",
                          ShortEnumName(*v1::NodeState_descriptor(), ToProto(node.state)),
                          " reason=\"", node.reason, "\""));
}

void ChangeLog::Write(const std::vector<ChangeLine>& lines) {
  for (const ChangeLine& line : lines) {
    LogLine(line.level, __FILE__, __LINE__).stream() << line.text;
  }
}

}  // namespace paceline
