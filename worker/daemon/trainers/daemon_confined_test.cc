// The real daemon and shim with confined trainers: run as another user, with paths limited to the
// allowed roots, at a socket that checks who connects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/exit_codes.h"
#include "proto/trainer.pb.h"
#include "worker/daemon/testing/daemon_test.h"
#include "worker/link/frame.h"
#include "worker/shim/testing/other_users.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

class DaemonConfinedTest : public DaemonTest {
 protected:
  // Starts the daemon with additional flags.
  void StartConfined(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = Arguments();
    if (!trainer_.empty()) {
      *std::find(arguments.begin(), arguments.end(), "worker/daemon/testing/fake_trainer") =
          trainer_;
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    daemon_ = Spawn(arguments, root_ + "/log");
  }

  // Starts it with trainers that run as nobody, in folders that nobody can reach.
  void StartAsNobody() {
    fs::permissions(root_, fs::perms::owner_all | fs::perms::others_exec);
    // Other users cannot enter the tests' own folders.
    trainer_ = root_ + "/fake_trainer";
    fs::copy_file("worker/daemon/testing/fake_trainer", trainer_, fs::copy_options::skip_existing);
    ASSERT_EQ(::chmod(trainer_.c_str(), 0755), 0);
    StartConfined({"--run-as", "nobody", "--limit-core", "0"});
  }

  static struct stat StatOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info;
  }

  // "UID MODE", the mode in octal.
  static std::string OwnerOf(const std::string& path) {
    const struct stat info = StatOf(path);
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%04o", info.st_mode & 07777);
    return absl::StrCat(info.st_uid, " ", mode);
  }

  std::string Metrics() const {
    httplib::Client client("http://" + controller_->WaitForHello().metrics_address());
    const auto response = client.Get("/metrics");
    return response ? response->body : "";
  }

  std::string trainer_;  // Empty: the one in Arguments.
};

TEST_F(DaemonConfinedTest, TrainersOfAnotherUserTrainStopAndAreAdopted) {
  PACELINE_NEEDS_OTHER_USERS();
  StartAsNobody();
  v1::TrainerPlan plan = Plan(0, 1000000);
  controller_->SetPlan(NodePlanOf({plan}));
  const pid_t trainer =
      static_cast<pid_t>(controller_->WaitForReport(AllBeyond(5)).trainers(0).pid());
  EXPECT_EQ(StatOf(absl::StrCat("/proc/", trainer)).st_uid, kNobody);
  // Owners and modes of the shared files.
  EXPECT_EQ(OwnerOf(root_ + "/run"), "0 0710");
  EXPECT_EQ(StatOf(root_ + "/run").st_gid, kNobody);
  EXPECT_EQ(OwnerOf(root_ + "/run/daemon.sock"), "65534 0600");
  EXPECT_EQ(OwnerOf(absl::StrCat(root_, "/run/", kJob, ".1.0.ring")), "65534 0600");
  EXPECT_EQ(OwnerOf(root_ + "/state"), "0 0711");
  EXPECT_EQ(OwnerOf(root_ + "/state/node.json"), "0 0600");
  EXPECT_EQ(OwnerOf(TrainerDir(0)), "0 0711");
  for (const char* file : {"/lock", "/plan"}) {
    EXPECT_EQ(OwnerOf(TrainerDir(0) + file), "0 0600") << file;
  }
  EXPECT_EQ(OwnerOf(OwnDir(0)), "65534 0700");
  EXPECT_EQ(OwnerOf(OwnDir(0) + "/log/00000000000000000000.log"), "65534 0600");

  End(SIGTERM);
  StartAsNobody();
  controller_->WaitForHello(2);
  EXPECT_EQ(controller_->WaitForReport(AllBeyond(50)).trainers(0).pid(), trainer);
  plan.mutable_stop()->set_grace_s(30);
  const v1::TrainerReport ended = RunOne(plan);
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED) << ended.exit().message();
  EXPECT_EQ(ended.exit().exit_code(), 0);
  EXPECT_THAT(Metrics(), HasSubstr("connections_refused_total{cause=\"user\"} 0"));
  EXPECT_THAT(Metrics(), HasSubstr("connections_refused_total{cause=\"process\"} 0"));
}

