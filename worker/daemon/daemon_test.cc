// The real daemon and shim with a fake trainer under a fake controller.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/exit_codes.h"
#include "worker/daemon/testing/fake_controller.h"
#include "worker/shim/trainer_lock.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(30);
constexpr char kJob[] = "job-0123456789ab";

// Polls `condition`, for what nobody tells.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Time give_up = absl::Now() + kDeadline;
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

v1::TrainerPlan Plan(int rank, int64_t steps) {
  v1::TrainerPlan plan;
  plan.mutable_id()->set_job_id(kJob);
  plan.mutable_id()->set_generation(1);
  plan.mutable_id()->set_rank(rank);
  plan.mutable_spec()->set_name("digits");
  plan.mutable_spec()->set_steps(steps);
  plan.set_world_size(2);
  plan.set_place(rank);
  plan.set_store_address("127.0.0.1:5000");
  return plan;
}

v1::TrainerPlan FailingPlan(int64_t step, v1::FaultKind kind) {
  v1::TrainerPlan plan = Plan(0, 1000000);
  v1::Fault& fault = *plan.mutable_spec()->add_faults();
  fault.set_step(step);
  fault.set_kind(kind);
  return plan;
}

v1::NodePlan NodePlanOf(const std::vector<v1::TrainerPlan>& trainers) {
  v1::NodePlan plan;
  for (const v1::TrainerPlan& trainer : trainers) *plan.add_trainers() = trainer;
  return plan;
}

// All trainers, and at least one, are in `state`.
std::function<bool(const v1::NodeReport&)> AllIn(v1::TrainerState state) {
  return [state](const v1::NodeReport& report) {
    return report.trainers_size() > 0 &&
           std::all_of(report.trainers().begin(), report.trainers().end(),
                       [state](const auto& trainer) { return trainer.state() == state; });
  };
}

// All run and have done so many steps.
std::function<bool(const v1::NodeReport&)> AllBeyond(int64_t step) {
  return [step](const v1::NodeReport& report) {
    return AllIn(v1::TRAINER_RUNNING)(report) &&
           std::all_of(report.trainers().begin(), report.trainers().end(),
                       [step](const auto& t) { return t.pid() > 0 && t.progress().step() > step; });
  };
}

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    root_ = "/tmp/daemon_test.XXXXXX";
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
  }

  // Nothing may be left behind, whatever the test did.
  ~DaemonTest() override {
    if (daemon_ > 0) End(SIGKILL);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root_ + "/state/trainers", error)) {
      const std::string dir = entry.path().string();
      EXPECT_TRUE(Eventually([&] {
        const auto processes = ReadTrainerLock(dir);
        if (processes.ok() && processes->shim > 0) ::kill(processes->shim, SIGUSR1);
        return processes.ok() && !processes->alive;
      }));
    }
    fs::remove_all(root_, error);
  }

  std::vector<std::string> Arguments() const {
    return {"worker/daemon/paceline-worker",
            "--controller",
            controller_address_,
            "--name",
            "node-a",
            "--state-dir",
            root_ + "/state",
            "--runtime-dir",
            root_ + "/run",
            "--trainer",
            "worker/daemon/testing/fake_trainer",
            "--shim",
            "worker/shim/paceline-shim",
            "--log-segment-bytes",
            "2000",
            "--log-segments",
            "1000",
            "--address-file",
            root_ + "/address"};
  }

  pid_t Spawn(std::vector<std::string> arguments, const std::string& log) const {
    for (std::string& argument : arguments) {
      if (argument.rfind("worker/", 0) == 0) argument = fs::absolute(argument).string();
    }
    const pid_t child = ::fork();
    if (child != 0) return child;
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, 2);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }

  void StartDaemon() { daemon_ = Spawn(Arguments(), root_ + "/log"); }

  // Ends the daemon with `signal`; returns its exit code.
  int End(int signal) {
    ::kill(daemon_, signal);
    int status = 0;
    EXPECT_EQ(::waitpid(daemon_, &status, 0), daemon_);
    daemon_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // What a daemon of these arguments says before it ends, and its exit code.
  std::pair<int, std::string> RunToEnd(const std::vector<std::string>& arguments) const {
    const std::string log = root_ + "/other_log";
    int status = 0;
    ::waitpid(Spawn(arguments, log), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Contents(log)};
  }

  // Waits until the daemon's log has the word so often.
  void WaitForLog(const std::string& word, size_t count = 1) {
    EXPECT_TRUE(Eventually([&] { return Count(Contents(root_ + "/log"), word) >= count; }))
        << word << " in\n"
        << Contents(root_ + "/log");
  }

  // Lets one trainer run to its end, which it has to find within the deadline.
  v1::TrainerReport RunOne(const v1::TrainerPlan& plan) {
    controller_->SetPlan(NodePlanOf({plan}));
    return controller_->WaitForReport(AllIn(v1::TRAINER_EXITED)).trainers(0);
  }

  bool RingExists(int rank) const {
    return fs::exists(absl::StrCat(root_, "/run/", kJob, ".1.", rank, ".ring"));
  }

  std::string root_;
  std::unique_ptr<FakeController> controller_ = std::make_unique<FakeController>();
  std::string controller_address_ = controller_->address();
  pid_t daemon_ = -1;
};

