#include "controller/core/history/transition_finder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/job/plan.h"

namespace paceline {
namespace {

int64_t CountFailed(const JobCheckpoints& checkpoints) {
  int64_t failed = 0;
  for (const auto& [failure, count] : checkpoints.failed) failed += count;
  return failed;
}

// Whether the job's ranks could act, or were about to.
bool IsActive(JobState state) {
  return state == JobState::kStarting || state == JobState::kRunning ||
         state == JobState::kStopping || state == JobState::kRecovering;
}

bool IsOver(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool IsStopAsked(const Job& job) {
  return job.checkpoints.stop_after.has_value() && !job.checkpoints.stop_after->requeue;
}

// The first rank that could not prepare the plan; end: there is none.
std::vector<RankState>::const_iterator FindUnprepared(const Job& job, PlanVersion plan) {
  return std::find_if(job.ranks.begin(), job.ranks.end(),
                      [&](const RankState& rank) { return rank.report.plan.failed == plan; });
}

// By key: "team=vision", "model removed".
std::vector<std::string> LabelChanges(const JobLabels& before, const JobLabels& after) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : before) {
    if (after.count(key) == 0) texts[key] = absl::StrCat(key, " removed");
  }
  for (const auto& [key, value] : after) {
    const auto was = before.find(key);
    if (was == before.end() || was->second != value) texts[key] = absl::StrCat(key, "=", value);
  }
  std::vector<std::string> changes;
  for (auto& [key, text] : texts) changes.push_back(std::move(text));
  return changes;
}

// The verdicts about the job after the first `known`, of those that are kept.
std::vector<JobTransition> VerdictsAfter(int64_t known, const ReportedVerdicts& verdicts) {
  const auto& recent = verdicts.recent();
  const auto news = std::min(static_cast<int64_t>(recent.size()), verdicts.count() - known);
  std::vector<JobTransition> found;
  for (auto at = recent.end() - news; at != recent.end(); ++at) {
    found.push_back(transition::VerdictFound{*at});
  }
  return found;
}

}  // namespace

KnownJob::KnownJob(const Job& job) { Remember(job); }

std::vector<JobTransition> KnownJob::Look(const Job& job) {
  News news;
  if (!known_) news.push_back(transition::Submitted());
  if (job.evaluation.has_value() && job.evaluation->step != evaluated_) {
    news.push_back(transition::Evaluated());
  }
  LookAtLabels(job, news);
  LookAtCheckpoints(job, news);
  LookAtStall(job, news);
  LookAtMembership(job, news);
  LookAtPlan(job, news);
  LookAtStart(job, news);
  LookAtState(job, news);
  LookAtTroubles(job, news);
  Remember(job);
  return news;
}

void KnownJob::LookAtLabels(const Job& job, News& news) const {
  const JobRequest& request = job.request;
  const bool described = request.description != description_;
  if (!known_ || (request.labels == labels_ && !described)) return;
  news.push_back(transition::LabelsChanged{LabelChanges(labels_, request.labels), described});
}

void KnownJob::LookAtCheckpoints(const Job& job, News& news) const {
  const JobCheckpoints& checkpoints = job.checkpoints;
  if (checkpoints.committed > committed_ && NewestComplete(job) != nullptr) {
    news.push_back(transition::CheckpointCompleted());
  }
  if (CountFailed(checkpoints) > failed_) news.push_back(transition::CheckpointFailed());
  if (checkpoints.last_error != save_error_ && !checkpoints.last_error.empty()) {
    news.push_back(transition::CheckpointErrorChanged());
  }
  if (IsStopAsked(job) && !stops_when_saved_) news.push_back(transition::StopAfterSaveAsked());
}

void KnownJob::LookAtStall(const Job& job, News& news) const {
  if (job.recovery.stalled && !stalled_) {
    news.push_back(transition::Stalled());
  } else if (!job.recovery.stalled && stalled_ && job.state == JobState::kRunning) {
    news.push_back(transition::StallEnded());
  }
  const std::vector<std::string>& findings = job.collectives.findings;
  if (!findings.empty() && findings != collectives_) {
    news.push_back(transition::CollectivesFound());
  }
}