TEST_F(DaemonConfinedTest, LastWordsAndTheLogOfAnotherUserAreRead) {
  PACELINE_NEEDS_OTHER_USERS();
  StartAsNobody();
  const v1::TrainerReport ended = RunOne(FailingPlan(5, v1::THROW));
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_ERROR);
  EXPECT_EQ(ended.exit().message(), "thrown on purpose");
  EXPECT_THAT(ended.exit().log_tail(), HasSubstr("about to fail"));
}

// The trainer owns its folder, so a link there may point to files that only the daemon can read.
TEST_F(DaemonConfinedTest, LinkInThePlaceOfTheLogShowsNothing) {
  PACELINE_NEEDS_OTHER_USERS();
  const std::string secrets = root_ + "/secrets";
  fs::create_directory(secrets);
  std::ofstream(secrets + "/00000000000000000000.log") << "secret\n";
  fs::permissions(secrets, fs::perms::owner_all);
  StartAsNobody();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  const std::string log = OwnDir(0) + "/log";
  fs::rename(log, log + ".old");
  v1::LogRequest request;
  request.mutable_trainer()->set_job_id(kJob);
  request.mutable_trainer()->set_generation(1);
  for (const bool is_user : {true, false}) {
    // Either the user's own link, or another user's folder that was moved there.
    is_user ? fs::create_directory_symlink(secrets, log) : fs::rename(secrets, log);
    for (const int tail : {0, 1}) {
      request.set_id(request.id() + 1);
      request.set_tail_lines(tail);
      const v1::LogData answer = controller_->AskForLog(request);
      EXPECT_EQ(answer.data(), "");
      EXPECT_THAT(answer.error(), HasSubstr(log));
    }
    if (is_user) fs::remove(log);
  }
}

TEST_F(DaemonConfinedTest, StubbornTrainerOfAnotherUserIsKilled) {
  PACELINE_NEEDS_OTHER_USERS();
  StartAsNobody();
  v1::TrainerPlan plan = Plan(0, 1000000);
  plan.mutable_spec()->set_name("stubborn");
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  plan.mutable_stop()->set_grace_s(0.2);
  EXPECT_EQ(RunOne(plan).exit().signal(), SIGKILL);
}

TEST_F(DaemonConfinedTest, DaemonSaysWhereItsTrainersCannotPass) {
  PACELINE_NEEDS_OTHER_USERS();
  fs::permissions(root_, fs::perms::owner_all);
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--run-as", "nobody"});
  const auto [code, said] = RunToEnd(arguments);
  EXPECT_EQ(code, kExitStateNotWritable);
  EXPECT_THAT(said, HasSubstr("user nobody of --run-as cannot enter " + root_ + "/state/trainers"));
}

TEST_F(DaemonConfinedTest, ImpossibleUserIsWrongUsage) {
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--run-as", "no-such-user"});
  const auto [code, said] = RunToEnd(arguments);
  EXPECT_EQ(code, kExitUsage);
  EXPECT_THAT(said, HasSubstr("--run-as no-such-user: there is no user no-such-user"));
}

TEST_F(DaemonConfinedTest, StateThatAllCanWriteIsRefused) {
  fs::create_directories(root_ + "/state");
  fs::permissions(root_ + "/state", fs::perms::all);
  const auto [code, said] = RunToEnd(Arguments());
  EXPECT_EQ(code, kExitStateNotWritable);
  EXPECT_THAT(said, HasSubstr("all others can write it"));
}

TEST_F(DaemonConfinedTest, PathOutsideOfTheRootsFailsTheTrainerByItsInput) {
  StartConfined({"--allowed-root", root_ + "/data", "--allowed-root", "/nonexistent"});
  fs::create_directories(root_ + "/data");
  fs::create_symlink("/etc/passwd", root_ + "/data/link");
  v1::TrainerPlan plan = Plan(0, 10);
  plan.mutable_spec()->mutable_data()->set_train(root_ + "/data/link");
  const v1::TrainerExit exit = RunOne(plan).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_INPUT);
  EXPECT_THAT(exit.message(),
              AllOf(HasSubstr("data.train is " + root_ + "/data/link, which leads to /etc/passwd"),
                    HasSubstr(root_ + "/data, /nonexistent")));
}

