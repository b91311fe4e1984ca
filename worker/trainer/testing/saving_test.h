// A fixture for tests with real trainer processes that save and resume.
#ifndef WORKER_TRAINER_TESTING_SAVING_TEST_H_
#define WORKER_TRAINER_TESTING_SAVING_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/trainer_test.h"

namespace paceline {

class SavingTest : public TrainerTest {
 protected:
  // Changes: save into a directory of this name.
  std::string SaveTo(const std::string& name, const std::string& more = "") const {
    return absl::StrCat("checkpoint { directory: '", directory_, "/", name, "' at_end: false ",
                        more, " } ");
  }

  std::string JobDirectory(const std::string& name) const {
    return absl::StrCat(directory_, "/", name, "/", FakeDaemon::JobId());
  }
  std::string Checkpoint(const std::string& name, int64_t step, int64_t generation = 1) const {
    return absl::StrCat(JobDirectory(name), "/", CheckpointName({step, generation}));
  }

  std::unique_ptr<FakeDaemon> Resume(const v1::JobSpec& spec, const std::string& checkpoint,
                                     int64_t generation = 2) {
    std::unique_ptr<FakeDaemon> daemon = MakeDaemon();
    daemon->Launch(spec, generation, checkpoint);
    EXPECT_TRUE(daemon->Serve());
    for (int rank = 0; rank < spec.ranks(); ++rank) {
      EXPECT_EQ(daemon->exit_code(rank), 0) << daemon->Log(rank);
    }
    return daemon;
  }
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TESTING_SAVING_TEST_H_
