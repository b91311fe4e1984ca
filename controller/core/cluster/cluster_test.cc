#include "controller/core/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/core/testing/node_facts.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JobRequest Request(const char* id, int ranks) {
  return {JobId(id), "digits", ranks, Device::kCpu, "spec"};
}

TrainerReport Report(const char* job, int rank, TrainerState state) {
  TrainerReport report;
  report.id = {JobId(job), Generation(1), Rank(rank)};
  report.state = state;
  report.pid = 100 + rank;
  report.store_address = "a:1";
  if (state == TrainerState::kExited) report.exit = TrainerExit();
  return report;
}

class ClusterTest : public ::testing::Test {
 protected:
  const Job& job(const char* id) { return cluster_.jobs().at(JobId(id)); }

  Cluster cluster_{Cluster::Options()};
};

TEST_F(ClusterTest, JobIsStoredBeforeItsNodesAreTold) {
  cluster_.Step(NodeConnected{Facts("a", 2), {}}, At(0));
  const Actions actions = cluster_.Step(JobSubmitted{Request("job-1", 2)}, At(1));
  EXPECT_THAT(actions.store_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a")));
  EXPECT_EQ(job("job-1").state, JobState::kStarting);
  const auto plan = cluster_.PlanFor(NodeName("a"));
  ASSERT_THAT(plan, SizeIs(2));
  EXPECT_EQ(plan[1].id.rank, Rank(1));
  EXPECT_EQ(plan[1].slot, 1);
  EXPECT_EQ(plan[1].job->ranks.size(), 2u);
  EXPECT_EQ(plan[1].store_address, "");
  EXPECT_EQ(plan[1].job->request.spec, "spec");
}

// When a job of thousands of ranks ends, they end one by one.
TEST_F(ClusterTest, EndOfOneRankIsStoredAndToldToItsOwnNode) {
  for (const char* node : {"a", "b"}) cluster_.Step(NodeConnected{Facts(node, 1), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 2)}, At(1));
  for (const int rank : {0, 1}) {
    const NodeName node(rank == 0 ? "a" : "b");
    cluster_.Step(NodeReported{node, {Report("job-1", rank, TrainerState::kRunning)}}, At(2));
  }
  const auto end = [&](const char* node, int rank) {
    return cluster_.Step(
        NodeReported{NodeName(node), {Report("job-1", rank, TrainerState::kExited)}}, At(3));
  };
  const Actions first = end("b", 1);
  EXPECT_THAT(first.store_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(first.show_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(first.changed_jobs, IsEmpty()) << "watchers hear of it as of progress";
  EXPECT_THAT(first.send_plans, ElementsAre(NodeName("b")));
  const Actions last = end("a", 0);
  EXPECT_EQ(job("job-1").state, JobState::kSucceeded);
  EXPECT_THAT(last.changed_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(last.send_plans, ElementsAre(NodeName("a"), NodeName("b")));
}

TEST_F(ClusterTest, PlanNamesTheStoreOnceAllRanksAreReady) {
  cluster_.Step(NodeConnected{Facts("a", 2), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 2)}, At(1));
  cluster_.Step(NodeReported{NodeName("a"),
                             {Report("job-1", 0, TrainerState::kReady),
                              Report("job-1", 1, TrainerState::kReady)}},
                At(2));
  EXPECT_EQ(cluster_.PlanFor(NodeName("a"))[0].store_address, "a:1");
}

TEST_F(ClusterTest, TrainerThatAReportNamesTwiceIsTakenInOnce) {
  cluster_.Step(NodeConnected{Facts("a", 1), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  cluster_.Step(NodeReported{NodeName("a"),
                             {Report("job-1", 0, TrainerState::kReady),
                              Report("job-1", 0, TrainerState::kExited)}},
                At(2));
  EXPECT_EQ(job("job-1").ranks[0].report.state, TrainerState::kReady);
}

TEST_F(ClusterTest, RanksKeepTheRackThatTheirNodeHadWhenTheyWerePlaced) {
  NodeFacts facts = Facts("a", 1);
  facts.labels["rack"] = "r1";
  cluster_.Step(NodeConnected{facts, {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  facts.labels["rack"] = "r2";
  cluster_.Step(NodeConnected{facts, {}}, At(2));
  EXPECT_EQ(job("job-1").ranks[0].slot.rack, "r1");
}

TEST_F(ClusterTest, JobThatNeedsALaterWorkerStartsAfterTheUpgrade) {
  NodeFacts facts = Facts("a", 1);
  cluster_.Step(NodeConnected{facts, {}}, At(0));
  JobRequest request = Request("job-1", 1);
  request.placement.needs.Add(1, "outer steps");
  cluster_.Step(JobSubmitted{request}, At(1));
  EXPECT_EQ(job("job-1").state, JobState::kQueued);
  EXPECT_THAT(job("job-1").reason,
              HasSubstr("1 on nodes that need a worker of this release, for outer steps: upgrade "
                        "paceline-worker there (a)"));
  cluster_.Step(NodeDisconnected{NodeName("a")}, At(2));
  facts.spec_version = 1;
  cluster_.Step(NodeConnected{facts, {}}, At(3));
  EXPECT_EQ(job("job-1").state, JobState::kStarting);
}

TEST_F(ClusterTest, QueueIsServedInOrderAndEachJobSaysWhatItWaitsFor) {
  cluster_.Step(NodeConnected{Facts("a", 2), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  cluster_.Step(JobSubmitted{Request("job-2", 2)}, At(2));
  cluster_.Step(JobSubmitted{Request("job-3", 1)}, At(3));
  EXPECT_EQ(job("job-2").state, JobState::kQueued);
  EXPECT_THAT(job("job-2").reason, HasSubstr("waits for 2 slots: 1 free now"));
  EXPECT_EQ(job("job-3").state, JobState::kQueued);
  EXPECT_THAT(job("job-3").reason, HasSubstr("waits behind job-2"));

  const Actions actions = cluster_.Step(
      NodeReported{NodeName("a"), {Report("job-1", 0, TrainerState::kExited)}}, At(4));
  EXPECT_EQ(job("job-1").state, JobState::kSucceeded);
  EXPECT_EQ(job("job-2").state, JobState::kStarting);
  EXPECT_THAT(actions.store_jobs, ElementsAre(JobId("job-1"), JobId("job-2")));
  EXPECT_THAT(cluster_.PlanFor(NodeName("a")), SizeIs(2)) << "the ended job's trainer is dropped";
}

TEST_F(ClusterTest, CancelReachesTheTrainersThroughThePlan) {
  cluster_.Step(NodeConnected{Facts("a", 1), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  const Actions actions =
      cluster_.Step(CancelRequested{JobId("job-1"), "by hand", absl::Seconds(3)}, At(2));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a")));
  EXPECT_EQ(cluster_.PlanFor(NodeName("a"))[0].stop_grace, absl::Seconds(3));
  EXPECT_EQ(cluster_.NextDeadline(), At(2 + 3 + 1).steady);
}

TEST_F(ClusterTest, JobsOnOneNodeShareNoGpu) {
  NodeFacts facts = Facts("a", 0);
  facts.gpus = {"H200", "H200", "H200"};
  cluster_.Step(NodeConnected{facts, {}}, At(0));
  for (const char* id : {"job-1", "job-2"}) {
    JobRequest request = Request(id, id[4] - '0');
    request.device = Device::kCuda;
    cluster_.Step(JobSubmitted{request}, At(1));
  }
  std::vector<int> gpus;
  for (const PlannedTrainer& trainer : cluster_.PlanFor(NodeName("a"))) {
    gpus.push_back(trainer.slot);
  }
  EXPECT_THAT(gpus, ElementsAre(0, 1, 2));
}

TEST_F(ClusterTest, UnreachableNodeKeepsItsRanksAndTakesNoOthers) {
  cluster_.Step(NodeConnected{Facts("a", 2), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  EXPECT_EQ(cluster_.NextDeadline(), At(10).steady);
  const Actions actions = cluster_.Step(TimePassed{}, At(10));
  EXPECT_THAT(actions.show_nodes, ElementsAre(NodeName("a")));
  EXPECT_EQ(job("job-1").state, JobState::kStarting);
  cluster_.Step(JobSubmitted{Request("job-2", 1)}, At(11));
  EXPECT_EQ(job("job-2").state, JobState::kQueued);
  cluster_.Step(NodeReported{NodeName("a"), {}}, At(12));
  EXPECT_EQ(job("job-2").state, JobState::kStarting);
}

TEST_F(ClusterTest, JobsThatEndedAreForgottenByTheirNumberAlone) {
  Cluster::Options options;
  options.ended_jobs_kept = 1;
  Cluster cluster(options);
  cluster.Step(NodeConnected{Facts("a", 1), {}}, At(0));
  for (const char* id : {"job-1", "job-2", "job-3"}) {
    cluster.Step(JobSubmitted{Request(id, 1)}, At(1));
  }
  cluster.Step(CancelRequested{JobId("job-2"), "", absl::ZeroDuration()}, At(2));
  EXPECT_EQ(cluster.jobs().size(), 3u);
  const Actions actions =
      cluster.Step(CancelRequested{JobId("job-3"), "", absl::ZeroDuration()}, At(3));
  EXPECT_THAT(actions.delete_jobs, ElementsAre(JobId("job-2")));
  EXPECT_EQ(cluster.jobs().size(), 2u);
}

TEST_F(ClusterTest, JobsAreKnownByNameUntilTheyAreForgotten) {
  Cluster::Options options;
  options.ended_jobs_kept = 1;
  Cluster cluster(options);
  EXPECT_EQ(cluster.JobsNamed("digits"), nullptr);
  for (const char* id : {"job-1", "job-2", "job-3"}) {
    cluster.Step(JobSubmitted{Request(id, 1)}, At(1));
  }
  const std::string name = cluster.jobs().begin()->second.request.name;
  ASSERT_NE(cluster.JobsNamed(name), nullptr);
  EXPECT_EQ(cluster.JobsNamed(name)->size(), 3u);
  EXPECT_EQ(cluster.JobsNamed(name)->rbegin()->second->request.id, JobId("job-3"));
  cluster.Step(CancelRequested{JobId("job-3"), "", absl::ZeroDuration()}, At(2));
  cluster.Step(CancelRequested{JobId("job-1"), "", absl::ZeroDuration()}, At(3));
  ASSERT_EQ(cluster.jobs().size(), 2u);
  EXPECT_EQ(cluster.JobsNamed(name)->rbegin()->second->request.id, JobId("job-2"));
  cluster.Step(CancelRequested{JobId("job-2"), "", absl::ZeroDuration()}, At(4));
  EXPECT_EQ(cluster.JobsNamed(name)->size(), 1u);
}

TEST_F(ClusterTest, JobsThatEndedAreForgottenByTheirRanksTooButTheNewest) {
  Cluster::Options options;
  options.ended_ranks_kept = 3;
  Cluster cluster(options);
  cluster.Step(NodeConnected{Facts("a", 4), {}}, At(0));
  const auto run = [&](const char* id, int ranks, double at) {
    cluster.Step(JobSubmitted{Request(id, ranks)}, At(at));
    EXPECT_EQ(cluster.jobs().at(JobId(id)).ranks.size(), static_cast<size_t>(ranks));
    std::vector<TrainerReport> reports;
    for (const RankState& rank : cluster.jobs().at(JobId(id)).ranks) {
      reports.push_back(rank.report);
      reports.back().state = TrainerState::kExited;
      reports.back().exit = TrainerExit();
    }
    return cluster.Step(NodeReported{NodeName("a"), reports}, At(at + 1));
  };
  run("job-1", 1, 1);
  EXPECT_TRUE(run("job-2", 2, 3).delete_jobs.empty());
  EXPECT_THAT(run("job-3", 1, 5).delete_jobs, ElementsAre(JobId("job-1")));
  EXPECT_THAT(run("job-4", 4, 7).delete_jobs, ElementsAre(JobId("job-2"), JobId("job-3")));
  EXPECT_EQ(cluster.jobs().size(), 1u);
}

TEST_F(ClusterTest, JobsThatHaveNotEndedAreBoundedPerSubmitterAndInAll) {
  Cluster::Options options;
  options.open_jobs = 3;
  options.open_jobs_per_submitter = 2;
  Cluster cluster(options);
  const auto refused = [&](const char* submitter) {
    const std::optional<Refusal> refusal = cluster.RefuseOpenJob(submitter);
    if (!refusal.has_value()) return std::string();
    EXPECT_EQ(refusal->kind, Refusal::Kind::kLimit);
    return absl::StrCat(refusal->reason, ": ", refusal->message);
  };
  cluster.Step(JobSubmitted{Request("job-1", 1), "ann"}, At(1));
  EXPECT_EQ(refused("ann"), "");
  cluster.Step(JobSubmitted{Request("job-2", 1), "ann"}, At(2));
  EXPECT_THAT(refused("ann"), AllOf(HasSubstr("TOO_MANY_OWN_JOBS: ann has 2 jobs"),
                                    HasSubstr("--jobs-per-submitter is 2")));
  EXPECT_EQ(refused("bob"), "");
  EXPECT_EQ(refused(""), "");
  // Ended jobs no longer count, not even after a restart.
  cluster.Step(CancelRequested{JobId("job-1"), "", absl::ZeroDuration()}, At(3));
  EXPECT_EQ(refused("ann"), "");
  cluster.Step(JobSubmitted{Request("job-3", 1), "ann"}, At(4));
  Cluster again(options);
  again.Restore({cluster.jobs().at(JobId("job-1")), cluster.jobs().at(JobId("job-2")),
                 cluster.jobs().at(JobId("job-3"))},
                {}, At(5));
  EXPECT_TRUE(again.RefuseOpenJob("ann").has_value());

  cluster.Step(JobSubmitted{Request("job-4", 1), ""}, At(5));
  EXPECT_THAT(refused("bob"), HasSubstr("TOO_MANY_JOBS: there are 3 jobs"));
}

TEST_F(ClusterTest, PriorityOfSubmittersIsBoundedByQueue) {
  Cluster::Options options;
  options.queues["research"].submitter_priority = 10;
  const Cluster cluster(options);
  JobRequest request = Request("job-1", 1);
  EXPECT_FALSE(cluster.RefusePriority(request).has_value());
  request.priority = -5;
  EXPECT_FALSE(cluster.RefusePriority(request).has_value());
  request.priority = 1;
  const std::optional<Refusal> refused = cluster.RefusePriority(request);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->reason, absl::string_view("PRIORITY_TOO_HIGH"));
  EXPECT_THAT(refused->message, HasSubstr("at most 0 in queue default"));
  request.queue = "research";
  request.priority = 10;
  EXPECT_FALSE(cluster.RefusePriority(request).has_value());
  request.priority = 11;
  EXPECT_TRUE(cluster.RefusePriority(request).has_value());
}

TEST_F(ClusterTest, NoLimitOfJobsIsZero) {
  Cluster::Options options;
  options.open_jobs = 0;
  options.open_jobs_per_submitter = 0;
  Cluster cluster(options);
  cluster.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  EXPECT_FALSE(cluster.RefuseOpenJob("").has_value());
}

TEST_F(ClusterTest, NodeThatComesBackWithAnotherStateHasLostItsTrainers) {
  cluster_.Step(NodeConnected{Facts("a", 1, "one"), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  cluster_.Step(NodeConnected{Facts("a", 1, "one"), {}}, At(2));
  EXPECT_EQ(job("job-1").state, JobState::kStarting) << "the same worker, restarted";
  cluster_.Step(NodeConnected{Facts("a", 1, "two"), {}}, At(3));
  EXPECT_EQ(job("job-1").state, JobState::kFailed);
}

TEST_F(ClusterTest, RestoredClusterGoesOnWhereItWas) {
  cluster_.Step(NodeConnected{Facts("a", 2), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  cluster_.Step(NodeReported{NodeName("a"), {Report("job-1", 0, TrainerState::kRunning)}}, At(2));

  Cluster again{Cluster::Options()};
  again.Restore({job("job-1")}, {cluster_.nodes().at(NodeName("a"))}, At(100));
  EXPECT_EQ(again.nodes().at(NodeName("a")).state, NodeState::kUnreachable);
  again.Step(NodeConnected{Facts("a", 2), {Report("job-1", 0, TrainerState::kRunning)}}, At(101));
  EXPECT_EQ(again.jobs().at(JobId("job-1")).state, JobState::kRunning);
  ASSERT_THAT(again.PlanFor(NodeName("a")), SizeIs(1));
  again.Step(JobSubmitted{Request("job-2", 1)}, At(102));
  EXPECT_GT(again.jobs().at(JobId("job-2")).number, again.jobs().at(JobId("job-1")).number);
}

TEST_F(ClusterTest, OldestEndedJobsAreForgotten) {
  Cluster small{Cluster::Options{/*ended_jobs_kept=*/1}};
  for (const char* id : {"job-1", "job-2"}) {
    small.Step(JobSubmitted{Request(id, 1)}, At(1));
    small.Step(CancelRequested{JobId(id), "", absl::ZeroDuration()}, At(id[4] - '0'));
  }
  EXPECT_THAT(small.jobs(), SizeIs(1));
  EXPECT_EQ(small.jobs().begin()->first, JobId("job-2"));
}

// Expects that each job of jobs() is found, and none of `absent`.
void ExpectAllFound(const Cluster& cluster, const std::set<std::string>& absent) {
  for (const auto& [id, job] : cluster.jobs()) {
    EXPECT_EQ(cluster.FindJob(id), &job) << id.value();
  }
  for (const std::string& id : absent) EXPECT_EQ(cluster.FindJob(JobId(id)), nullptr) << id;
}

TEST_F(ClusterTest, JobsAreFoundAsLongAsTheyAreThere) {
  Cluster small{Cluster::Options{/*ended_jobs_kept=*/1}};
  const auto submit = [&](const std::string& id, double at) {
    small.Step(JobSubmitted{Request(id.c_str(), 1)}, At(at));
  };
  const auto end = [&](const char* id, double at) {
    small.Step(CancelRequested{JobId(id), "", absl::ZeroDuration()}, At(at));
  };
  ExpectAllFound(small, {"job-1", ""});
  for (int number = 1; number <= 100; ++number) submit(absl::StrCat("job-", number), 1);
  EXPECT_THAT(small.jobs(), SizeIs(100));
  ExpectAllFound(small, {"job-0", "job-101", ""});
  end("job-1", 2);
  ExpectAllFound(small, {});
  end("job-2", 3);
  ExpectAllFound(small, {"job-1"});
  // After a forgotten job, reports with its id are about the new job that has it.
  submit("job-1", 4);
  ExpectAllFound(small, {});
  EXPECT_EQ(small.FindJob(JobId("job-1"))->state, JobState::kQueued);
  const Job* const before = small.FindJob(JobId("job-1"));
  submit("job-1", 5);
  EXPECT_EQ(small.FindJob(JobId("job-1")), before) << "there is one with its id already";
  ExpectAllFound(small, {});
}

TEST_F(ClusterTest, RestoredJobsAreFound) {
  cluster_.Step(NodeConnected{Facts("a", 1), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  cluster_.Step(JobSubmitted{Request("job-2", 1)}, At(2));
  Cluster again{Cluster::Options()};
  again.Restore({job("job-1"), job("job-2")}, {cluster_.nodes().at(NodeName("a"))}, At(3));
  ExpectAllFound(again, {"job-3"});
  EXPECT_EQ(again.FindJob(JobId("job-1"))->state, JobState::kStarting);
  again.Step(NodeConnected{Facts("a", 1), {Report("job-1", 0, TrainerState::kRunning)}}, At(4));
  EXPECT_EQ(again.FindJob(JobId("job-1"))->state, JobState::kRunning);
}

TEST_F(ClusterTest, ReportsOfUnknownJobsAndNodesAreIgnored) {
  const Actions actions = cluster_.Step(
      NodeReported{NodeName("ghost"), {Report("job-9", 0, TrainerState::kRunning)}}, At(0));
  EXPECT_THAT(actions.show_nodes, IsEmpty());
  EXPECT_THAT(cluster_.nodes(), IsEmpty());
}

TEST_F(ClusterTest, JobOfAHigherPriorityDisplacesOneThatSavesAndTakesItsPlace) {
  cluster_.Step(NodeConnected{Facts("a", 1), {}}, At(0));
  JobRequest low = Request("job-1", 1);
  low.checkpoints.directory = "/checkpoints";
  cluster_.Step(JobSubmitted{low}, At(1));
  cluster_.Step(NodeReported{NodeName("a"), {Report("job-1", 0, TrainerState::kRunning)}}, At(2));
  JobRequest high = Request("job-2", 1);
  high.priority = 1;
  Actions actions = cluster_.Step(JobSubmitted{high}, At(3));
  EXPECT_THAT(actions.store_jobs, ElementsAre(JobId("job-1"), JobId("job-2")));
  EXPECT_THAT(actions.send_plans, ElementsAre(NodeName("a")));
  ASSERT_TRUE(job("job-1").checkpoints.stop_after.has_value());
  EXPECT_THAT(job("job-1").reason, HasSubstr("preempted by job job-2 (digits)"));
  EXPECT_THAT(cluster_.Why(job("job-2"), At(3).wall),
              Contains(HasSubstr("Room is made there by job job-1")));
  actions = cluster_.Step(NodeReported{NodeName("a"), {}}, At(4));
  EXPECT_THAT(actions.show_jobs, IsEmpty()) << "nothing has changed";
}

TEST_F(ClusterTest, SparesStartWithTheRanks) {
  cluster_.Step(NodeConnected{Facts("a", 2), {}}, At(0));
  cluster_.Step(NodeConnected{Facts("b", 1), {}}, At(0));
  JobRequest request = Request("job-1", 2);
  request.recovery.max_failures = 1;
  request.spares = 1;
  cluster_.Step(JobSubmitted{request}, At(1));
  ASSERT_THAT(job("job-1").spares, SizeIs(1));
  EXPECT_EQ(job("job-1").spares[0].slot.node, NodeName("b"));
  cluster_.Step(JobSubmitted{Request("job-2", 1)}, At(2));
  EXPECT_EQ(job("job-2").state, JobState::kQueued) << "the spare keeps its slot";
}

TEST_F(ClusterTest, SlotsOfARestoredJobAreGivenToOthersWhenItEnds) {
  cluster_.Step(NodeConnected{Facts("a", 1), {}}, At(0));
  cluster_.Step(JobSubmitted{Request("job-1", 1)}, At(1));
  cluster_.Step(JobSubmitted{Request("job-2", 1)}, At(2));
  const NodeName a("a");
  cluster_.Step(NodeReported{a, {Report("job-1", 0, TrainerState::kRunning)}}, At(3));
  Cluster again{Cluster::Options()};
  again.Restore({job("job-1"), job("job-2")}, {cluster_.nodes().at(a)}, At(4));
  again.Step(NodeConnected{Facts("a", 1), {Report("job-1", 0, TrainerState::kRunning)}}, At(5));
  again.Step(NodeReported{a, {Report("job-1", 0, TrainerState::kExited)}}, At(6));
  EXPECT_EQ(again.jobs().at(JobId("job-2")).state, JobState::kStarting);
}

}  // namespace
}  // namespace paceline