TEST_F(DaemonConfinedTest, PathInARootIsFine) {
  StartConfined({"--allowed-root", root_});
  v1::TrainerPlan plan = Plan(0, 10);
  plan.mutable_spec()->mutable_data()->set_train(root_ + "/train");
  plan.mutable_spec()->mutable_data()->set_eval(root_ + "/not/made/yet");
  EXPECT_EQ(RunOne(plan).exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
}

TEST_F(DaemonConfinedTest, ProcessThatSaysItIsATrainerIsRefusedAndCounted) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  v1::TrainerStatus lie;
  lie.mutable_id()->set_job_id(kJob);
  lie.mutable_id()->set_generation(1);
  lie.set_state(v1::TRAINER_FINISHED);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = root_ + "/run/daemon.sock";
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string frame = EncodeFrame(lie.SerializeAsString());
  ASSERT_EQ(::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(frame.size()));
  char byte = 0;
  EXPECT_LE(::read(fd, &byte, 1), 0) << "it was told the trainer's command";
  ::close(fd);
  WaitForLog(absl::StrCat("trainer_connection_refused pid=", ::getpid()));
  EXPECT_THAT(Metrics(), HasSubstr("connections_refused_total{cause=\"process\"} 1"));
  controller_->WaitForReport(AllIn(v1::TRAINER_RUNNING));
}

v1::TrainerPlan BashPlan(const std::string& script) {
  v1::TrainerPlan plan = Plan(0, 1);
  v1::JobSpec& spec = *plan.mutable_spec();
  spec.Clear();
  spec.set_working_directory("/");
  for (const std::string& word : {std::string("/bin/bash"), std::string("-c"), script}) {
    spec.add_command(word);
  }
  (*spec.mutable_environment())["PATH"] = "/usr/bin:/bin";
  (*spec.mutable_environment())["HOME"] = "/nonexistent";
  return plan;
}

TEST_F(DaemonConfinedTest, ACommandRunsAsTheOtherUserAndSeesNothingOfTheDaemons) {
  PACELINE_NEEDS_OTHER_USERS();
  StartAsNobody();
  const v1::TrainerReport ended =
      RunOne(BashPlan("id -u; echo $HOME; touch \"$PACELINE_DIR/own\" && echo wrote; "
                      "cat \"$PACELINE_DIR/../environment\" 2> /dev/null || echo hidden"));
  EXPECT_EQ(ended.exit().exit_code(), 0) << ended.exit().message();
  const std::string log = OwnDir(0) + "/log/00000000000000000000.log";
  EXPECT_EQ(Contents(log), "65534\n/nonexistent\nwrote\nhidden\n");
  EXPECT_EQ(OwnerOf(log), "65534 0600");
  EXPECT_EQ(StatOf(OwnDir(0) + "/own").st_uid, kNobody);
  // Only the daemon can read the trainer's variables, plan and exit record.
  for (const auto& entry : fs::directory_iterator(TrainerDir(0))) {
    if (entry.is_directory()) continue;
    EXPECT_EQ(OwnerOf(entry.path()), absl::StrCat(::getuid(), " 0600")) << entry.path();
  }
}

TEST_F(DaemonConfinedTest, TheErrorFileOfACommandIsRead) {
  PACELINE_NEEDS_OTHER_USERS();
  StartAsNobody();
  const v1::TrainerReport ended = RunOne(
      BashPlan("echo '{\"message\": \"ValueError: mine\"}' > $TORCHELASTIC_ERROR_FILE; exit 1"));
  EXPECT_EQ(ended.exit().message(), "ValueError: mine");
}

TEST_F(DaemonConfinedTest, WhatALinkInThePlaceOfTheErrorFileLeadsToIsNotTold) {
  PACELINE_NEEDS_OTHER_USERS();
  StartAsNobody();
  const std::string secret = root_ + "/secret";
  std::ofstream(secret) << "{\"message\": \"the daemon's secret\"}";
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  const std::string script = absl::StrCat("ln -s ", secret, " $TORCHELASTIC_ERROR_FILE; exit 1");
  EXPECT_EQ(RunOne(BashPlan(script)).exit().message(), "exited with code 1");
}

}  // namespace
}  // namespace paceline
