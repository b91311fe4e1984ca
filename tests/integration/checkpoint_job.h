// Jobs that save checkpoints under real daemons, for tests.
#ifndef TESTS_INTEGRATION_CHECKPOINT_JOB_H_
#define TESTS_INTEGRATION_CHECKPOINT_JOB_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include "proto/job.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {

class CheckpointJobTest : public ::testing::Test {
 protected:
  // A job whose every step takes about `step_ms`.
  v1::JobSpec Job(int ranks, int64_t steps, double step_ms = 5) const {
    v1::JobSpec spec = cluster_.SmallJob(ranks, steps);
    spec.mutable_data()->clear_eval();
    spec.mutable_checkpoint()->set_directory(cluster_.directory() + "/checkpoints");
    spec.mutable_checkpoint()->set_at_end(false);
    spec.set_allow_chaos(true);
    v1::Fault* slow = spec.add_chaos();
    slow->set_rank(-1);
    slow->set_kind(v1::SLEEP);
    slow->set_seconds(step_ms / 1000);
    slow->set_steps(steps);
    return spec;
  }

  v1::Job WaitForCheckpoint(const std::string& id, int64_t step) {
    return cluster_.WaitUntil(
        id, [=](const v1::Job& job) { return job.checkpoints().newest_step() >= step; });
  }

  // What a rank's log says of each step: "loss=… mean_loss=… …" without rates.
  std::map<int64_t, std::string> Losses(const std::string& id, int rank) {
    std::map<int64_t, std::string> losses;
    std::istringstream words(cluster_.Log(id, rank));
    std::string word;
    int64_t step = 0;
    while (words >> word) {
      if (word.rfind("step=", 0) == 0) step = std::stoll(word.substr(5));
      for (const char* key : {"loss=", "mean_loss=", "grad_norm="}) {
        if (word.rfind(key, 0) == 0) losses[step] += word + " ";
      }
    }
    return losses;
  }

  TestCluster cluster_;
};

}  // namespace paceline

#endif  // TESTS_INTEGRATION_CHECKPOINT_JOB_H_