void KnownJob::LookAtMembership(const Job& job, News& news) const {
  for (const auto& [node, why] : job.recovery.vacate) {
    if (vacated_.count(node) == 0) news.push_back(transition::RanksMustLeave{node, why});
  }
  const std::vector<MembershipChange>& history = job.recovery.history;
  const int64_t first = job.recovery.changes - static_cast<int64_t>(history.size()) + 1;
  for (size_t i = 0; i < history.size(); ++i) {
    const MembershipChange& change = history[i];
    const int64_t number = first + static_cast<int64_t>(i);
    const bool is_new = number > change_.number;
    if (is_new) news.push_back(transition::MembershipChanged{change});
    const bool had_ended = !is_new && (number < change_.number || change_.has_ended);
    if (change.ended != absl::InfinitePast() && !had_ended) {
      news.push_back(transition::MembershipSettled{change});
    }
  }
}

void KnownJob::LookAtPlan(const Job& job, News& news) const {
  if (!known_) return;
  const std::string why = WhyNoSlipstream(job);
  if (job.request.strategy.is_auto && !why.empty() && !slipstream_impossible_) {
    news.push_back(transition::SlipstreamImpossible{why});
  }
  if (job.plan.strategy != strategy_) {
    news.push_back(transition::PlanDecided());
    return;
  }
  if (pending_ == PlanVersion(0) || job.plan.version != pending_) return;
  const ActivePlan active = FindActivePlan(job);
  if (active.version == pending_) {
    news.push_back(transition::PlanTakenUp{pending_, active.since_step});
    return;
  }
  const auto failed = FindUnprepared(job, pending_);
  if (failed == job.ranks.end()) return;
  news.push_back(transition::PlanNotTakenUp{pending_,
                                            Rank(static_cast<int>(failed - job.ranks.begin())),
                                            failed->slot.node, failed->report.plan.error});
}

void KnownJob::LookAtStart(const Job& job, News& news) const {
  const bool starts = job.recovery.started != started_;
  if (IsOver(state_) && !IsOver(job.state)) {
    news.push_back(transition::Resumed());
  } else if (IsActive(state_) && (starts || job.state == JobState::kQueued)) {
    news.push_back(transition::StartsAgain{job.restarts > restarts_});
  }
  if (starts) news.push_back(transition::Started());
}

void KnownJob::LookAtState(const Job& job, News& news) const {
  if (known_ && job.state == state_) return;
  news.push_back(
      transition::StateChanged{state_, state_ == JobState::kStopping && job.reason == stops_for_});
}

// Behind the others, as these say nothing of what the job does.
void KnownJob::LookAtTroubles(const Job& job, News& news) const {
  for (const auto& [node, why] : job.recovery.waiting_drains) {
    if (waiting_drains_.count(node) == 0) news.push_back(transition::DrainWaits{node, why});
  }
  if (job.recovery.spare_failures_reported > spare_failures_) {
    news.push_back(transition::SpareFailed());
  }
  const CopyTrouble trouble = job.recovery.copies.trouble;
  if (trouble == copy_trouble_) return;
  if (trouble != CopyTrouble::kNone) {
    news.push_back(transition::CopiesInTrouble());
  } else if (job.state == JobState::kRunning) {
    // A new start has no copies, and that is no news.
    news.push_back(transition::CopiesInTime());
  }
}