TEST_F(DaemonTest, RegistersAndRunsTrainersToTheEnd) {
  StartDaemon();
  const v1::Hello hello = controller_->WaitForHello();
  EXPECT_EQ(hello.node(), "node-a");
  EXPECT_EQ(hello.node_uid().size(), 36);
  EXPECT_EQ(hello.cluster_id(), "");
  EXPECT_GT(hello.slots(), 0);
  EXPECT_EQ(hello.address(), "127.0.0.1");
  EXPECT_THAT(hello.metrics_address(), HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(Eventually([&] {
    return Contents(root_ + "/address").find(hello.metrics_address()) != std::string::npos;
  }));

  controller_->SetPlan(NodePlanOf({Plan(0, 50), Plan(1, 60)}));
  const v1::NodeReport report = controller_->WaitForReport(AllIn(v1::TRAINER_EXITED));
  EXPECT_EQ(report.plan_revision(), 1);
  for (const v1::TrainerReport& trainer : report.trainers()) {
    EXPECT_EQ(trainer.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED) << trainer.DebugString();
    EXPECT_EQ(trainer.progress().step(), 50 + 10 * trainer.id().rank());
    EXPECT_EQ(trainer.progress().loss(), 0.5);
    EXPECT_EQ(trainer.evaluation().accuracy(), 0.75);
    EXPECT_EQ(trainer.store_address(), absl::StrCat("127.0.0.1:", 5000 + trainer.id().rank()));
  }
  EXPECT_TRUE(Eventually([&] { return controller_->Steps().size() == 110; }));
  EXPECT_FALSE(RingExists(0));
}

TEST_F(DaemonTest, RendezvousPassesThrough) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 10);
  plan.clear_store_address();
  controller_->SetPlan(NodePlanOf({plan}));
  const v1::NodeReport ready = controller_->WaitForReport(AllIn(v1::TRAINER_READY));
  plan.set_store_address(ready.trainers(0).store_address());
  EXPECT_EQ(RunOne(plan).exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
}

TEST_F(DaemonTest, PlansAndProfilesPassDownAndResultsUp) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 1000000);
  plan.mutable_plan()->set_epoch(1);
  controller_->SetPlan(NodePlanOf({plan}));
  const auto active = [](int64_t epoch) {
    return [epoch](const v1::NodeReport& report) {
      return report.trainers_size() > 0 && report.trainers(0).plan().active_epoch() == epoch;
    };
  };
  EXPECT_GT(controller_->WaitForReport(active(1)).trainers(0).plan().active_since_step(), 0);
  plan.mutable_plan()->set_epoch(2);
  plan.mutable_profile()->set_id(5);
  controller_->SetPlan(NodePlanOf({plan}));
  EXPECT_EQ(controller_->WaitForReport(active(2)).trainers(0).profile().id(), 5);
  // A later daemon knows it, too, also when nobody tells it anew.
  End(SIGKILL);
  StartDaemon();
  const v1::NodeReport report = controller_->WaitForReport([](const v1::NodeReport& r) {
    return r.trainers_size() > 0 && r.trainers(0).profile().id() == 5 &&
           r.trainers(0).figures().steps() == 1;
  });
  EXPECT_EQ(report.trainers(0).plan().active_epoch(), 2);
}

