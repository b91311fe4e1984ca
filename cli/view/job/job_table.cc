#include "cli/view/job/job_table.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/text/table.h"
#include "cli/view/checkpoint/checkpoint_text.h"
#include "cli/view/job/job_text.h"
#include "cli/view/numbers.h"

namespace paceline {
namespace {

std::vector<Table::Column> Columns(bool checkpoints, bool labels, bool wide) {
  std::vector<Table::Column> columns = {{"ID"},
                                        {"NAME"},
                                        {"STATE"},
                                        {"RANKS", true, true},
                                        {"STEP", true},
                                        {"LOSS", true, true},
                                        {"SAMPLES/S", true, true},
                                        {"RAN", true}};
  if (checkpoints) columns.push_back({"CHECKPOINT", true, true});
  if (wide) {
    columns.insert(
        columns.end(),
        {{"QUEUE"}, {"SUBMITTER"}, {"MODEL"}, {"NODES"}, {"RESTARTS", true}, {"AGE", true}});
  }
  if (labels) columns.push_back({"LABELS"});
  columns.push_back({"REASON"});
  return columns;
}

std::string NodesOf(const v1::Job& job) {
  std::set<std::string> nodes;
  for (const v1::Rank& rank : job.ranks()) nodes.insert(rank.node());
  return absl::StrJoin(nodes, ",");
}

std::string AgeOf(const v1::Job& job, absl::Time now) {
  if (!job.has_create_time()) return "";
  return DurationText(absl::ToDoubleSeconds(now - TimeOf(true, job.create_time())));
}

// Failing saves and trouble with copies come first: they may cost completed steps.
std::string ReasonOf(const v1::Job& job, absl::Time now) {
  std::vector<std::string> reasons = {SaveTroubleText(job, now), CopyTroubleText(job),
                                      job.reason()};
  reasons.erase(std::remove(reasons.begin(), reasons.end(), ""), reasons.end());
  return absl::StrJoin(reasons, "; ");
}

}  // namespace

std::string JobTable(const std::vector<v1::Job>& jobs, absl::Time now, const PageStyle& style) {
  const bool checkpoints = std::any_of(jobs.begin(), jobs.end(),
                                       [](const v1::Job& job) { return job.has_checkpoints(); });
  const bool labels = style.wide && std::any_of(jobs.begin(), jobs.end(), [](const v1::Job& job) {
                        return !job.spec().labels().empty();
                      });
  Table table(Columns(checkpoints, labels, style.wide));
  for (const v1::Job& job : jobs) {
    const bool stepped = job.progress().step() > 0;
    const double run = RunSeconds(job, now);
    std::vector<Table::Cell> row = {job.id(),
                                    job.spec().name(),
                                    {StateText(job.state()), StateColour(job.state())},
                                    RanksText(job),
                                    StepsDoneText(job),
                                    stepped ? KnownLossText(job.progress().loss()) : "",
                                    stepped ? RateText(job.progress().samples_per_s()) : "",
                                    run >= 0 ? DurationText(run) : ""};
    if (checkpoints) row.emplace_back(NewestText(job, now));
    if (style.wide) {
      row.insert(row.end(), {QueueOf(job), job.submitter(), ModelText(job.spec()), NodesOf(job),
                             absl::StrCat(job.restarts()), AgeOf(job, now)});
    }
    if (labels) row.emplace_back(LabelsText(job.spec()));
    row.emplace_back(ReasonOf(job, now));
    table.Add(std::move(row));
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

std::string QueueTable(const std::vector<v1::Job>& jobs, absl::Time now, const PageStyle& style) {
  struct Queue {
    int waiting = 0;
    int training = 0;
    int64_t ranks = 0;
    const v1::Job* oldest = nullptr;
  };
  std::map<std::string, Queue> queues;
  for (const v1::Job& job : jobs) {
    if (HasEnded(job.state())) continue;
    Queue& queue = queues[QueueOf(job)];
    if (job.state() != v1::QUEUED) {
      ++queue.training;
      queue.ranks += RanksNow(job);
      continue;
    }
    ++queue.waiting;
    const auto since = [](const v1::Job& j) {
      return TimeOf(j.has_create_time(), j.create_time());
    };
    if (queue.oldest == nullptr || since(job) < since(*queue.oldest)) queue.oldest = &job;
  }
  Table table({{"QUEUE"},
               {"WAITING", true},
               {"TRAINING", true},
               {"RANKS", true},
               {"OLDEST", true},
               {"JOB"},
               {"WAITS FOR"}});
  for (const auto& [name, queue] : queues) {
    const v1::Job* oldest = queue.oldest;
    table.Add({name, absl::StrCat(queue.waiting), absl::StrCat(queue.training),
               absl::StrCat(queue.ranks), oldest == nullptr ? "" : AgeOf(*oldest, now),
               oldest == nullptr ? "" : oldest->id(), oldest == nullptr ? "" : oldest->reason()});
  }
  return table.Rendered(style.width, style.colours, style.headings);
}

std::string QueueOf(const v1::Job& job) {
  return job.spec().queue().empty() ? "default" : job.spec().queue();
}

}  // namespace paceline
