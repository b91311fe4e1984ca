#include "worker/daemon/trainers/trainer_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/job_spec/job_spec.h"
#include "worker/daemon/core/standby_program.h"
#include "worker/daemon/trainers/command_words.h"

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST(TrainerEnvironmentTest, KeepsWhatIsListedAndNothingElse) {
  EXPECT_THAT(ScrubEnvironment({"PATH=/bin", "PATHS=x", "AWS_SECRET=1", "NCCL_DEBUG=INFO",
                                "XNCCL_=1", "LC_ALL=C", "NAKED"}),
              ElementsAre("PATH=/bin", "NCCL_DEBUG=INFO", "LC_ALL=C"));
}

TEST(TrainerEnvironmentTest, CredentialsOfStoresAreApart) {
  EXPECT_THAT(
      StoreEnvironment({"PATH=/bin", "AWS_SECRET_ACCESS_KEY=1", "XAWS_=1",
                        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=/t", "no_proxy=a", "NAKED"}),
      ElementsAre("AWS_SECRET_ACCESS_KEY=1", "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE=/t", "no_proxy=a"));
}

TEST(TrainerEnvironmentTest, OnlyTrainersThatReadObjectsGetCredentialsOfStores) {
  const auto environment = [](const v1::JobSpec& spec) {
    return TrainerEnvironment({"PATH=/bin"}, {"AWS_SECRET_ACCESS_KEY=1"}, spec);
  };
  v1::JobSpec spec;
  spec.mutable_data()->set_train("/data/a");
  EXPECT_THAT(environment(spec), ElementsAre("PATH=/bin"));
  spec.mutable_data()->set_eval("s3://b/k");
  EXPECT_THAT(environment(spec), ElementsAre("PATH=/bin", "AWS_SECRET_ACCESS_KEY=1"));
  spec.add_command("env");
  EXPECT_THAT(environment(spec), ElementsAre("PATH=/bin"));
}

v1::TrainerPlan Plan() {
  v1::TrainerPlan plan;
  plan.mutable_id()->set_job_id("job-1");
  plan.mutable_membership()->set_rank(5);
  plan.mutable_membership()->set_world_size(8);
  plan.mutable_membership()->set_generation(3);
  plan.mutable_local()->add_slots(6);
  plan.mutable_local()->add_slots(2);
  plan.mutable_local()->set_index(1);
  plan.mutable_local()->set_node(2);
  plan.mutable_local()->set_nodes(4);
  plan.mutable_local()->set_restarts(2);
  plan.mutable_spec()->set_max_restarts(7);
  return plan;
}

CommandSurroundings Around() {
  CommandSurroundings around;
  around.master_host = "::1";
  around.master_port = 4711;
  around.own_dir = "/own";
  around.socket = "/run/daemon.sock";
  around.threads = 3;
  return around;
}

TEST(CommandEnvironmentTest, IsThatOfTorchrun) {
  EXPECT_THAT(CommandEnvironment({"PATH=/bin"}, Plan(), Around()),
              UnorderedElementsAre(
                  "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=2",
                  "GROUP_WORLD_SIZE=4", "ROLE_NAME=default", "ROLE_RANK=5", "ROLE_WORLD_SIZE=8",
                  "MASTER_ADDR=::1", "MASTER_PORT=4711", "TORCHELASTIC_RUN_ID=job-1",
                  "TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_MAX_RESTARTS=7",
                  "TORCHELASTIC_USE_AGENT_STORE=False", "TORCHELASTIC_ERROR_FILE=/own/error.json",
                  "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "OMP_NUM_THREADS=3", "PYTHONUNBUFFERED=1",
                  "PATH=/bin", "PACELINE_JOB_ID=job-1", "PACELINE_GENERATION=3",
                  "PACELINE_DIR=/own", "PACELINE_SOCKET=/run/daemon.sock"));
}

TEST(CommandEnvironmentTest, ASessionFindsItsDaemonAndIsToldNoRank) {
  v1::TrainerPlan plan = Plan();
  plan.mutable_id()->set_generation(2);
  plan.mutable_spec()->set_session(true);
  plan.mutable_spec()->set_device(v1::CUDA);
  CommandSurroundings around = Around();
  around.ring = "/shm/ring";
  around.watch_dir = "/lib/watch";
  around.orphan_timeout_s = 7.5;
  EXPECT_THAT(CommandEnvironment({"PATH=/bin", "RANK=3", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=x"},
                                 plan, around),
              UnorderedElementsAre(
                  "OMP_NUM_THREADS=3", "PYTHONUNBUFFERED=1", "PATH=/bin", "PYTHONPATH=/lib/watch",
                  "PACELINE_SESSION=1", "PACELINE_DEVICE=cuda", "PACELINE_JOB_ID=job-1",
                  "PACELINE_GENERATION=2", "PACELINE_DIR=/own", "PACELINE_SOCKET=/run/daemon.sock",
                  "PACELINE_RING=/shm/ring", "PACELINE_ORPHAN_TIMEOUT_S=7.5"));
  around.watch_dir.clear();
  EXPECT_THAT(CommandEnvironment({}, plan, around), Not(Contains(StartsWith("PYTHONPATH"))));
  plan.mutable_spec()->set_device(v1::CPU);
  EXPECT_THAT(CommandEnvironment({}, plan, around), Contains("PACELINE_DEVICE=cpu"));
}

TEST(CommandEnvironmentTest, EachRankVariableIsOneThatAJobMayNotSet) {
  v1::TrainerPlan plan = Plan();
  plan.mutable_spec()->set_device(v1::CUDA);
  for (const bool session : {false, true}) {
    plan.mutable_spec()->set_session(session);
    for (const std::string& entry : CommandEnvironment({}, plan, Around())) {
      const std::string name = entry.substr(0, entry.find('='));
      const bool is_default = name == "OMP_NUM_THREADS" || name == "PYTHONUNBUFFERED" ||
                              name == "TORCH_NCCL_ASYNC_ERROR_HANDLING";
      EXPECT_NE(IsRankVariable(name), is_default) << name;
    }
  }
}

TEST(CommandEnvironmentTest, TheJobsVariablesGoBeforeThoseThatArePassedOn) {
  v1::TrainerPlan plan = Plan();
  auto& given = *plan.mutable_spec()->mutable_environment();
  given["OMP_NUM_THREADS"] = "1";
  given["A"] = "x=y";
  given["PATH"] = "/mine";
  plan.mutable_spec()->set_venv("/venv");
  const auto entries = CommandEnvironment({"A=old", "PYTHONHOME=/x", "B=1"}, plan, Around());
  EXPECT_THAT(entries, IsSupersetOf({"A=x=y", "B=1", "OMP_NUM_THREADS=1", "PATH=/venv/bin:/mine",
                                     "VIRTUAL_ENV=/venv"}));
  EXPECT_THAT(entries, Not(Contains(StartsWith("PYTHONHOME"))));
}

TEST(CommandEnvironmentTest, GpusOfTheNodeAreInTheOrderOfRanks) {
  v1::TrainerPlan plan = Plan();
  EXPECT_THAT(CommandEnvironment({}, plan, Around()), Not(Contains(StartsWith("CUDA_"))));
  plan.mutable_spec()->set_device(v1::CUDA);
  EXPECT_THAT(CommandEnvironment({}, plan, Around()), Contains("CUDA_VISIBLE_DEVICES=6,2"));
}

TEST(CommandEnvironmentTest, WatchingComesFirstInThePathOfPython) {
  CommandSurroundings around = Around();
  around.ring = "/shm/ring";
  around.watch_dir = "/lib/watch";
  v1::TrainerPlan plan = Plan();
  EXPECT_THAT(CommandEnvironment({}, plan, around),
              IsSupersetOf({"PACELINE_RING=/shm/ring", "PYTHONPATH=/lib/watch"}));
  (*plan.mutable_spec()->mutable_environment())["PYTHONPATH"] = "/mine";
  EXPECT_THAT(CommandEnvironment({}, plan, around), Contains("PYTHONPATH=/lib/watch:/mine"));
}

TEST(CommandEnvironmentTest, CollectivesOfAWatchedCommandAreRecorded) {
  CommandSurroundings around = Around();
  v1::TrainerPlan plan = Plan();
  const auto recorder = AnyOf(StartsWith("TORCH_FR_"), StartsWith("TORCH_NCCL_TRACE_"));
  EXPECT_THAT(CommandEnvironment({}, plan, around), Not(Contains(recorder)));
  around.ring = "/shm/ring";
  EXPECT_THAT(CommandEnvironment({}, plan, around), Contains("TORCH_FR_BUFFER_SIZE=2000"));
  EXPECT_THAT(CommandEnvironment({"TORCH_FR_BUFFER_SIZE=0"}, plan, around),
              Contains("TORCH_FR_BUFFER_SIZE=0"));
  // torch warns about its old name.
  (*plan.mutable_spec()->mutable_environment())["TORCH_NCCL_TRACE_BUFFER_SIZE"] = "7";
  EXPECT_THAT(CommandEnvironment({}, plan, around), Not(Contains(StartsWith("TORCH_FR_"))));
}

const std::optional<ProcessEnd> kExitedOne = ProcessEnd{1, 0, false, ""};

TEST(CommandWordsTest, ExitZeroIsTheEnd) {
  EXPECT_TRUE(CommandWords(ProcessEnd{}, "", "ValueError: handled").finished);
  EXPECT_FALSE(CommandWords(kExitedOne, "", "").finished);
  EXPECT_EQ(CommandWords(kExitedOne, "", "no error here\n").kind, FailureKind::kNone);
}

TEST(CommandWordsTest, TheLastTracebackIsTheError) {
  const char* const log =
      "step 3\n"
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n"
      "KeyError: 'x'\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    g()\n"
      "mine.Broken: shard 3 is short\nsecond line\n";
  const LastWords words = CommandWords(kExitedOne, "", log);
  EXPECT_EQ(words.kind, FailureKind::kError);
  EXPECT_EQ(words.message, "mine.Broken: shard 3 is short");
}

TEST(CommandWordsTest, RanksInFrontOfLinesAreNoPartOfThem) {
  EXPECT_EQ(CommandWords(kExitedOne, "",
                         "[rank2]: Traceback (most recent call last):\n"
                         "[rank2]:   File \"a.py\", line 7, in <module>\n"
                         "[rank2]:     raise ValueError(1)\n[rank2]: ValueError: 1\n")
                .message,
            "ValueError: 1");
}

TEST(CommandWordsTest, AWrapperKnowsLessThanItsProgram) {
  const std::string wrapper =
      "Traceback (most recent call last):\n  File \"launch.py\", line 1, in <module>\n"
      "subprocess.CalledProcessError: Command '['python', 'a.py']' returned non-zero exit status "
      "1.\n";
  const std::string program =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: 1\n";
  EXPECT_EQ(CommandWords(kExitedOne, "", program + wrapper).message, "ValueError: 1");
  EXPECT_THAT(CommandWords(kExitedOne, "", wrapper).message, StartsWith("subprocess.Called"));
}

TEST(CommandWordsTest, ASyntaxErrorHasNoTraceback) {
  EXPECT_EQ(
      CommandWords(kExitedOne, "",
                   "  File \"/a.py\", line 1\n    def\n       ^\nSyntaxError: invalid syntax\n")
          .message,
      "SyntaxError: invalid syntax");
}

TEST(CommandWordsTest, TheFileOfTorchElasticSaysMoreThanTheLog) {
  const std::string file =
      R"({"message": {"message": "ValueError: in main\nmore", "extraInfo": {"py_callstack": "...",
          "timestamp": "1700000000"}}})";
  EXPECT_EQ(CommandWords(kExitedOne, file, "RuntimeError: in log").message, "ValueError: in main");
  EXPECT_EQ(CommandWords(kExitedOne, R"({"message": "short"})", "").message, "short");
  for (const char* broken : {"{", "[]", "{\"message\": 3}", "{\"other\": 1}"}) {
    EXPECT_EQ(CommandWords(kExitedOne, broken, "RuntimeError: in log").message,
              "RuntimeError: in log")
        << broken;
  }
}

