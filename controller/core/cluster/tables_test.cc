#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/cluster/deadlines.h"
#include "controller/core/cluster/job_table.h"
#include "controller/core/cluster/node_table.h"
#include "controller/core/job/ended_jobs.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kChanges = 3000;

Job MakeJob(const JobId& id, int64_t number) {
  JobRequest request;
  request.id = id;
  request.name = absl::StrCat("name-", number % 3);
  request.checkpoints.directory = "/checkpoints";
  return NewJob(request, number, At(0));
}

void ChangeAtRandom(Job& job, std::mt19937& random) {
  constexpr JobState kStates[] = {JobState::kQueued,     JobState::kRunning, JobState::kStopping,
                                  JobState::kRecovering, JobState::kFailed,  JobState::kCancelled};
  job.state = kStates[random() % std::size(kStates)];
  job.ended = At(static_cast<double>(random() % 100)).wall;
  job.nodes.clear();
  for (const char* name : {"a", "b", "c"}) {
    if (random() % 2 == 0) job.nodes.emplace_back(name);
  }
  job.checkpoints.settlement.reset();
  if (random() % 3 == 0) job.checkpoints.settlement.emplace();
  job.stop.reset();
  if (random() % 2 == 0) job.stop = StopOrder{absl::Seconds(1), At(random() % 100).steady};
}

// Expects of each index what a look at all jobs finds.
void ExpectIndexed(const JobTable& table) {
  std::set<JobId> live, queued, recovering;
  std::map<NodeName, std::set<JobId>> on;
  std::set<JobId> with_tasks;
  EndedJobs ended;
  absl::Time deadline = absl::InfiniteFuture();
  for (const auto& [id, job] : table.all()) {
    EXPECT_EQ(table.Find(id), &job);
    EXPECT_EQ(table.Named(job.request.name)->at(job.number), &job);
    deadline = std::min(deadline, NextDeadline(job));
    if (!TasksOf(job).empty()) with_tasks.insert(id);
    if (job.ended_already()) {
      ended.Set(id, job.ended, job.ranks.size());
      continue;
    }
    live.insert(id);
    if (job.state == JobState::kQueued) queued.insert(id);
    if (job.state == JobState::kRecovering) recovering.insert(id);
    for (const NodeName& node : job.nodes) on[node].insert(id);
  }
  EXPECT_EQ(table.NextDeadline(), deadline);
  EXPECT_EQ(table.with_tasks(), with_tasks);
  ASSERT_EQ(table.ended().size(), ended.size());
  EXPECT_EQ(table.ended().ranks(), ended.ranks());
  if (ended.size() > 0) EXPECT_EQ(table.ended().oldest(), ended.oldest());
  EXPECT_EQ(table.queued(), queued);
  EXPECT_EQ(table.recovering(), recovering);
  EXPECT_EQ(table.live().size(), live.size());
  for (const auto& [id, job] : table.live()) {
    EXPECT_EQ(live.count(id), 1u);
    EXPECT_EQ(job, table.Find(id));
  }
  for (const char* name : {"a", "b", "c", "d"}) {
    std::set<JobId> found;
    for (const auto& [id, job] : table.On(NodeName(name))) found.insert(id);
    EXPECT_EQ(found, on[NodeName(name)]) << name;
  }
}

TEST(JobTableTest, IndexesFollowEveryChange) {
  std::mt19937 random(7);
  JobTable table;
  for (int i = 0; i < kChanges; ++i) {
    const JobId id(absl::StrCat("job-", random() % 20));
    switch (random() % 8) {
      case 0:
        if (table.Find(id) == nullptr) table.Insert(MakeJob(id, i));
        break;
      case 1:
        table.Remove(id);
        break;
      case 2:
        for (auto& [other, job] : table.ChangeAll()) ChangeAtRandom(job, random);
        break;
      default:
        if (Job* job = table.Change(id)) ChangeAtRandom(*job, random);
    }
    if (random() % 3 == 0) ExpectIndexed(table);
  }
}

TEST(JobTableTest, AJobThatIsThereAlreadyIsKept) {
  JobTable table;
  Job& first = table.Insert(MakeJob(JobId("job-1"), 1));
  EXPECT_EQ(&table.Insert(MakeJob(JobId("job-1"), 2)), &first);
  EXPECT_EQ(table.all().size(), 1u);
  EXPECT_EQ(table.Find(JobId("job-1"))->number, 1);
}

TEST(JobTableTest, WhatIsNotThereIsNull) {
  JobTable table;
  EXPECT_EQ(table.Find(JobId("job-1")), nullptr);
  EXPECT_EQ(table.Change(JobId("job-1")), nullptr);
  EXPECT_EQ(table.Named("digits"), nullptr);
  EXPECT_EQ(table.NextDeadline(), absl::InfiniteFuture());
  table.Remove(JobId("job-1"));
  EXPECT_THAT(table.live(), IsEmpty());
}

