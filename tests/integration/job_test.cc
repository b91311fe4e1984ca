// A job from submission to its end, through real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"
#include "worker/trainer/object_store/testing/object_server.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(JobTest, TrainsOnAllNodesToAGoodAccuracy) {
  TestCluster cluster(/*workers=*/2, /*slots=*/2);
  v1::JobSpec spec = cluster.SmallJob(/*ranks=*/4, /*steps=*/60);
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/weights");
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  EXPECT_EQ(job.progress().step(), 60);
  EXPECT_GT(job.progress().samples_per_s(), 0);
  EXPECT_EQ(job.evaluation().step(), 60);
  EXPECT_EQ(job.evaluation().samples(), 64);
  EXPECT_GE(job.evaluation().accuracy(), 0.95);
  EXPECT_EQ(job.ranks(0).node(), "w0");
  EXPECT_EQ(job.ranks(3).node(), "w1");
  EXPECT_TRUE(std::filesystem::exists(
      absl::StrCat(cluster.directory(), "/weights/", job.id(), "/final.safetensors")));

  // The log outlives the trainers.
  const std::string log = cluster.Log(job.id(), 3);
  EXPECT_THAT(log, HasSubstr("step=1 "));
  EXPECT_THAT(log, HasSubstr("step=60 "));
}

