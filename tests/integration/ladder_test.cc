// Ladders and profiles of real ranks, changed and requested while the job trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using Levels = std::vector<std::pair<int64_t, int>>;  // Period and size.

void AddLevels(const Levels& levels, google::protobuf::RepeatedPtrField<v1::LadderLevel>* ladder) {
  for (const auto& [period, size] : levels) {
    v1::LadderLevel* level = ladder->Add();
    level->set_period(period);
    level->set_size(size);
  }
}

// A job that lasts until it is stopped; one step takes some 10 ms.
v1::JobSpec Job(const TestCluster& cluster, int ranks, const Levels& levels) {
  v1::JobSpec spec = cluster.SmallJob(ranks, 1000000);
  spec.mutable_data()->clear_eval();
  spec.set_log_every(10);
  if (!levels.empty()) {
    AddLevels(levels, spec.mutable_strategy()->mutable_hsgd()->mutable_ladder());
  }
  spec.set_allow_chaos(true);
  v1::Fault* slow = spec.add_chaos();
  slow->set_rank(-1);
  slow->set_kind(v1::SLEEP);
  slow->set_seconds(0.005);
  slow->set_steps(spec.steps());
  return spec;
}

grpc::Status ChangeLadder(TestCluster& cluster, const std::string& id, const Levels& levels) {
  static int requests = 0;
  grpc::ClientContext context;
  v1::ChangeLadderRequest request;
  request.set_job(id);
  request.set_request_id("ladder-" + std::to_string(++requests));
  AddLevels(levels, request.mutable_ladder());
  v1::Job job;
  return v1::JobService::NewStub(cluster.channel())->ChangeLadder(&context, request, &job);
}

v1::Job WaitForVersion(TestCluster& cluster, const std::string& id, int64_t version) {
  return cluster.WaitUntil(
      id, [=](const v1::Job& job) { return job.plan().active_version() == version; });
}

void Cancel(TestCluster& cluster, const std::string& id) {
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job(id);
  request.set_request_id("cancel-" + id);
  v1::Job job;
  EXPECT_TRUE(v1::JobService::NewStub(cluster.channel())->Cancel(&context, request, &job).ok());
  EXPECT_EQ(cluster.WaitForEnd(id).state(), v1::CANCELLED);
}

// What a rank's log says of each version, without the time: "step=128 ladder=2:2,8:8".
std::map<int64_t, std::string> Versions(TestCluster& cluster, const std::string& id, int rank) {
  std::map<int64_t, std::string> versions;
  std::istringstream lines(cluster.Log(id, rank));
  std::string line;
  const std::string mark = " plan version=";
  while (std::getline(lines, line)) {
    const size_t at = line.find(mark);
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + mark.size()));
    int64_t version = 0;
    words >> version >> std::ws;
    std::string rest;
    std::getline(words, rest);
    EXPECT_TRUE(versions.emplace(version, rest).second) << "version " << version << " twice";
  }
  return versions;
}

TEST(LadderTest, ChangesThreeTimesAndEveryRankSwitchesAtTheSameStep) {
  constexpr int kRanks = 8;
  TestCluster cluster(/*workers=*/4, /*slots=*/2);
  const std::string id = cluster.Submit(Job(cluster, kRanks, {{2, 2}, {4, 8}})).id();
  WaitForVersion(cluster, id, 1);
  cluster.WaitForSteps(id, 10);

  const std::vector<Levels> ladders = {{{2, 2}, {4, 4}, {8, 8}}, {{4, 8}}, {{3, 4}, {6, 8}}};
  std::vector<int64_t> since;
  for (size_t i = 0; i < ladders.size(); ++i) {
    const grpc::Status status = ChangeLadder(cluster, id, ladders[i]);
    ASSERT_TRUE(status.ok()) << status.error_message();
    if (i == 1) {
      cluster.KillController();
      cluster.StartController();
    }
    const v1::Job job = WaitForVersion(cluster, id, static_cast<int64_t>(i) + 2);
    since.push_back(job.plan().active_since_step());
    cluster.WaitForSteps(id, since.back() + 20);
  }
  Cancel(cluster, id);

  const std::map<int64_t, std::string> first = Versions(cluster, id, 0);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first.at(2), "step=" + std::to_string(since[0]) + " ladder=2:2,4:4,8:8");
  EXPECT_EQ(first.at(3), "step=" + std::to_string(since[1]) + " ladder=4:8");
  EXPECT_EQ(first.at(4), "step=" + std::to_string(since[2]) + " ladder=3:4,6:8");
  for (int rank = 1; rank < kRanks; ++rank) {
    EXPECT_EQ(Versions(cluster, id, rank), first) << "rank " << rank;
  }
}