TEST(CommandWordsTest, WhatFollowsFromAPeersEndIsToldApart) {
  const auto kind = [](const std::string& line) {
    return CommandWords(kExitedOne, "", "Traceback (most recent call last):\n  File\n" + line).kind;
  };
  EXPECT_EQ(kind("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] "
                 "Connection closed by peer [127.0.0.1]:19350"),
            FailureKind::kCollective);
  EXPECT_EQ(kind("torch.distributed.DistBackendError: NCCL error in: ..., remote process exited"),
            FailureKind::kCollective);
  EXPECT_EQ(kind("torch.OutOfMemoryError: CUDA out of memory. Tried"), FailureKind::kOutOfMemory);
  EXPECT_EQ(kind("MemoryError"), FailureKind::kOutOfMemory);
  EXPECT_EQ(kind("ValueError: 3"), FailureKind::kError);
  EXPECT_EQ(
      kind("torch.distributed.DistNetworkError: The server socket has failed to listen on any "
           "local network address. port: 4711, code: -98, name: EADDRINUSE"),
      FailureKind::kError);
}

TEST(CommandWordsTest, ASignalFromOutsideSaysNothing) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    EXPECT_EQ(CommandWords(ProcessEnd{0, signal, false, ""}, "", "ValueError: 3\n").kind,
              FailureKind::kNone);
  }
  EXPECT_EQ(CommandWords(ProcessEnd{0, SIGABRT, false, ""}, "",
                         "terminate called after throwing an instance of 'c10::DistBackendError'\n"
                         "  what():  Watchdog caught collective operation timeout\n")
                .message,
            "Watchdog caught collective operation timeout");
}