TEST_F(DaemonTest, ErrorIsReportedWithPhaseStepAndLog) {
  StartDaemon();
  const v1::TrainerExit exit = RunOne(FailingPlan(12, v1::THROW)).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_ERROR);
  EXPECT_EQ(exit.message(), "thrown on purpose");
  EXPECT_EQ(exit.exit_code(), 1);
  EXPECT_EQ(exit.step(), 12);
  EXPECT_EQ(exit.phase(), v1::FORWARD);
  EXPECT_THAT(exit.log_tail(), HasSubstr("step 11\nabout to fail ?\n"));
  EXPECT_LE(Count(exit.log_tail(), "\n"), 20);
}

TEST_F(DaemonTest, SignalAndExitCodeAreReported) {
  StartDaemon();
  const v1::TrainerExit aborted = RunOne(FailingPlan(3, v1::ABORT)).exit();
  EXPECT_EQ(aborted.failure(), v1::FAILURE_SIGNAL);
  EXPECT_EQ(aborted.signal(), SIGABRT);
  EXPECT_EQ(aborted.step(), 3);
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
  v1::TrainerPlan plan = FailingPlan(3, v1::EXIT);
  plan.mutable_id()->set_generation(2);
  const v1::TrainerExit exited = RunOne(plan).exit();
  EXPECT_EQ(exited.failure(), v1::FAILURE_EXIT_CODE);
  EXPECT_EQ(exited.exit_code(), 42);
}

TEST_F(DaemonTest, KilledTrainerIsReportedWithinATenthOfASecond) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({FailingPlan(5, v1::SLEEP)}));
  const v1::NodeReport running = controller_->WaitForReport([](const v1::NodeReport& report) {
    return AllIn(v1::TRAINER_RUNNING)(report) && report.trainers(0).progress().step() == 5 &&
           report.trainers(0).progress().phase_s() > 0.3;
  });
  const absl::Time killed = absl::Now();
  ::kill(static_cast<pid_t>(running.trainers(0).pid()), SIGKILL);
  const v1::NodeReport ended = controller_->WaitForReport(AllIn(v1::TRAINER_EXITED));
  EXPECT_LT(absl::Now() - killed, absl::Milliseconds(100));
  const v1::TrainerExit& exit = ended.trainers(0).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_SIGNAL);
  EXPECT_EQ(exit.signal(), SIGKILL);
  EXPECT_EQ(exit.phase(), v1::FORWARD);
  EXPECT_GT(exit.phase_s(), 0.3);
}

TEST_F(DaemonTest, TrainerThatCannotBeStartedIsReported) {
  std::vector<std::string> arguments = Arguments();
  *std::find(arguments.begin(), arguments.end(), "worker/daemon/testing/fake_trainer") =
      "/nonexistent/trainer";
  daemon_ = Spawn(arguments, root_ + "/log");
  const v1::TrainerExit exit = RunOne(Plan(0, 10)).exit();
  EXPECT_EQ(exit.failure(), v1::FAILURE_START);
  EXPECT_THAT(exit.message(), HasSubstr("/nonexistent/trainer"));
}

TEST_F(DaemonTest, StopIsGraceful) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 1000000);
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  plan.mutable_stop()->set_grace_s(30);
  const v1::TrainerReport ended = RunOne(plan);
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
  EXPECT_EQ(ended.exit().exit_code(), 0);
  EXPECT_EQ(ended.exit().signal(), 0);
}

TEST_F(DaemonTest, StubbornTrainerIsKilledAfterTheGrace) {
  StartDaemon();
  v1::TrainerPlan plan = Plan(0, 1000000);
  plan.mutable_spec()->set_name("stubborn");
  controller_->SetPlan(NodePlanOf({plan}));
  controller_->WaitForReport(AllBeyond(5));
  plan.mutable_stop()->set_grace_s(0.2);
  const v1::TrainerReport ended = RunOne(plan);
  EXPECT_EQ(ended.exit().failure(), v1::FAILURE_KIND_UNSPECIFIED);
  EXPECT_EQ(ended.exit().signal(), SIGKILL);
}

TEST_F(DaemonTest, LogIsReadAcrossRotations) {
  StartDaemon();
  RunOne(Plan(0, 1000));
  EXPECT_GT(std::distance(
                fs::directory_iterator(absl::StrCat(root_, "/state/trainers/", kJob, ".1.0/log")),
                fs::directory_iterator()),
            3);
  v1::LogRequest request;
  request.mutable_trainer()->set_job_id(kJob);
  request.mutable_trainer()->set_generation(1);
  std::string log;
  for (bool end = false; !end;) {
    request.set_offset(static_cast<int64_t>(log.size()));
    const v1::LogData part = controller_->AskForLog(request);
    EXPECT_EQ(part.offset(), static_cast<int64_t>(log.size()));
    log += part.data();
    end = part.end();
  }
  std::string expected = "hello from rank 0\nstore at 127.0.0.1:5000\n";
  for (int step = 0; step < 1000; ++step) absl::StrAppend(&expected, "step ", step, "\n");
  EXPECT_EQ(log, expected);

  // The log outlives the trainer's place in the plan.
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
  request.set_tail_lines(2);
  EXPECT_EQ(controller_->AskForLog(request).data(), "step 998\nstep 999\n");
}

