#include "controller/store/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/core/labels.h"
#include "controller/core/job/plan.h"
#include "controller/store/meta_keys.h"
#include "controller/store/record.pb.h"
#include "controller/store/testing/memory_store.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_plan.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

const Moment kNow{absl::UnixEpoch(), absl::FromUnixSeconds(1700000000)};

// A running job with one failed rank, stopping.
Job StoppingJob() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.set_ranks(2);
  spec.mutable_strategy()->mutable_local_sgd()->set_period(4);
  Job job = NewJob(FromProto(JobId("job-1"), spec), 7, kNow);
  job.submitter = "ann";
  ChangePlan(job, {});
  PlaceJob(job, {{NodeName("a"), 0, "r1"}, {NodeName("a"), 1, "r1"}}, kNow);
  job.profile = JobProfile{3, 40, 5, true, {Rank(1)}};
  for (int r = 0; r < 2; ++r) {
    TrainerReport report;
    report.id = {JobId("job-1"), Generation(1), Rank(r)};
    report.state = TrainerState::kRunning;
    report.pid = 40 + r;
    report.store_address = "host:1";
    report.progress.step = 5;
    report.plan = {PlanVersion(2), PlanVersion(1), 4, PlanVersion(3), "late"};
    v1::RankFigures figures;
    figures.set_tokens_per_s(10);
    report.figures = FromProto(figures);
    v1::ProfileResult profile;
    profile.set_id(2);
    report.profile = FromProto(profile);
    if (r == 1) {
      report.state = TrainerState::kExited;
      report.exit = TrainerExit();
      report.exit->failure = FailureKind::kSignal;
      report.exit->signal = 9;
      report.exit->message = "killed by SIGKILL";
      report.exit->log_tail = "last words\n";
    }
    ApplyReport(job, NodeName("a"), report, kNow);
  }
  return job;
}

TEST(RecordsTest, JobComesBackAsItWas) {
  MemoryStore store;
  const Job job = StoppingJob();
  ASSERT_TRUE(store.Commit({{{JobKey(JobId("job-1")), EncodeJob(job)}}, {}}).ok());
  const auto state = LoadState(store);
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->jobs.size(), 1u);
  const Job& again = state->jobs[0];
  EXPECT_EQ(again.request.id, job.request.id);
  EXPECT_EQ(again.request.spec, job.request.spec);
  EXPECT_EQ(again.number, 7);
  EXPECT_EQ(again.submitter, "ann");
  EXPECT_EQ(again.state, JobState::kStopping);
  EXPECT_EQ(again.reason, job.reason);
  EXPECT_EQ(again.created, job.created);
  EXPECT_EQ(again.placed, job.placed);
  EXPECT_EQ(again.started, absl::InfinitePast());
  EXPECT_EQ(again.generation, Generation(1));
  EXPECT_EQ(again.stop->grace, kFailureGrace);
  EXPECT_EQ(again.failure->rank, Rank(1));
  EXPECT_EQ(again.failure->exit.signal, 9);
  ASSERT_EQ(again.ranks.size(), 2u);
  EXPECT_EQ(again.ranks[1].slot.number, 1);
  EXPECT_EQ(again.ranks[0].report.pid, 40);
  EXPECT_EQ(again.ranks[0].report.progress.step, 5);
  EXPECT_EQ(again.ranks[1].report.exit->log_tail, "last words\n");
  EXPECT_EQ(StoreAddress(again), "host:1");
  EXPECT_TRUE(again.request.strategy.has_ladder);
  EXPECT_EQ(again.plan.version, PlanVersion(2));
  EXPECT_EQ(again.plan.strategy, job.plan.strategy);
  EXPECT_EQ(again.ranks[1].slot.rack, "r1");
  EXPECT_EQ(again.ranks[1].report.plan, job.ranks[1].report.plan);
  EXPECT_EQ(again.ranks[1].report.figures.details, job.ranks[1].report.figures.details);
  EXPECT_EQ(again.ranks[1].report.profile.id, 2);
  EXPECT_EQ(again.profile->id, 3);
  EXPECT_EQ(again.profile->first_step, 40);
  EXPECT_EQ(again.profile->steps, 5);
  EXPECT_TRUE(again.profile->memory);
  EXPECT_EQ(again.profile->ranks, job.profile->ranks);
}

