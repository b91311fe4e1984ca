// A fixture for tests of real trainer processes.
#ifndef WORKER_TRAINER_TESTING_TRAINER_TEST_H_
#define WORKER_TRAINER_TESTING_TRAINER_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/testing/fake_daemon.h"

namespace paceline {

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override;

  // An MLP on `ranks` ranks that trains for 20 steps of 4 samples per rank on the test's own
  // data; `changes` in protobuf's text format are merged into it.
  v1::JobSpec Spec(int ranks, const std::string& changes = "") const;

  // Changes: the job is evaluated on the test's data every so many steps (0: at the end only), and
  // each rank writes the parameters that it ends with.
  std::string Evaluated(int every) const;
  std::string ExportTo(const std::string& name) const;
  // Of what a rank has written: the file, its bytes, and that all ranks have the same.
  std::string ExportedFile(const std::string& name, int rank) const;
  std::string Exported(const std::string& name, int rank) const;
  void ExpectEqualModels(const std::string& name, int ranks) const;

  // A daemon with a directory of its own.
  std::unique_ptr<FakeDaemon> MakeDaemon(std::vector<std::string> extra_args = {});

  // Runs a job that must succeed.
  std::unique_ptr<FakeDaemon> RunJob(const v1::JobSpec& spec);

  // A value of each log line of a rank that has it: Values(daemon, 0, "loss").
  static std::vector<double> Values(const FakeDaemon& daemon, int rank, const std::string& key);

  std::string directory_;
  std::string trainer_ = "worker/trainer/trainer";
  // Empty: each trainer is started as in earnest.
  std::string server_ = "worker/trainer/testing/trainer_server";

 private:
  int daemons_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_TRAINER_TEST_H_