TEST_F(DaemonTest, FollowedLogGoesOnUntilTheTrainerHasEnded) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 300)}));
  controller_->WaitForReport(AllBeyond(2));
  v1::LogRequest request;
  request.mutable_trainer()->set_job_id(kJob);
  request.mutable_trainer()->set_generation(1);
  request.set_follow(true);
  std::string log;
  for (bool end = false; !end;) {
    request.set_offset(static_cast<int64_t>(log.size()));
    const v1::LogData part = controller_->AskForLog(request);
    log += part.data();
    end = part.end();
  }
  EXPECT_THAT(log, HasSubstr("\nstep 299\n"));
}

TEST_F(DaemonTest, KilledDaemonComesBackToTheSameTrainers) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000), Plan(1, 1000000)}));
  const v1::NodeReport before = controller_->WaitForReport(AllBeyond(5));
  End(SIGKILL);
  StartDaemon();
  const v1::Hello hello = controller_->WaitForHello(2);
  EXPECT_EQ(hello.cluster_id(), FakeController::kCluster);
  EXPECT_EQ(hello.report().trainers_size(), 2);
  // Known at once: nothing looks as if it had begun anew.
  EXPECT_TRUE(AllIn(v1::TRAINER_RUNNING)(hello.report())) << hello.DebugString();
  const v1::NodeReport after =
      controller_->WaitForReport(AllBeyond(before.trainers(0).progress().step() + 50));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(after.trainers(i).pid(), before.trainers(i).pid());
  WaitForLog("trainer_adopted", 2);
  // And they still obey.
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
}

TEST_F(DaemonTest, EndWhileTheDaemonWasAwayIsStillKnown) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({FailingPlan(4, v1::SLEEP)}));
  const v1::NodeReport before = controller_->WaitForReport(AllBeyond(3));
  End(SIGKILL);
  ::kill(static_cast<pid_t>(before.trainers(0).pid()), SIGUSR2);
  const std::string dir = absl::StrCat(root_, "/state/trainers/", kJob, ".1.0");
  ASSERT_TRUE(Eventually([&] { return !ReadTrainerLock(dir)->alive; }));
  for (int restart = 0; restart < 2; ++restart) {
    StartDaemon();
    const v1::NodeReport after = controller_->WaitForHello(2 + restart).report();
    ASSERT_TRUE(AllIn(v1::TRAINER_EXITED)(after)) << after.DebugString();
    EXPECT_EQ(after.trainers(0).exit().signal(), SIGUSR2);
    EXPECT_EQ(after.trainers(0).exit().step(), 4);
    EXPECT_EQ(after.trainers(0).exit().phase(), v1::FORWARD);
    EXPECT_FALSE(RingExists(0));
    End(SIGKILL);
  }
}

TEST_F(DaemonTest, TrainerWithoutATraceIsLost) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(3));
  End(SIGKILL);
  const std::string dir = absl::StrCat(root_, "/state/trainers/", kJob, ".1.0");
  ::kill(ReadTrainerLock(dir)->shim, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !ReadTrainerLock(dir)->alive; }));
  StartDaemon();
  EXPECT_EQ(controller_->WaitForHello(2).report().trainers(0).exit().failure(), v1::FAILURE_LOST);
}