// The spec says nothing of them.
TEST(RecordsTest, OuterStepsOfALaterLadderStillRestrictThePlacement) {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_strategy()->mutable_local_sgd()->set_period(4);
  Job job = NewJob(FromProto(JobId("job-1"), spec), 7, kNow);
  spec.mutable_strategy()->mutable_local_sgd()->mutable_outer()->set_kind(v1::OUTER_NESTEROV);
  JobPlan plan;
  plan.strategy = spec.strategy().SerializeAsString();
  plan.needs = NeedsOf(spec.strategy());
  ChangePlan(job, plan);
  MemoryStore store;
  ASSERT_TRUE(store.Commit({{{JobKey(JobId("job-1")), EncodeJob(job)}}, {}}).ok());
  const auto state = LoadState(store);
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->jobs.size(), 1u);
  EXPECT_EQ(state->jobs[0].request.placement.needs.version, 1);
  EXPECT_THAT(state->jobs[0].request.placement.needs.features,
              ::testing::ElementsAre("outer steps"));
}

TEST(RecordsTest, LabelsAndDescriptionComeBackFromTheSpec) {
  v1::JobSpec spec;
  spec.set_name("digits");
  (*spec.mutable_labels())["team"] = "vision";
  (*spec.mutable_labels())["nightly"] = "";
  spec.set_description("two\nlines");
  MemoryStore store;
  const Job job = NewJob(FromProto(JobId("job-1"), spec), 7, kNow);
  // A job of a release without labels has none.
  const Job earlier = NewJob(FromProto(JobId("job-2"), v1::JobSpec()), 8, kNow);
  ASSERT_TRUE(store
                  .Commit({{{JobKey(JobId("job-1")), EncodeJob(job)},
                            {JobKey(JobId("job-2")), EncodeJob(earlier)}},
                           {}})
                  .ok());
  const auto state = LoadState(store);
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->jobs.size(), 2u);
  EXPECT_EQ(state->jobs[0].request.labels, (JobLabels{{"nightly", ""}, {"team", "vision"}}));
  EXPECT_EQ(state->jobs[0].request.description, "two\nlines");
  EXPECT_TRUE(state->jobs[1].request.labels.empty());
  EXPECT_EQ(state->jobs[1].request.description, "");
}

TEST(RecordsTest, ArtifactsComeBack) {
  Job job = NewJob(FromProto(JobId("job-1"), v1::JobSpec()), 7, kNow);
  Artifact artifact = {"model", "/out/model", true, 7, "ab12", 40, kNow.wall, "late", {}, {}};
  TakeArtifacts(job.artifacts, Rank(3), NodeName("w3"), {artifact});
  job.artifacts.left_out = true;
  MemoryStore store;
  ASSERT_TRUE(store.Commit({{{JobKey(JobId("job-1")), EncodeJob(job)}}, {}}).ok());
  const auto state = LoadState(store);
  ASSERT_TRUE(state.ok()) << state.status();
  JobArtifacts again = state->jobs.at(0).artifacts;
  EXPECT_TRUE(again.left_out);
  ASSERT_EQ(again.by_name.size(), 1u);
  const Artifact& loaded = again.by_name["model"];
  EXPECT_EQ(loaded.path, "/out/model");
  EXPECT_TRUE(loaded.directory);
  EXPECT_EQ(loaded.bytes, 7);
  EXPECT_EQ(loaded.sha256, "ab12");
  EXPECT_EQ(loaded.step, 40);
  EXPECT_EQ(loaded.time, kNow.wall);
  EXPECT_EQ(loaded.error, "late");
  EXPECT_EQ(loaded.rank, Rank(3));
  EXPECT_EQ(loaded.node, NodeName("w3"));
  EXPECT_FALSE(TakeArtifacts(again, Rank(3), NodeName("w3"), {artifact})) << "it is known";
}

TEST(RecordsTest, WhatAJobWasMadeFromComesBackAlsoFromAnEarlierRelease) {
  v1::JobSpec spec;
  spec.set_resume_from("/ckpt/job-0/step-000000000007.g3");
  Job job = NewJob(FromProto(JobId("job-1"), spec), 7, kNow);
  job.origin = "/ckpt/job-9/step-000000000120.g2";  // It was resumed from there.
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeJob(job)));
  EXPECT_EQ(record.job().made_from().job(), "job-9");
  EXPECT_EQ(record.job().made_from().step(), 120);
  EXPECT_EQ(record.job().made_from().generation(), 2);
  const auto load = [](const v1::JobRecord& stored) {
    MemoryStore store;
    EXPECT_TRUE(store.Commit({{{JobKey(JobId("job-1")), stored.SerializeAsString()}}, {}}).ok());
    return LoadState(store)->jobs.at(0).origin;
  };
  EXPECT_EQ(load(record), job.origin);
  record.mutable_job()->clear_made_from();
  EXPECT_EQ(load(record), spec.resume_from());
  record.mutable_job()->mutable_spec()->clear_resume_from();
  EXPECT_EQ(load(record), "");
}

