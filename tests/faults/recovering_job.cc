#include "tests/faults/recovering_job.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr int kRanks = 3;

int ReadySpares(const v1::Job& job) {
  int ready = 0;
  for (const v1::Rank& spare : job.spares()) ready += spare.state() == v1::TRAINER_READY;
  return ready;
}

}  // namespace

void RecoveringJobTest::StartCluster(int workers) {
  cluster_ = std::make_unique<TestCluster>(workers, 1);
}

v1::JobSpec RecoveringJobTest::Spec(int64_t steps) const {
  v1::JobSpec spec = cluster_->SmallJob(kRanks, steps);
  spec.mutable_checkpoint()->set_directory(cluster_->directory() + "/output");
  spec.mutable_recovery()->set_max_failures(100);
  spec.set_allow_chaos(true);
  *spec.add_chaos() = cluster_->Sleep(0.08, 0, steps);
  return spec;
}

v1::Job RecoveringJobTest::Start(const v1::JobSpec& spec, int spares) {
  spec_ = spec;
  id_ = cluster_->Submit(spec).id();
  return cluster_->WaitUntil(id_, [&](const v1::Job& job) {
    return job.state() == v1::RUNNING && job.progress().step() > 3 && ReadySpares(job) >= spares;
  });
}

int RecoveringJobTest::WorkerOf(const v1::Rank& rank) {
  int worker = -1;
  EXPECT_TRUE(absl::SimpleAtoi(rank.node().substr(1), &worker)) << rank.node();
  return worker;
}

void RecoveringJobTest::Signal(const v1::Rank& rank, int signal) const {
  ASSERT_GT(rank.pid(), 0);
  ASSERT_EQ(::kill(static_cast<pid_t>(rank.pid()), signal), 0) << "rank " << rank.rank();
}

Finished RecoveringJobTest::Paceline(std::vector<std::string> arguments) const {
  const std::vector<std::string> flags = cluster_->ClientFlags();
  arguments.insert(arguments.begin(), flags.begin(), flags.end());
  arguments.insert(arguments.begin(), Program("paceline"));
  return RunToEnd(arguments);
}

std::vector<pid_t> RecoveringJobTest::TrainersOn(const std::string& node) const {
  return ProcessesMentioning(absl::StrCat(cluster_->directory(), "/", node, "/state/trainers"));
}

v1::Job RecoveringJobTest::WaitForGenerationAfter(int64_t generation) {
  return cluster_->WaitUntil(id_, [&](const v1::Job& job) {
    return job.state() == v1::RUNNING && job.generation() > generation &&
           job.ranks_size() == spec_.ranks() && job.membership_changes_size() > 0 &&
           job.progress().step() > job.membership_changes().rbegin()->step();
  });
}

void RecoveringJobTest::ExpectUndisturbedEnd() {
  cluster_->Release();
  const v1::Job job = cluster_->WaitForEnd(id_);
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(job.restarts(), 0);
  v1::JobSpec undisturbed = spec_;
  undisturbed.clear_recovery();
  undisturbed.clear_chaos();
  const v1::Job other = cluster_->WaitForEnd(cluster_->Submit(undisturbed).id());
  EXPECT_EQ(other.state(), v1::SUCCEEDED) << other.reason();
  const auto weights = [&](const v1::Job& of) {
    return ReadFile(absl::StrCat(cluster_->directory(), "/output/", of.id(), "/final.safetensors"));
  };
  EXPECT_GT(weights(job).size(), 1000);
  EXPECT_TRUE(weights(job) == weights(other)) << "the weights differ";
}

}  // namespace paceline
