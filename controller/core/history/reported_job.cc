#include "controller/core/history/reported_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/core/bytes_text.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/job/plan.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/stragglers/slipstream/strategy_advice.h"

namespace paceline {
namespace {

// If there are more nodes, only their number is given.
constexpr size_t kNodesNamed = 4;

std::string NodesText(const std::vector<NodeName>& nodes) {
  std::vector<std::string> names;
  for (const NodeName& node : nodes) {
    if (names.size() == kNodesNamed) {
      names.push_back(absl::StrCat("and ", nodes.size() - kNodesNamed, " more"));
      break;
    }
    names.push_back(node.value());
  }
  return absl::StrJoin(names, ", ");
}

std::string RanksText(size_t ranks) { return absl::StrCat(ranks, ranks == 1 ? " rank" : " ranks"); }

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

std::string PlanText(const Job& job) {
  return job.request.strategy.has_ladder ? absl::StrCat("ladder ", DescribeLadder(job.plan.ladder))
                                         : DescribeStrategy(job.plan.slipstream);
}

bool IsStopAsked(const Job& job) {
  return job.checkpoints.stop_after.has_value() && !job.checkpoints.stop_after->requeue;
}

}  // namespace

struct ReportedJob::News {
  void Add(JobEventKind kind, bool warning, std::string what) {
    JobLifeEvent event;
    event.kind = kind;
    event.warning = warning;
    event.what = std::move(what);
    events.push_back(std::move(event));
  }
  // Whether an event of this kind was added already.
  bool Has(JobEventKind kind) const {
    return std::any_of(events.begin(), events.end(),
                       [&](const JobLifeEvent& event) { return event.kind == kind; });
  }

  std::vector<JobLifeEvent> events;
};

ReportedJob::ReportedJob(const Job& job) { Remember(job); }

std::vector<JobLifeEvent> ReportedJob::Look(const Job& job) {
  News news;
  if (!known_) {
    news.Add(JobEventKind::kState, false,
             absl::StrCat("submitted as ", job.request.name, ", ",
                          RanksText(static_cast<size_t>(job.request.ranks)), ", queue ",
                          job.request.queue));
  }
  LookAtEvaluation(job, news);
  LookAtCheckpoints(job, news);
  LookAtStall(job, news);
  LookAtCollectives(job, news);
  LookAtMembership(job, news);
  LookAtPlan(job, news);
  LookAtStart(job, news);
  LookAtState(job, news);
  Remember(job);
  return std::move(news.events);
}

void ReportedJob::LookAtEvaluation(const Job& job, News& news) const {
  if (!job.evaluation.has_value() || job.evaluation->step == evaluated_) return;
  const Evaluation& evaluation = *job.evaluation;
  const std::string accuracy =
      evaluation.accuracy.has_value()
          ? absl::StrFormat("accuracy %.2f %%, ", 100 * *evaluation.accuracy)
          : "";
  news.Add(JobEventKind::kEvaluation, false,
           absl::StrFormat("evaluated after step %d: %sloss %.4g", evaluation.step, accuracy,
                           evaluation.loss));
}

void ReportedJob::LookAtCheckpoints(const Job& job, News& news) const {
  const JobCheckpoints& checkpoints = job.checkpoints;
  const Checkpoint* newest = checkpoints.committed > committed_ ? NewestComplete(job) : nullptr;
  if (newest != nullptr) {
    news.Add(JobEventKind::kCheckpoint, false,
             absl::StrCat("checkpoint of step ", newest->key.step, " is complete, ",
                          BytesText(newest->bytes), ", in ", DirectoryOf(job, *newest)));
  }
  if (CountFailed(checkpoints) > failed_) {
    news.Add(JobEventKind::kCheckpoint, true,
             absl::StrCat("a checkpoint failed: ", checkpoints.last_error.empty()
                                                       ? "the reason is not known"
                                                       : checkpoints.last_error));
  }
  if (IsStopAsked(job) && !stops_when_saved_) {
    news.Add(
        JobEventKind::kState, false,
        absl::StrCat("is to end when a checkpoint is saved: ", checkpoints.stop_after->reason));
  }
}

void ReportedJob::LookAtStall(const Job& job, News& news) const {
  if (job.recovery.stalled == stalled_) return;
  if (job.recovery.stalled) {
    news.Add(JobEventKind::kStall, true, job.reason);
  } else if (job.state == JobState::kRunning) {
    news.Add(
        JobEventKind::kStall, false,
        job.request.command.has_value() ? "the ranks are active again" : "steps are made again");
  }
}

void ReportedJob::LookAtCollectives(const Job& job, News& news) const {
  if (job.collectives.findings.empty() || job.collectives.findings == collectives_) return;
  news.Add(JobEventKind::kStall, true, absl::StrJoin(job.collectives.findings, "; "));
}

void ReportedJob::LookAtMembership(const Job& job, News& news) const {
  for (const auto& [node, why] : job.recovery.vacate) {
    if (vacated_.count(node) > 0) continue;
    news.Add(JobEventKind::kMembership, false,
             absl::StrCat("its ranks will move off ", node.value(), ": ", why));
  }
  const std::vector<MembershipChange>& history = job.recovery.history;
  const int64_t first = job.recovery.changes - static_cast<int64_t>(history.size()) + 1;
  for (size_t i = 0; i < history.size(); ++i) {
    const MembershipChange& change = history[i];
    const int64_t number = first + static_cast<int64_t>(i);
    const bool is_new = number > change_.number;
    if (is_new) {
      news.Add(JobEventKind::kMembership, !change.planned,
               absl::StrCat("generation ", change.generation.value(), ": ", change.reason));
    }
    const bool had_ended = !is_new && (number < change_.number || change_.has_ended);
    if (change.ended == absl::InfinitePast() || had_ended) continue;
    const std::string ranks =
        change.ranks_before == change.ranks_after
            ? RanksText(static_cast<size_t>(change.ranks_after))
            : absl::StrCat(change.ranks_after, " instead of ",
                           RanksText(static_cast<size_t>(change.ranks_before)));
    news.Add(JobEventKind::kMembership, false,
             absl::StrFormat("generation %d trains on from step %d with %s, after %.3g s",
                             change.generation.value(), change.step, ranks,
                             absl::ToDoubleSeconds(change.ended - change.begun)));
  }
}

void ReportedJob::LookAtPlan(const Job& job, News& news) const {
  if (!known_) return;
  const std::string why = WhyNoSlipstream(job);
  if (job.request.strategy.is_auto && !why.empty() && !reported_no_slipstream_) {
    news.Add(JobEventKind::kPlan, true,
             absl::StrCat("strategy auto stays with ddp for this model: ", why));
  }
  if (job.plan.strategy != strategy_) {
    news.Add(JobEventKind::kPlan, false,
             absl::StrCat("plan version ", job.plan.version.value(), ": ", PlanText(job)));
    return;
  }
  if (pending_ == PlanVersion(0) || job.plan.version != pending_) return;
  const ActivePlan active = FindActivePlan(job);
  if (active.version == pending_) {
    news.Add(JobEventKind::kPlan, false,
             absl::StrCat("all ranks train by plan version ", pending_.value(), " since step ",
                          active.since_step));
    return;
  }
  const auto failed = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& rank) {
    return rank.report.plan.failed == pending_;
  });
  if (failed == job.ranks.end()) return;
  news.Add(JobEventKind::kPlan, true,
           absl::StrCat("plan version ", pending_.value(), " is not taken up, as rank ",
                        failed - job.ranks.begin(), " on ", failed->slot.node.value(),
                        " could not prepare it: ", failed->report.plan.error));
}