TEST(RecordsTest, JobOfAReleaseWithoutPlansHasItsFirstPlanVersion) {
  v1::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(EncodeJob(StoppingJob())));
  record.mutable_job()->clear_plan();
  MemoryStore store;
  ASSERT_TRUE(store.Commit({{{JobKey(JobId("job-1")), record.SerializeAsString()}}, {}}).ok());
  const auto state = LoadState(store);
  EXPECT_EQ(state->jobs[0].plan.version, PlanVersion(1));
  EXPECT_EQ(state->jobs[0].plan.strategy, state->jobs[0].request.strategy_spec);
}

TEST(RecordsTest, ClusterIdStaysAndStartsAreCounted) {
  MemoryStore store;
  const auto first = LoadState(store);
  const auto second = LoadState(store);
  EXPECT_FALSE(first->cluster_id.empty());
  EXPECT_EQ(second->cluster_id, first->cluster_id);
  EXPECT_EQ(first->starts, 1);
  EXPECT_EQ(second->starts, 2);
}

TEST(RecordsTest, NumbersOfARestoredStateAreAboveThoseOfBefore) {
  MemoryStore store;
  EXPECT_EQ(TermOf(*LoadState(store), 0), 1) << "starts";
  const auto before = LoadState(store);
  EXPECT_EQ(before->last_restored, 0);
  EXPECT_EQ(TermOf(*before, 900), 900);
  // As docs/ha.md says for a snapshot of etcd.
  ASSERT_TRUE(store.Commit({{{kRestoredKey, "195000000"}}, {}}).ok());
  for (const int64_t start : {0, 1}) {
    const auto restored = LoadState(store);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->starts, 195000000 + start);
    EXPECT_EQ(restored->restored, start == 0 ? 195000000 : 0);
    EXPECT_GT(TermOf(*restored, 7), TermOf(*before, int64_t{1} << 31)) << "start " << start;
    EXPECT_GT(TermOf(*restored, 8), TermOf(*restored, 7));
  }
  ASSERT_TRUE(store.Commit({{{kRestoredKey, "soon"}}, {}}).ok());
  EXPECT_EQ(LoadState(store).status().code(), absl::StatusCode::kDataLoss);
}

TEST(RecordsTest, NodesAndRequestsComeBack) {
  Cluster cluster{Cluster::Options()};
  NodeFacts facts;
  facts.name = NodeName("a");
  facts.uid = "uid";
  facts.slots = 3;
  facts.labels = {{"rack", "7"}};
  cluster.Step(NodeConnected{facts, {}}, kNow);
  MemoryStore store;
  ASSERT_TRUE(
      store
          .Commit({{{NodeKey(facts.name), EncodeNode(cluster.nodes().at(facts.name), cluster)},
                    {RequestKey("r"), EncodeRequest({9, JobId("job-1"), kNow.wall})}},
                   {}})
          .ok());
  const auto state = LoadState(store);
  ASSERT_EQ(state->nodes.size(), 1u);
  EXPECT_EQ(state->nodes[0].facts.uid, "uid");
  EXPECT_EQ(state->nodes[0].facts.slots, 3);
  EXPECT_EQ(state->nodes[0].facts.labels.at("rack"), "7");
  EXPECT_EQ(state->requests.at("r").fingerprint, 9u);
  EXPECT_EQ(state->requests.at("r").time, kNow.wall);
}

TEST(RecordsTest, DecisionsComeBackByJobAndId) {
  MemoryStore store;
  WriteBatch batch;
  for (const int64_t id : {100, 20, 3}) {
    RemedyDecision decision;
    decision.id = id;
    decision.reason = absl::StrCat("reason ", id);
    batch.puts[DecisionKey(JobId("job-1"), id)] = EncodeDecision(decision);
  }
  batch.puts[DecisionKey(JobId("job-2"), 1)] = EncodeDecision(RemedyDecision());
  EXPECT_EQ(batch.puts.count("decision/job-1/00000020"), 1u);
  ASSERT_TRUE(store.Commit(batch).ok());
  const auto state = LoadState(store);
  ASSERT_EQ(state->decisions.size(), 2u);
  const std::vector<RemedyDecision>& decisions = state->decisions.at(JobId("job-1"));
  ASSERT_EQ(decisions.size(), 3u);
  EXPECT_EQ(decisions[0].id, 3);
  EXPECT_EQ(decisions[1].reason, "reason 20");
  EXPECT_EQ(decisions[2].id, 100);
}

TEST(RecordsTest, DamagedRecordIsNamed) {
  MemoryStore store;
  ASSERT_TRUE(store.Commit({{{"job/job-1", "\xff\xff"}}, {}}).ok());
  const absl::Status status = LoadState(store).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("job/job-1"));
}

}  // namespace
}  // namespace paceline