void KnownJob::Remember(const Job& job) {
  if (known_ && job.plan.strategy != strategy_) {
    pending_ = job.plan.version;
  } else if (pending_ != PlanVersion(0)) {
    const bool over = FindUnprepared(job, pending_) != job.ranks.end() ||
                      job.plan.version != pending_ || job.ended_already();
    if (over || FindActivePlan(job).version == pending_) pending_ = PlanVersion(0);
  }
  known_ = true;
  // Seldom others: do not copy them at each look.
  if (labels_ != job.request.labels) labels_ = job.request.labels;
  if (description_ != job.request.description) description_ = job.request.description;
  if (job.state == JobState::kStopping && state_ != JobState::kStopping) stops_for_ = job.reason;
  state_ = job.state;
  started_ = job.recovery.started;
  restarts_ = job.restarts;
  change_.number = job.recovery.changes;
  change_.has_ended =
      job.recovery.history.empty() || job.recovery.history.back().ended != absl::InfinitePast();
  vacated_.clear();
  for (const auto& [node, why] : job.recovery.vacate) vacated_.insert(node);
  waiting_drains_.clear();
  for (const auto& [node, why] : job.recovery.waiting_drains) waiting_drains_.insert(node);
  strategy_ = job.plan.strategy;
  committed_ = job.checkpoints.committed;
  failed_ = CountFailed(job.checkpoints);
  save_error_ = job.checkpoints.last_error;
  stops_when_saved_ = IsStopAsked(job);
  evaluated_ = job.evaluation.has_value() ? job.evaluation->step : 0;
  stalled_ = job.recovery.stalled;
  spare_failures_ = job.recovery.spare_failures_reported;
  copy_trouble_ = job.recovery.copies.trouble;
  collectives_ = job.collectives.findings;
  slipstream_impossible_ = slipstream_impossible_ || !WhyNoSlipstream(job).empty();
}

void TransitionFinder::Restore(const Cluster& cluster,
                               const std::map<JobId, std::vector<RemedyDecision>>& decisions) {
  for (const auto& [id, job] : cluster.jobs()) jobs_[id].job = KnownJob(job);
  for (const auto& [id, stored] : decisions) {
    const auto known = jobs_.find(id);
    if (known == jobs_.end()) continue;
    for (const RemedyDecision& decision : stored) {
      known->second.decisions[decision.id] = decision.state;
    }
  }
}

JobTransitions TransitionFinder::Look(const Cluster& cluster, const Stragglers& stragglers,
                                      const Actions& actions, const StragglerActions& decided) {
  JobTransitions found;
  for (const JobId& id : actions.delete_jobs) jobs_.erase(id);
  const auto add = [&](const JobId& id, std::vector<JobTransition> news) {
    if (news.empty()) return;
    std::vector<JobTransition>& known = found[id];
    known.insert(known.end(), std::make_move_iterator(news.begin()),
                 std::make_move_iterator(news.end()));
  };
  std::set<JobId> judged = actions.show_jobs;
  for (const auto& [id, number] : decided.store) judged.insert(id);
  for (const JobId& id : judged) {
    if (cluster.FindJob(id) == nullptr) continue;
    for (auto& [job, news] : LookAtVerdicts(id, stragglers)) add(job, std::move(news));
  }
  for (const auto& [id, number] : decided.store) {
    if (cluster.FindJob(id) == nullptr) continue;
    const RemedyDecision& decision = *stragglers.Find(id)->policy().Find(number);
    const auto [known, is_new] = jobs_[id].decisions.emplace(number, decision.state);
    if (!is_new && std::exchange(known->second, decision.state) == decision.state) continue;
    add(id, {transition::DecisionChanged{decision}});
  }
  for (const auto& [id, number] : decided.forget) {
    const auto known = jobs_.find(id);
    if (known != jobs_.end()) known->second.decisions.erase(number);
  }
  for (const JobId& id : actions.show_jobs) {
    const Job* job = cluster.FindJob(id);
    if (job != nullptr) add(id, jobs_[id].job.Look(*job));
  }
  return found;
}

bool TransitionFinder::HasNewVerdicts(const JobId& job, const Stragglers& stragglers) const {
  const JobStragglers* watched = stragglers.Find(job);
  const auto known = jobs_.find(job);
  return watched != nullptr && known != jobs_.end() &&
         watched->reported().count() > known->second.verdicts;
}

JobTransitions TransitionFinder::LookAtVerdicts(const JobId& job, const Stragglers& stragglers) {
  const JobStragglers* watched = stragglers.Find(job);
  if (watched == nullptr) return {};
  Known& known = jobs_[job];
  JobTransitions found;
  if (watched->reported().count() > known.verdicts) {
    found[job] = VerdictsAfter(known.verdicts, watched->reported());
  }
  known.verdicts = watched->reported().count();
  return found;
}

}  // namespace paceline