std::string Text(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) text.append(entry).push_back('\0');
  return text;
}

TEST(SameRankTest, ALaterStartOfARankIsAsTheOneBefore) {
  const v1::TrainerPlan before = Plan();
  v1::TrainerPlan after = before;
  after.mutable_membership()->set_generation(4);
  after.mutable_local()->set_restarts(3);
  CommandSurroundings around = Around();
  around.master_host = "w7";
  around.master_port = 1;
  around.own_dir = "/other";
  const auto same = [&](const v1::TrainerPlan& plan, const std::vector<std::string>& passed_on) {
    return IsSameRank(Text(CommandEnvironment({"PATH=/bin"}, before, Around())),
                      Text(CommandEnvironment(passed_on, plan, around)));
  };
  EXPECT_TRUE(same(after, {"PATH=/bin"}));
  EXPECT_FALSE(same(after, {"PATH=/usr/bin"}));
  EXPECT_FALSE(same(after, {"PATH=/bin", "HF_HOME=/data"}));
  after.mutable_membership()->set_rank(4);
  EXPECT_FALSE(same(after, {"PATH=/bin"}));
  after = before;
  after.mutable_local()->set_index(0);
  EXPECT_FALSE(same(after, {"PATH=/bin"}));
}

std::string StandbyOf(const std::vector<std::string>& command) {
  const auto program = StandbyProgram(command, "S");
  return program.ok() ? absl::StrJoin(*program, " ") : std::string(program.status().message());
}