TEST_F(DaemonTest, ControllerMayGoAndComeBack) {
  StartDaemon();
  v1::NodePlan plan = NodePlanOf({Plan(0, 1000000)});
  controller_->SetPlan(plan);
  const v1::NodeReport before = controller_->WaitForReport(AllBeyond(5));
  controller_.reset();
  WaitForLog("controller_unreachable");
  // Long enough for many attempts.
  const absl::Time until = absl::Now() + absl::Seconds(2);
  EXPECT_TRUE(Eventually([&] { return absl::Now() > until; }));
  controller_ = std::make_unique<FakeController>(controller_address_);
  controller_->SetPlan(plan);
  const v1::NodeReport after =
      controller_->WaitForReport(AllBeyond(before.trainers(0).progress().step() + 500));
  EXPECT_EQ(after.trainers(0).pid(), before.trainers(0).pid());
  WaitForLog("controller_back");
  EXPECT_EQ(Count(Contents(root_ + "/log"), "controller_unreachable"), 1);
  EXPECT_EQ(Count(Contents(root_ + "/log"), "controller_back"), 1);
  // The steps of the time between were kept.
  EXPECT_TRUE(Eventually([&] {
    const auto steps = controller_->Steps();
    return !steps.empty() && steps.back().step() - steps.front().step() > 500;
  }));
}

TEST_F(DaemonTest, NothingEndsBeforeAPlanSaysSo) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  End(SIGKILL);
  // A controller that has not made up its mind yet.
  controller_.reset();
  controller_ = std::make_unique<FakeController>(controller_address_);
  StartDaemon();
  const v1::NodeReport first = controller_->WaitForReport(AllBeyond(5));
  controller_->WaitForReport(AllBeyond(first.trainers(0).progress().step() + 200));
}

TEST_F(DaemonTest, PlanOfAnotherClusterIsRefused) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  controller_.reset();
  controller_ = std::make_unique<FakeController>(controller_address_, "cluster-2");
  controller_->SetPlan(NodePlanOf({}));
  EXPECT_EQ(controller_->WaitForHello(2).cluster_id(), FakeController::kCluster);
  WaitForLog("belongs to cluster cluster-1");
  EXPECT_EQ(Count(Contents(root_ + "/log"), "belongs to cluster cluster-1"), 1);
  EXPECT_TRUE(ReadTrainerLock(absl::StrCat(root_, "/state/trainers/", kJob, ".1.0"))->alive);
}

TEST_F(DaemonTest, CleanEndLeavesTrainersRunningAndNothingElse) {
  StartDaemon();
  controller_->SetPlan(NodePlanOf({Plan(0, 1000000)}));
  controller_->WaitForReport(AllBeyond(5));
  EXPECT_EQ(End(SIGTERM), kExitOk);
  EXPECT_TRUE(ReadTrainerLock(absl::StrCat(root_, "/state/trainers/", kJob, ".1.0"))->alive);
  EXPECT_TRUE(RingExists(0));
  EXPECT_FALSE(fs::exists(root_ + "/run/daemon.sock"));
  EXPECT_FALSE(fs::exists(root_ + "/address"));
  StartDaemon();
  controller_->SetPlan(NodePlanOf({}));
  controller_->WaitForHello(2);
  controller_->WaitForReport([](const v1::NodeReport& r) { return r.trainers_size() == 0; });
  EXPECT_EQ(End(SIGTERM), kExitOk);
  EXPECT_FALSE(fs::exists(root_ + "/run"));
}

TEST_F(DaemonTest, StateInUseHasItsExitCode) {
  StartDaemon();
  controller_->WaitForHello();
  std::vector<std::string> arguments = Arguments();
  *std::find(arguments.begin(), arguments.end(), root_ + "/run") = root_ + "/run2";
  const auto [code, said] = RunToEnd(arguments);
  EXPECT_EQ(code, kExitStateInUse);
  EXPECT_EQ(Count(said, "\n"), 1) << said;
  EXPECT_THAT(said, HasSubstr(root_ + "/state"));
}

TEST_F(DaemonTest, StateThatCannotBeWrittenHasItsExitCode) {
  std::ofstream(root_ + "/state") << "a file";
  const auto [code, said] = RunToEnd(Arguments());
  EXPECT_EQ(code, kExitStateNotWritable);
  EXPECT_EQ(Count(said, "\n"), 1) << said;
}

TEST_F(DaemonTest, DamagedStateHasItsExitCode) {
  fs::create_directory(root_ + "/state");
  std::ofstream(root_ + "/state/node.json") << "{";
  EXPECT_EQ(RunToEnd(Arguments()).first, kExitStateDamaged);
  EXPECT_EQ(Contents(root_ + "/state/node.json"), "{");
}

TEST_F(DaemonTest, AddressInUseHasItsExitCode) {
  std::vector<std::string> arguments = Arguments();
  arguments.insert(arguments.end(), {"--listen", controller_address_});
  EXPECT_EQ(RunToEnd(arguments).first, kExitCannotListen);
}

}  // namespace
}  // namespace paceline