void ReportedJob::LookAtStart(const Job& job, News& news) const {
  const bool starts = job.recovery.started != started_;
  if (IsOver(state_) && !IsOver(job.state)) {
    const std::string from = ChooseStart(job);
    news.Add(JobEventKind::kState, false,
             absl::StrCat("resumed", from.empty() ? "" : " from ", from));
  } else if (IsActive(state_) && (starts || job.state == JobState::kQueued)) {
    const bool failed = job.restarts > restarts_;
    news.Add(JobEventKind::kRestart, failed,
             failed ? job.restart_reason : absl::StrCat("queued again: ", job.restart_reason));
  }
  if (!starts) return;
  news.Add(
      JobEventKind::kState, false,
      absl::StrCat("generation ", job.recovery.started.value(), " starts on ", NodesText(job.nodes),
                   job.restored_from.empty() ? "" : " from ", job.restored_from));
}

void ReportedJob::LookAtState(const Job& job, News& news) const {
  if (known_ && job.state == state_) return;
  switch (job.state) {
    case JobState::kQueued:
      if (!news.Has(JobEventKind::kRestart) && !job.reason.empty() && !IsOver(state_)) {
        news.Add(JobEventKind::kState, false, job.reason);
      }
      return;
    case JobState::kStarting:
      return;  // LookAtStart does it.
    case JobState::kRunning:
      if (!news.Has(JobEventKind::kMembership)) {
        news.Add(JobEventKind::kState, false, "all ranks train");
      }
      return;
    case JobState::kRecovering:
      if (!news.Has(JobEventKind::kMembership)) {
        news.Add(JobEventKind::kMembership, true, job.reason);
      }
      return;
    case JobState::kStopping:
      news.Add(JobEventKind::kState, job.failure.has_value(), job.reason);
      return;
    case JobState::kSucceeded:
    case JobState::kFailed:
    case JobState::kCancelled:
      // The reason why it stops was shown already.
      news.Add(JobEventKind::kState, job.state == JobState::kFailed,
               state_ != JobState::kStopping || job.reason != stops_for_ ? job.reason
               : job.state == JobState::kFailed                          ? "the job has failed"
                                                                         : "the job is cancelled");
      return;
  }
}

void ReportedJob::Remember(const Job& job) {
  if (known_ && job.plan.strategy != strategy_) {
    pending_ = job.plan.version;
  } else if (pending_ != PlanVersion(0)) {
    const bool failed = std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& rank) {
      return rank.report.plan.failed == pending_;
    });
    const bool over = failed || job.plan.version != pending_ || job.ended_already();
    if (over || FindActivePlan(job).version == pending_) pending_ = PlanVersion(0);
  }
  known_ = true;
  if (job.state == JobState::kStopping && state_ != JobState::kStopping) stops_for_ = job.reason;
  state_ = job.state;
  started_ = job.recovery.started;
  restarts_ = job.restarts;
  change_.number = job.recovery.changes;
  change_.has_ended =
      job.recovery.history.empty() || job.recovery.history.back().ended != absl::InfinitePast();
  vacated_.clear();
  for (const auto& [node, why] : job.recovery.vacate) vacated_.insert(node);
  strategy_ = job.plan.strategy;
  committed_ = job.checkpoints.committed;
  failed_ = CountFailed(job.checkpoints);
  stops_when_saved_ = IsStopAsked(job);
  evaluated_ = job.evaluation.has_value() ? job.evaluation->step : 0;
  stalled_ = job.recovery.stalled;
  collectives_ = job.collectives.findings;
  reported_no_slipstream_ = reported_no_slipstream_ || !WhyNoSlipstream(job).empty();
}

}  // namespace paceline
