// A fixture for tests with real processes of a user's script as the ranks of a session.
#ifndef PYTHON_TESTS_SESSION_FIXTURE_H_
#define PYTHON_TESTS_SESSION_FIXTURE_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/trainer/testing/fake_daemon.h"
#include "worker/trainer/testing/recovery_test.h"

namespace paceline {

class SessionFixture : public RecoveryTest {
 protected:
  SessionFixture() {
    trainer_ = "python/tests/session_rank.sh";
    server_ = trainer_;
    variables_ = {"OUT",       "AT",      "HABITS", "DIES", "WORKERS",
                  "OPTIMIZER", "SAMPLES", "SCRIPT", "WIDTH"};
  }

  // Of the script, which writes its state below `name`. `at`: as for the script.
  v1::JobSpec SessionSpec(int ranks, const std::string& name, const std::string& changes,
                          const std::string& at = "", int spares = 0) const {
    std::filesystem::create_directories(absl::StrCat(directory_, "/", name));
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("name: 'test' ranks: ", ranks,
                     " command: 'session_script.py' working_directory: '/' session: true "
                     "batch_per_rank: 4 steps: 24 log_every: 1 seed: 3 recovery { max_failures: "
                     "10 spares: ",
                     spares, " } collective_timeout_s: 30 startup_timeout_s: 90"),
        &spec));
    v1::JobSpec more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(changes, &more)) << changes;
    spec.MergeFrom(more);
    // For the script, which is started in this process's environment.
    setenv("OUT", absl::StrCat(directory_, "/", name).c_str(), /*overwrite=*/1);
    setenv("AT", at.c_str(), 1);
    return spec;
  }

  std::unique_ptr<FakeDaemon> RunUndisturbedSession(int ranks, const std::string& changes) {
    return RunJob(SessionSpec(ranks, "undisturbed", changes));
  }

  // Changes: each step from `step` on takes this long until WaitForSuccess, so that the job does
  // not end before it is disturbed.
  std::string Slowed(int step, double seconds) const {
    std::filesystem::remove(Released());
    return absl::StrCat("allow_chaos: true chaos { rank: -1 kind: SLEEP step: ", step,
                        " steps: 1000000 seconds: ", seconds, " until_file: '", Released(), "' } ");
  }

  // The parameters with which a rank has ended.
  std::string Model(const std::string& name, int rank) const {
    std::ostringstream bytes;
    std::ifstream file(absl::StrCat(directory_, "/", name, "/model.rank", rank), std::ios::binary);
    EXPECT_TRUE(file.good()) << "rank " << rank;
    bytes << file.rdbuf();
    return bytes.str();
  }

  void ExpectOneModel(const std::string& name, int ranks) const {
    EXPECT_FALSE(Model(name, 0).empty());
    for (int rank = 1; rank < ranks; ++rank) {
      EXPECT_TRUE(Model(name, rank) == Model(name, 0)) << "rank " << rank;
    }
  }

  // Rank 1 dies at these moments (phase and step), one after the other, and spares take its place:
  // the job computes what the undisturbed one does.
  void DieAndCompare(const std::vector<std::string>& moments, const std::string& changes = "",
                     int ranks = 3) {
    const auto undisturbed = RunUndisturbedSession(ranks, changes);
    const std::string kills =
        absl::StrJoin(moments, ",", [](std::string* out, const std::string& moment) {
          absl::StrAppend(out, moment, " 1 kill");
        });
    SCOPED_TRACE(kills);
    const int spares = static_cast<int>(moments.size());
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(ranks, "disturbed", changes, kills, spares));
    for (int spare = ranks; spare < ranks + spares; ++spare) WaitUntilReady(*daemon, spare);
    std::vector<int> trainers(static_cast<size_t>(ranks));
    std::iota(trainers.begin(), trainers.end(), 0);
    for (int spare = ranks; spare < ranks + spares; ++spare) {
      WaitForEnd(*daemon, trainers[1]);
      EXPECT_EQ(daemon->exit_signal(trainers[1]), SIGKILL) << daemon->Log(trainers[1]);
      trainers[1] = spare;
      daemon->SetMembers({trainers});
    }
    WaitForSuccess(*daemon, trainers);
    ExpectSame(*undisturbed, *daemon, trainers, "disturbed");
  }
};

}  // namespace paceline

#endif  // PYTHON_TESTS_SESSION_FIXTURE_H_
