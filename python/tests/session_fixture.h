// A fixture for tests with real processes of a user's script as the ranks of a session.
#ifndef PYTHON_TESTS_SESSION_FIXTURE_H_
#define PYTHON_TESTS_SESSION_FIXTURE_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
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
    variables_ = {"OUT", "AT", "HABITS", "DIES", "WORKERS", "OPTIMIZER", "SAMPLES", "SCRIPT"};
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

  // Rank 1 of three dies at these moments (phase and step), one after the other, and spares take
  // its place: the job computes what the undisturbed one does.
  void DieAndCompare(const std::vector<std::string>& moments, const std::string& changes = "") {
    const auto undisturbed = RunUndisturbedSession(3, changes);
    const std::string kills =
        absl::StrJoin(moments, ",", [](std::string* out, const std::string& moment) {
          absl::StrAppend(out, moment, " 1 kill");
        });
    SCOPED_TRACE(kills);
    const int spares = static_cast<int>(moments.size());
    const auto daemon = MakeDaemon();
    daemon->Launch(SessionSpec(3, "disturbed", changes, kills, spares));
    for (int spare = 3; spare < 3 + spares; ++spare) WaitUntilReady(*daemon, spare);
    int trainer = 1;
    for (int spare = 3; spare < 3 + spares; ++spare) {
      WaitForEnd(*daemon, trainer);
      EXPECT_EQ(daemon->exit_signal(trainer), SIGKILL) << daemon->Log(trainer);
      trainer = spare;
      daemon->SetMembers({{0, trainer, 2}});
    }
    WaitForSuccess(*daemon, {0, trainer, 2});
    ExpectSame(*undisturbed, *daemon, {0, trainer, 2}, "disturbed");
  }
};

}  // namespace paceline

#endif  // PYTHON_TESTS_SESSION_FIXTURE_H_