TEST(JobTest, TrainsOnAMixtureAndSaysWhatItTookOfEachFile) {
  TestCluster cluster(/*workers=*/2, /*slots=*/1);
  v1::JobSpec spec = cluster.SmallJob(/*ranks=*/2, /*steps=*/16);
  v1::DataSource* most = spec.mutable_data()->add_sources();
  most->set_path(spec.data().train());
  most->set_weight(3);
  v1::DataSource* rest = spec.mutable_data()->add_sources();
  rest->set_path(spec.data().eval());
  rest->set_weight(1);
  spec.mutable_data()->clear_train();
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/weights");
  spec.mutable_checkpoint()->set_sample_ledger(true);
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  // Of 256 samples a quarter are of the second file, which has 64.
  std::vector<std::string> command = {Program("paceline")};
  for (const std::string& flag : cluster.ClientFlags()) command.push_back(flag);
  for (const char* word : {"job", "samples", job.id().c_str(), "--source", "1", "-o", "json"}) {
    command.emplace_back(word);
  }
  const Finished shown = RunToEnd(command);
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  const std::string json = absl::StrReplaceAll(shown.output, {{" ", ""}, {"\n", ""}});
  EXPECT_THAT(json, HasSubstr("\"never\":0,\"once\":64,\"samples\":64,\"source\":1"));
  EXPECT_THAT(json, HasSubstr("\"missing_records\":0"));
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(JobTest, TrainsOnObjectsOfAStoreWhereANodeAllowsThem) {
  ObjectServer store;
  TestNetwork network;
  network.objects = [&store](int w) {
    return w == 1 ? std::vector<std::string>{store.url() + "/data/"} : std::vector<std::string>();
  };
  TestCluster cluster(/*workers=*/2, /*slots=*/1, network);
  v1::JobSpec spec = cluster.SmallJob(/*ranks=*/1, /*steps=*/20);
  for (const char* const path : {"/data/train", "/data-private/train"}) {
    store.Put(path, BytesOf(spec.data().train()));
  }
  store.Put("/data/eval", BytesOf(spec.data().eval()));
  spec.mutable_data()->set_train(store.url() + "/data/train");
  spec.mutable_data()->set_eval(store.url() + "/data/eval");
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  EXPECT_EQ(job.ranks(0).node(), "w1");
  EXPECT_EQ(job.evaluation().samples(), 64);

  spec.mutable_data()->set_train(store.url() + "/data-private/train");
  spec.set_max_restarts(3);
  const v1::Job refused = cluster.WaitForEnd(cluster.Submit(spec).id());
  EXPECT_EQ(refused.state(), v1::FAILED) << refused.DebugString();
  EXPECT_EQ(refused.restarts(), 0);
  EXPECT_THAT(refused.failure().exit().message(),
              HasSubstr("jobs may read objects below " + store.url() + "/data/ on this node"));
  for (const ObjectServer::Request& request : store.requests()) {
    EXPECT_THAT(request.path, StartsWith("/data/"));
  }
}

TEST(JobTest, EvaluationIsAPhaseThatTellsHowFarItIs) {
  TestCluster cluster(/*workers=*/1, /*slots=*/2);
  v1::JobSpec spec = cluster.SmallJob(/*ranks=*/2, /*steps=*/1'000'000);
  spec.mutable_evaluation()->set_every(1);
  spec.set_batch_per_rank(3);  // 64 samples are 11 batches for each rank, the last of two.
  const auto evaluates = [](const v1::Job& job) {
    return job.ranks_size() == 2 && job.ranks(1).progress().phase() == v1::EVALUATING &&
           job.ranks(1).progress().evaluated_batches() > 0;
  };
  const v1::Job job = cluster.WaitUntil(cluster.Submit(spec).id(), evaluates);
  EXPECT_EQ(job.ranks(1).progress().evaluation_batches(), 11);
  EXPECT_LE(job.ranks(1).progress().evaluated_batches(), 11);
}

// Uses ::1 for all addresses: flags, address files, the daemons' own addresses, the trainers' store
// and their exchange.
TEST(JobTest, IsTrainedOnIpv6Alone) {
  std::ifstream interfaces("/proc/net/if_inet6");
  const std::string all((std::istreambuf_iterator<char>(interfaces)), {});
  if (!absl::StrContains(all, "00000000000000000000000000000001")) {
    GTEST_SKIP() << "this machine has no ::1";
  }
  TestNetwork network;
  network.controller_host = network.loopback = "[::1]";
  TestCluster cluster(/*workers=*/2, /*slots=*/1, network);
  EXPECT_THAT(cluster.server(), StartsWith("[::1]:"));
  v1::JobSpec spec = cluster.SmallJob(/*ranks=*/2, /*steps=*/20);
  spec.mutable_checkpoint()->set_directory(cluster.directory() + "/weights");
  const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  EXPECT_EQ(job.progress().step(), 20);
  EXPECT_THAT(cluster.HttpGet("w0/address", "/metrics"), HasSubstr("paceline_worker_"));
  EXPECT_THAT(cluster.HttpGet("controller.address", "/healthz"), Not(IsEmpty()));
  EXPECT_THAT(cluster.HttpGet("controller.address", "/sd"), HasSubstr("\"[::1]:"));
  std::vector<std::string> command = {Program("paceline")};
  for (const std::string& flag : cluster.ClientFlags()) command.push_back(flag);
  for (const char* word : {"node", "list"}) command.emplace_back(word);
  const Finished listed = RunToEnd(command);
  EXPECT_EQ(listed.exit_code, 0) << listed.output;
  EXPECT_THAT(listed.output, HasSubstr("w1"));
}

TEST(JobTest, MetricsShowWhatIsRunning) {
  TestCluster cluster(/*workers=*/1, /*slots=*/2);
  const v1::Job job = cluster.Submit(cluster.LongJob(2));
  cluster.WaitForSteps(job.id(), 2);
  EXPECT_TRUE(Eventually([&] {
    const std::string worker = cluster.HttpGet("w0/address", "/metrics");
    return worker.find("paceline_trainer_") != std::string::npos &&
           worker.find("paceline_worker_controller_connected 1") != std::string::npos;
  })) << cluster.HttpGet("w0/address", "/metrics");
  EXPECT_TRUE(Eventually([&] {
    const std::string controller = cluster.HttpGet("controller.address", "/metrics");
    const std::string running = "paceline_queue_jobs{queue=\"default\",state=\"running\"} 1";
    return controller.find(running) != std::string::npos &&
           controller.find("paceline_job_phase_seconds_total") != std::string::npos;
  }));
  EXPECT_THAT(cluster.HttpGet("controller.address", "/sd"), HasSubstr("\"node\":\"w0\""));
}

TEST(JobTest, CancelEndsItGracefully) {
  TestCluster cluster(/*workers=*/2, /*slots=*/1);
  const v1::Job job = cluster.Submit(cluster.LongJob(2));
  cluster.WaitForSteps(job.id(), 2);
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job(job.id());
  request.set_request_id("cancel");
  request.set_reason("seen enough");
  v1::Job cancelled;
  ASSERT_TRUE(
      v1::JobService::NewStub(cluster.channel())->Cancel(&context, request, &cancelled).ok());
  const v1::Job ended = cluster.WaitForEnd(job.id());
  EXPECT_EQ(ended.state(), v1::CANCELLED);
  EXPECT_EQ(ended.reason(), "seen enough");
  EXPECT_FALSE(ended.has_failure());
}

TEST(JobTest, QueuedJobStartsWhenTheOneBeforeHasEnded) {
  TestCluster cluster(/*workers=*/1, /*slots=*/2);
  const v1::Job first = cluster.Submit(cluster.SmallJob(2, 20));
  const v1::Job second = cluster.Submit(cluster.SmallJob(2, 5));
  EXPECT_EQ(second.state(), v1::QUEUED);
  EXPECT_THAT(second.reason(), HasSubstr("waits for 2 slots"));
  EXPECT_EQ(cluster.WaitForEnd(second.id()).state(), v1::SUCCEEDED);
  EXPECT_EQ(cluster.Get(first.id()).state(), v1::SUCCEEDED);
}

TEST(JobTest, ElasticJobGrowsIntoIdleSlotsAndGivesThemBackToWhoWaits) {
  TestCluster cluster(/*workers=*/2, /*slots=*/2);
  v1::JobSpec spec = cluster.LongJob(2, 3000);
  v1::Recovery& recovery = *spec.mutable_recovery();
  recovery.set_max_failures(3);
  recovery.set_min_ranks(1);
  recovery.set_max_ranks(4);
  recovery.set_batch(v1::KEEP_RANK_BATCH);
  const std::string id = cluster.Submit(spec).id();
  const v1::Job grown = cluster.WaitUntil(id, [](const v1::Job& job) {
    return job.ranks_size() == 4 && job.reason() == "4 ranks train, 2 more than the 2 wanted";
  });
  const v1::Job other = cluster.WaitForEnd(cluster.Submit(cluster.SmallJob(2, 5)).id());
  EXPECT_EQ(other.state(), v1::SUCCEEDED) << other.reason();
  const v1::Job after = cluster.Get(id);
  ASSERT_EQ(after.ranks_size(), 2) << "it grows again only when the slots have been idle";
  EXPECT_EQ(after.ranks(0).pid(), grown.ranks(0).pid());
  EXPECT_EQ(after.generation(), grown.generation() + 1);
  EXPECT_EQ(
      after.membership_changes().rbegin()->reason(),
      absl::StrCat("gives 2 extra ranks back, of 4: job ", other.id(), " (small) waits for slots"));
  cluster.Release();
  const v1::Job ended = cluster.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.progress().step(), 3000);
}

}  // namespace
}  // namespace paceline