TEST(NodeTableTest, IndexesFollowEveryChange) {
  std::mt19937 random(7);
  NodeTable table;
  int64_t contact_changes = 0;
  std::set<NodeName> was_unreachable;
  for (int i = 0; i < kChanges; ++i) {
    Node& node = table.Insert(NodeName(absl::StrCat("w", random() % 20)));
    node.contact = random() % 2 == 0 ? Contact::kReachable : Contact::kLost;
    node.holds.clear();
    if (random() % 2 == 0) node.holds.emplace_back();
    node.lease_deadline = At(random() % 100).steady;
    if (random() % 3 != 0) continue;
    std::set<NodeName> held, unreachable;
    absl::Time deadline = absl::InfiniteFuture();
    for (const auto& [name, known] : table.all()) {
      EXPECT_EQ(table.Find(name), &known);
      if (!known.holds.empty()) held.insert(name);
      if (known.contact != Contact::kReachable) unreachable.insert(name);
      deadline = std::min(deadline, NextDeadline(known));
    }
    EXPECT_EQ(table.held(), held);
    EXPECT_EQ(table.unreachable(), unreachable);
    EXPECT_EQ(table.NextDeadline(), deadline);
    const int64_t changes = std::exchange(contact_changes, table.contact_changes());
    EXPECT_EQ(changes != contact_changes,
              std::exchange(was_unreachable, unreachable) != unreachable);
  }
}

TEST(NodeTableTest, TheNodesThatAreDueComeByNameAndCountAsChanged) {
  NodeTable table;
  for (const auto& [name, due] : std::map<std::string, int>{{"a", 3}, {"b", 5}, {"c", 1}}) {
    table.Insert(NodeName(name)).facts.name = NodeName(name);
    table.Change(NodeName(name))->lease_deadline = At(due).steady;
  }
  table.BeginStep();
  EXPECT_THAT(table.changed(), IsEmpty());
  std::vector<NodeName> due;
  for (const Node* node : table.ChangeDue(At(4).steady)) due.push_back(node->facts.name);
  EXPECT_THAT(due, ElementsAre(NodeName("a"), NodeName("c")));
  EXPECT_THAT(table.changed(), ElementsAre(NodeName("a"), NodeName("c")));
  EXPECT_EQ(table.NextDeadline(), At(1).steady) << "they have not moved their deadlines";
}

// The parts that indexes are made of.

absl::Time SteadyAt(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(DeadlinesTest, TheFirstOfAllIsNext) {
  Deadlines<std::string> deadlines;
  EXPECT_EQ(deadlines.Next(), absl::InfiniteFuture());
  deadlines.Set("b", SteadyAt(5));
  deadlines.Set("a", SteadyAt(7));
  deadlines.Set("c", SteadyAt(6));
  EXPECT_EQ(deadlines.Next(), SteadyAt(5));
}

TEST(DeadlinesTest, ALaterOneTakesTheEarlierOnesPlace) {
  Deadlines<std::string> deadlines;
  deadlines.Set("a", SteadyAt(5));
  deadlines.Set("b", SteadyAt(6));
  deadlines.Set("a", SteadyAt(9));
  EXPECT_EQ(deadlines.Next(), SteadyAt(6));
  deadlines.Set("b", absl::InfiniteFuture());
  EXPECT_EQ(deadlines.Next(), SteadyAt(9));
  deadlines.Set("a", absl::InfiniteFuture());
  EXPECT_EQ(deadlines.Next(), absl::InfiniteFuture());
}

TEST(DeadlinesTest, WhatIsDueIsTakenOnce) {
  Deadlines<std::string> deadlines;
  deadlines.Set("a", SteadyAt(7));
  deadlines.Set("b", SteadyAt(5));
  deadlines.Set("c", SteadyAt(8));
  EXPECT_THAT(deadlines.TakeDue(SteadyAt(7)), ElementsAre("b", "a"));
  EXPECT_THAT(deadlines.TakeDue(SteadyAt(7)), IsEmpty());
  EXPECT_EQ(deadlines.Next(), SteadyAt(8));
}

TEST(DeadlinesTest, TwoAtTheSameTimeAreTwo) {
  Deadlines<std::string> deadlines;
  deadlines.Set("a", SteadyAt(5));
  deadlines.Set("b", SteadyAt(5));
  deadlines.Set("a", absl::InfiniteFuture());
  EXPECT_EQ(deadlines.Next(), SteadyAt(5));
}

TEST(EndedJobsTest, TheOneThatEndedFirstIsTheOldest) {
  EndedJobs ended;
  ended.Set(JobId("a"), SteadyAt(3), 1);
  ended.Set(JobId("b"), SteadyAt(1), 2);
  ended.Set(JobId("c"), SteadyAt(2), 4);
  EXPECT_EQ(ended.oldest(), JobId("b"));
  EXPECT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended.ranks(), 7u);
}

TEST(EndedJobsTest, OneThatGoesOnIsNotAmongThem) {
  EndedJobs ended;
  ended.Set(JobId("a"), SteadyAt(1), 5);
  ended.Set(JobId("b"), SteadyAt(2), 2);
  ended.Remove(JobId("a"));
  ended.Remove(JobId("unknown"));
  EXPECT_EQ(ended.oldest(), JobId("b"));
  EXPECT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.ranks(), 2u);
}

TEST(EndedJobsTest, OneThatEndsAgainIsAsOldAsItsLastEnd) {
  EndedJobs ended;
  ended.Set(JobId("a"), SteadyAt(1), 5);
  ended.Set(JobId("b"), SteadyAt(2), 1);
  ended.Set(JobId("a"), SteadyAt(3), 8);
  EXPECT_EQ(ended.oldest(), JobId("b"));
  EXPECT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended.ranks(), 9u);
}

}  // namespace
}  // namespace paceline