TEST(StandbyProgramTest, TakesTheOptionsOfTheInterpreter) {
  EXPECT_EQ(StandbyOf({"python3", "train.py", "-m", "-c"}), "python3 S train.py -m -c");
  EXPECT_EQ(StandbyOf({"/v/bin/python3.11", "-u", "-W", "error", "-Xdev", "t.py"}),
            "/v/bin/python3.11 -u -W error -Xdev S t.py");
  EXPECT_EQ(StandbyOf({"python", "-m", "net.train", "--lr", "1"}), "python S -m net.train --lr 1");
}

TEST(StandbyProgramTest, SaysWhyThereCanBeNone) {
  const std::string no_python = "the command does not begin with a Python interpreter";
  for (const char* program : {"bash", "accelerate", "pythonic", "python3-config"}) {
    EXPECT_EQ(StandbyOf({program, "train.py"}), no_python);
  }
  EXPECT_EQ(StandbyOf({"python3", "-E", "t.py"}), "the interpreter is started with -E");
  EXPECT_EQ(StandbyOf({"python3", "-c", "1"}), "the interpreter is started with -c");
  EXPECT_EQ(StandbyOf({"python3", "-"}), "the interpreter is started with -");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"python3"}, {"python3", "-u"}, {"python3", "-m"}}) {
    EXPECT_EQ(StandbyOf(command), "the interpreter is started without a script");
  }
}

}  // namespace
}  // namespace paceline
