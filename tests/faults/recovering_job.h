// A fixture: a cluster with a job that recovers while it runs, and checks of the result.
//
// The job is plain data parallelism on CPUs, so whatever happens to its ranks, its final weights
// are bit for bit those of the same job undisturbed, as long as it has as many ranks.
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
  // Starts `workers` workers with one slot each.
  void StartCluster(int workers);

  // A job of three ranks that replaces each lost rank. Each of its steps takes 80 ms until it is
  // released, so it does not end before it was disturbed. The pace is even because ranks agree on a
  // planned change for the step that is a second ahead at the present pace.
  v1::JobSpec Spec(int64_t steps) const;

  // Submits it and waits until it has done some steps and has `spares` spares ready.
  v1::Job Start(const v1::JobSpec& spec, int spares = 0);

  // Number of the worker where it runs.
  static int WorkerOf(const v1::Rank& rank);

  void Signal(const v1::Rank& rank, int signal) const;

  // Runs the program that people use, to its end.
  Finished Paceline(std::vector<std::string> arguments) const;

  // The trainer processes of the node.
  std::vector<pid_t> TrainersOn(const std::string& node) const;

  // Waits until the job trains as a generation after `generation`, with all seats filled, and makes
  // steps.
  v1::Job WaitForGenerationAfter(int64_t generation);

  // Releases the job. It succeeds without a restart, with the weights of an undisturbed one.
  void ExpectUndisturbedEnd();

  // Steps that the job has done.
  int64_t Step(const v1::Job& job) const { return job.progress().step(); }

  std::unique_ptr<TestCluster> cluster_;
  std::string id_;
  v1::JobSpec spec_;
};

}  // namespace paceline

#endif  // TESTS_FAULTS_RECOVERING_JOB_H_