TEST(LadderTest, WhatCannotBeIsRefusedAndTheJobTrainsOn) {
  TestCluster cluster;
  const std::string id = cluster.Submit(Job(cluster, 4, {{1000, 4}})).id();
  WaitForVersion(cluster, id, 1);
  const grpc::Status unfit = ChangeLadder(cluster, id, {{2, 3}});
  EXPECT_EQ(unfit.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(unfit.error_message(), HasSubstr("ladder[0].size"));
  // The ranks are equal again only after 1000 steps.
  ASSERT_TRUE(ChangeLadder(cluster, id, {{2, 4}}).ok());
  const grpc::Status pending = ChangeLadder(cluster, id, {{4, 4}});
  EXPECT_EQ(pending.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(pending.error_message(), HasSubstr("has not been taken up"));
  const int64_t step = cluster.Get(id).progress().step();
  cluster.WaitForSteps(id, step + 5);
  Cancel(cluster, id);
  EXPECT_EQ(ChangeLadder(cluster, id, {{4, 4}}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);

  const std::string ddp = cluster.Submit(Job(cluster, 2, {})).id();
  const grpc::Status fixed = ChangeLadder(cluster, ddp, {{4, 2}});
  EXPECT_EQ(fixed.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(fixed.error_message(), HasSubstr("ddp"));
  Cancel(cluster, ddp);
}

TEST(ProfileTest, TwoOfFourRanksTraceTheSameSteps) {
  TestCluster cluster;
  v1::JobSpec spec = Job(cluster, 4, {});
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/checkpoints");
  const std::string id = cluster.Submit(spec).id();
  cluster.WaitForSteps(id, 20);
  grpc::ClientContext context;
  v1::ProfileJobRequest request;
  request.set_job(id);
  request.set_request_id("profile");
  request.add_ranks(1);
  request.add_ranks(2);
  v1::Job asked;
  const grpc::Status status =
      v1::JobService::NewStub(cluster.channel())->Profile(&context, request, &asked);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::ProfileRequest order = asked.profile().request();
  const v1::Job job = cluster.WaitUntil(id, [](const v1::Job& j) {
    return j.ranks(1).profile().id() == 1 && j.ranks(2).profile().id() == 1;
  });
  for (const int rank : {1, 2}) {
    const v1::ProfileResult& result = job.ranks(rank).profile();
    EXPECT_EQ(result.error(), "");
    EXPECT_EQ(result.first_step(), order.first_step());
    EXPECT_EQ(result.steps(), 3);
    EXPECT_GT(result.dump_s(), 0);
    EXPECT_THAT(result.trace(), HasSubstr("/checkpoints/" + id + "/profiles/1/"));
    std::ifstream file(result.trace());
    const nlohmann::json trace = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(trace.is_discarded()) << result.trace();
    EXPECT_FALSE(trace["traceEvents"].empty());
  }
  EXPECT_NE(job.ranks(1).profile().trace(), job.ranks(2).profile().trace());
  EXPECT_FALSE(job.ranks(0).has_profile());
  EXPECT_THAT(cluster.HttpGet("w0/address", "/metrics"),
              HasSubstr("paceline_trainer_memory_rss_bytes{"));
  Cancel(cluster, id);
}

}  // namespace
}  // namespace paceline
