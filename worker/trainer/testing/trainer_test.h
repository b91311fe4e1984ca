// A fixture for tests with real trainer processes.
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

  // An MLP on `ranks` ranks that trains for 20 steps of 4 samples per rank on the test's own data,
  // with `changes` merged in (protobuf text format).
  v1::JobSpec Spec(int ranks, const std::string& changes = "") const;

  // Changes: evaluate on the test's data at every `every`-th step (0: only at the end), and export
  // each rank's final parameters.
  std::string Evaluated(int every) const;
  std::string ExportTo(const std::string& name) const;
  // A rank's export: the file, its bytes, and whether all ranks have the same.
  std::string ExportedFile(const std::string& name, int rank) const;
  std::string Exported(const std::string& name, int rank) const;
  void ExpectEqualModels(const std::string& name, int ranks) const;

  // Makes a daemon with its own directory.
  std::unique_ptr<FakeDaemon> MakeDaemon(std::vector<std::string> extra_args = {});

  // Runs a job that must succeed.
  std::unique_ptr<FakeDaemon> RunJob(const v1::JobSpec& spec);

  // The values of a key in a rank's log lines: Values(daemon, 0, "loss").
  static std::vector<double> Values(const FakeDaemon& daemon, int rank, const std::string& key);

  std::string directory_;
  std::string trainer_ = "worker/trainer/trainer";
  // Empty: start each trainer as in production.
  std::string server_ = "worker/trainer/testing/trainer_server";
  std::vector<std::string> variables_;
  v1::ObjectStores object_stores_;

 private:
  int daemons_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_TRAINER_TEST_H_
