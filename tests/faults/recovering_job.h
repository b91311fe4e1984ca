// A fixture: a cluster with a job that recovers inside its run, and what must be true afterwards.
//
// The job is plain data parallelism on CPUs, so whatever happens to its ranks, its final weights
// are those of the same job undisturbed, bit for bit, as long as it has as many ranks.
#ifndef TESTS_FAULTS_RECOVERING_JOB_H_
#define TESTS_FAULTS_RECOVERING_JOB_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/test_cluster.h"

namespace paceline {

class RecoveringJobTest : public ::testing::Test {
 protected:
  // So many workers with one slot each.
  void StartCluster(int workers);

  // Three ranks; one lost rank after the other is replaced. So that it is not over before it was
  // disturbed, each of its steps takes 80 ms until it is released. An even pace: a planned change
  // is agreed on for a step that is a second ahead at the pace so far.
  v1::JobSpec Spec(int64_t steps) const;

  // Submits it and waits until it has done some steps and has so many spares ready.
  v1::Job Start(const v1::JobSpec& spec, int spares = 0);

  // Number of the worker where it runs.
  static int WorkerOf(const v1::Rank& rank);

  void Signal(const v1::Rank& rank, int signal) const;

  // Runs the program that people use, to its end.
  Finished Paceline(std::vector<std::string> arguments) const;

  // What runs there of trainers.
  std::vector<pid_t> TrainersOn(const std::string& node) const;

  // Waits until the job trains as a generation after `generation`, with all seats filled, and makes
  // steps.
  v1::Job WaitForGenerationAfter(int64_t generation);

  // Releases the job. It succeeds without a restart, with the weights of an undisturbed one.
  void ExpectUndisturbedEnd();

  // Of all ranks.
  int64_t Step(const v1::Job& job) const { return job.progress().step(); }

  std::unique_ptr<TestCluster> cluster_;
  std::string id_;
  v1::JobSpec spec_;
};

}  // namespace paceline

#endif  // TESTS_FAULTS_RECOVERING_JOB_H_
