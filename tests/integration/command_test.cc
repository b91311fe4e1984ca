// Programs of people's own as ranks, under real daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TestNetwork WithCommands(const std::string& commands) {
  TestNetwork network;
  network.commands = commands;
  return network;
}

class CommandJobTest : public ::testing::Test {
 protected:
  v1::JobSpec Job(int ranks, const std::vector<std::string>& command) const {
    v1::JobSpec spec;
    spec.set_name("own");
    spec.set_ranks(ranks);
    spec.mutable_command()->Add(command.begin(), command.end());
    spec.set_working_directory(cluster_.directory());
    return spec;
  }
  v1::JobSpec Bash(int ranks, const std::string& script) const {
    return Job(ranks, {"bash", "-c", script});
  }
  v1::JobSpec Python(int ranks, const std::string& script) const {
    return Job(ranks, {"/usr/bin/python3", "-c", script});
  }
  void Cancel(const std::string& id) {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_job(id);
    request.set_request_id("cancel");
    v1::Job job;
    const grpc::Status status =
        v1::JobService::NewStub(cluster_.channel())->Cancel(&context, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  std::string File(const std::string& name) const {
    return absl::StrCat(cluster_.directory(), "/", name);
  }

  TestCluster cluster_{2, 2, WithCommands("on")};
};

TEST_F(CommandJobTest, RanksOnTwoNodesRendezvousAsUnderTorchrun) {
  // Rank 0 opens a store where the others look for it.
  const v1::Job job = cluster_.WaitForEnd(cluster_
                                              .Submit(Python(4, R"(
import os, socket
e = os.environ
print(*(e[k] for k in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "WORLD_SIZE")))
place = (e["MASTER_ADDR"], int(e["MASTER_PORT"]))
if e["RANK"] == "0":
    with socket.create_server(place, reuse_port=False) as store:
        told = sorted(store.accept()[0].recv(9).decode() for _ in range(3))
    print("met", *told)
else:
    while True:
        try:
            socket.create_connection(place).sendall(e["RANK"].encode())
            break
        except ConnectionRefusedError:
            pass
)"))
                                              .id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  EXPECT_EQ(cluster_.Log(job.id(), 0), "0 0 2 0 4\nmet 1 2 3\n");
  EXPECT_EQ(cluster_.Log(job.id(), 1), "1 1 2 0 4\n");
  EXPECT_EQ(cluster_.Log(job.id(), 2), "2 0 2 1 4\n");
  EXPECT_EQ(cluster_.Log(job.id(), 3), "3 1 2 1 4\n");
  EXPECT_NE(job.ranks(1).node(), job.ranks(2).node());
}

TEST_F(CommandJobTest, EachNodeRunsAsManyRanksAsTheJobSays) {
  v1::JobSpec spec = Bash(2, "echo $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE");
  spec.mutable_placement()->set_ranks_per_node(1);  // One node has two slots.
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.DebugString();
  EXPECT_EQ(cluster_.Log(job.id(), 0), "0 1 0 2\n");
  EXPECT_EQ(cluster_.Log(job.id(), 1), "0 1 1 2\n");
}

TEST_F(CommandJobTest, TheFirstErrorIsTheReasonAndItsEchoesAreNot) {
  const v1::Job job = cluster_.WaitForEnd(cluster_
                                              .Submit(Python(2, R"(
import os, time
if os.environ["RANK"] == "1":
    raise ValueError("shard 7 is short")
while not os.path.exists("never"):
    time.sleep(0.01)
)"))
                                              .id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().rank(), 1);
  EXPECT_EQ(job.failure().exit().failure(), v1::FAILURE_ERROR);
  EXPECT_EQ(job.failure().exit().exit_code(), 1);
  EXPECT_EQ(job.failure().exit().message(), "ValueError: shard 7 is short");
  EXPECT_THAT(job.failure().exit().log_tail(), HasSubstr("Traceback (most recent call last)"));
  EXPECT_THAT(job.reason(), AllOf(StartsWith("rank 1 on "), HasSubstr("shard 7 is short")));
}

TEST_F(CommandJobTest, AProgramThatIsNotThereIsSaid) {
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(Job(1, {"no-such-program"})).id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_THAT(job.reason(), HasSubstr("cannot start no-such-program: No such file or directory"));
}

TEST_F(CommandJobTest, ARestartHasAnotherPortAndKnowsItsNumber) {
  v1::JobSpec spec =
      Bash(1,
           "echo $MASTER_PORT $TORCHELASTIC_RESTART_COUNT $PACELINE_GENERATION >> starts; "
           "test $TORCHELASTIC_RESTART_COUNT = 2");
  spec.set_max_restarts(5);
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(job.restarts(), 2);
  const std::vector<std::string> starts =
      absl::StrSplit(ReadFile(File("starts")), '\n', absl::SkipEmpty());
  ASSERT_EQ(starts.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(starts[i], EndsWith(absl::StrCat(" ", i, " ", i + 1)));
  }
}

TEST_F(CommandJobTest, AStopGivesTheProgramItsGrace) {
  v1::JobSpec spec = Bash(1,
                          "trap 'echo saved > saved; exit 0' TERM; echo ready > ready; "
                          "while true; do sleep 0.01; done");
  spec.set_stop_grace_s(60);
  const std::string id = cluster_.Submit(spec).id();
  ASSERT_TRUE(Eventually([&] { return ReadFile(File("ready")) == "ready\n"; }));
  Cancel(id);
  EXPECT_EQ(cluster_.WaitForEnd(id).state(), v1::CANCELLED);
  EXPECT_EQ(ReadFile(File("saved")), "saved\n");
}

TEST_F(CommandJobTest, WhoIgnoresAStopIsKilled) {
  v1::JobSpec spec = Bash(1, "trap '' TERM; echo $$ > ready; while true; do sleep 0.01; done");
  spec.set_stop_grace_s(0.1);
  const std::string id = cluster_.Submit(spec).id();
  ASSERT_TRUE(Eventually([&] { return !ReadFile(File("ready")).empty(); }));
  Cancel(id);
  const v1::Job job = cluster_.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::CANCELLED);
  EXPECT_EQ(job.ranks(0).exit().signal(), SIGKILL);
}

TEST_F(CommandJobTest, NothingIsLostWithTheDaemon) {
  const std::string id =
      cluster_
          .Submit(Bash(1,
                       "i=0; until test -e go; do i=$((i+1)); echo line $i; sleep 0.01; "
                       "done; echo last $i"))
          .id();
  const v1::Job job = cluster_.WaitUntil(
      id, [](const v1::Job& now) { return now.state() == v1::RUNNING && now.ranks(0).pid() != 0; });
  const int w = job.ranks(0).node() == "w0" ? 0 : 1;
  ASSERT_TRUE(Eventually([&] { return absl::StrContains(cluster_.Log(id, 0), "line 5\n"); }));
  cluster_.KillWorker(w);
  cluster_.StartWorker(w);
  cluster_.WaitForNodes(2);
  std::ofstream(File("go")) << "";
  const v1::Job ended = cluster_.WaitForEnd(id);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  EXPECT_EQ(ended.ranks(0).pid(), job.ranks(0).pid());
  std::string expected;
  const std::string log = cluster_.Log(id, 0);
  for (int i = 1; expected.size() + 16 < log.size(); ++i)
    absl::StrAppend(&expected, "line ", i, "\n");
  EXPECT_THAT(log, StartsWith(expected));
  EXPECT_THAT(log, HasSubstr("last "));
}

TEST_F(CommandJobTest, AJobThatWaitsForItsSlotsIsCancelledAndTheOneBeforeItGoesOn) {
  const std::string first = cluster_.Submit(Bash(4, "until test -e go; do sleep 0.01; done")).id();
  cluster_.WaitUntil(first, [](const v1::Job& now) { return now.state() == v1::RUNNING; });
  const std::string second = cluster_.Submit(Bash(2, "echo never")).id();
  EXPECT_EQ(cluster_.Get(second).state(), v1::QUEUED);
  Cancel(second);
  EXPECT_EQ(cluster_.WaitForEnd(second).state(), v1::CANCELLED);
  std::ofstream(File("go")) << "";
  EXPECT_EQ(cluster_.WaitForEnd(first).state(), v1::SUCCEEDED);
}

TEST_F(CommandJobTest, AQuietProgramIsToldOfAndNeverCalledSlow) {
  v1::JobSpec spec = Bash(2,
                          "mkfifo pipe$RANK; until ((RANK)) || test -e go; do echo on; done; "
                          "((RANK == 0)) || read line < pipe1");
  spec.set_stall_warning_s(1);
  const std::string id = cluster_.Submit(spec).id();
  const v1::Job job = cluster_.WaitUntil(
      id, [](const v1::Job& now) { return absl::StrContains(now.reason(), "quiet"); });
  EXPECT_THAT(job.reason(), AllOf(StartsWith("rank 1 on "), HasSubstr(" has been quiet for "),
                                  EndsWith(": no output, almost no processor time")));
  EXPECT_EQ(job.state(), v1::RUNNING) << "nothing is done about it";
  std::ofstream(File("go")) << "";
  std::ofstream(File("pipe1")) << "line\n";
  EXPECT_EQ(cluster_.WaitForEnd(id).state(), v1::SUCCEEDED);
}

TEST_F(CommandJobTest, AProgramUnderAWrapperSpeaksForItsRank) {
  // Its first status: who it is, and RUNNING (proto/trainer.proto).
  const std::string dial = R"(
import os, socket, struct
job = os.environ["PACELINE_JOB_ID"].encode()
own = bytes([10, len(job)]) + job + bytes([16, int(os.environ["PACELINE_GENERATION"])])
status = bytes([10, len(own)]) + own + bytes([24, 3])
daemon = socket.socket(socket.AF_UNIX)
daemon.connect(os.environ["PACELINE_SOCKET"])
daemon.sendall(struct.pack("<I", len(status)) + status)
print("heard" if daemon.recv(4) else "refused")
)";
  // Not the last command, because bash would exec that.
  const v1::Job job = cluster_.WaitForEnd(
      cluster_
          .Submit(Job(
              1, {"bash", "-c", "bash -c '/usr/bin/python3 -c \"$0\"; true' \"$0\"; true", dial}))
          .id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(cluster_.Log(job.id(), 0), "heard\n");
}

TEST_F(CommandJobTest, ADrainWaitsForItsEndAndOneThatDoesNotStartsItElsewhereAfterItsGrace) {
  v1::JobSpec spec =
      Bash(1,
           "trap 'echo saved >> saves; exit 0' TERM; echo $PACELINE_GENERATION >> starts; "
           "until test -e go; do sleep 0.01; done");
  spec.set_stop_grace_s(60);
  const std::string id = cluster_.Submit(spec).id();
  ASSERT_TRUE(Eventually([&] { return ReadFile(File("starts")) == "1\n"; }));
  const v1::Job before =
      cluster_.WaitUntil(id, [](const v1::Job& now) { return now.state() == v1::RUNNING; });
  const auto drain = [&](v1::DrainMode mode) {
    grpc::ClientContext context;
    v1::DrainNodeRequest request;
    request.set_name(before.ranks(0).node());
    request.set_request_id(absl::StrCat("drain-", mode));
    request.set_owner("ann");
    request.set_reason("its fan is loud");
    request.set_mode(mode);
    v1::DrainNodeResponse response;
    const grpc::Status status =
        v1::NodeService::NewStub(cluster_.channel())->Drain(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.node().state();
  };
  EXPECT_EQ(drain(v1::DRAIN_SWAP), v1::NODE_DRAINING);
  EXPECT_EQ(ReadFile(File("saves")), "");
  drain(v1::DRAIN_NOW);
  ASSERT_TRUE(Eventually([&] { return ReadFile(File("starts")) == "1\n2\n"; }));
  EXPECT_EQ(ReadFile(File("saves")), "saved\n");
  std::ofstream(File("go")) << "";
  const v1::Job after = cluster_.WaitForEnd(id);
  EXPECT_EQ(after.state(), v1::SUCCEEDED) << after.reason();
  EXPECT_NE(after.ranks(0).node(), before.ranks(0).node());
  EXPECT_EQ(after.restarts(), 0) << "a drain is no failure of the job";
  grpc::ClientContext context;
  v1::ResumeNodeRequest resume;
  resume.set_name(before.ranks(0).node());
  resume.set_request_id("resume");
  resume.set_owner("ann");
  v1::Node node;
  const grpc::Status resumed =
      v1::NodeService::NewStub(cluster_.channel())->Resume(&context, resume, &node);
  EXPECT_TRUE(resumed.ok()) << resumed.error_message();
}

// ---- Programs that behave badly.

TEST_F(CommandJobTest, ARankThatIsKilledIsTheReasonWhateverTheOthersSay) {
  // Rank 0 waits for rank 1, which is killed in the middle, and fails as a collective does.
  const v1::Job job = cluster_.WaitForEnd(cluster_
                                              .Submit(Python(2, R"(
import os, signal, socket
e = os.environ
place = (e["MASTER_ADDR"], int(e["MASTER_PORT"]))
if e["RANK"] == "0":
    with socket.create_server(place) as store:
        if not store.accept()[0].recv(1):
            raise ConnectionResetError("Connection reset by peer")
while True:
    try:
        peer = socket.create_connection(place)
        break
    except ConnectionRefusedError:
        pass
os.kill(os.getpid(), signal.SIGKILL)
)"))
                                              .id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().rank(), 1) << job.reason();
  EXPECT_EQ(job.failure().exit().signal(), SIGKILL);
}

TEST_F(CommandJobTest, WhoIsKilledByOthersWhileItIsAskedToEndIsTheReason) {
  // Like a rank whose end is seen after that of the rank that missed it, and so after the stop.
  const v1::Job job = cluster_.WaitForEnd(
      cluster_
          .Submit(Bash(2,
                       "if test $RANK = 0; then until test -e ready; do sleep 0.01; done; "
                       "echo 'ConnectionResetError: Connection reset by peer'; exit 1; fi; "
                       "trap 'kill -KILL $$' TERM; touch ready; while true; do sleep 0.01; done"))
          .id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.failure().rank(), 1) << job.reason();
  EXPECT_EQ(job.failure().exit().signal(), SIGKILL);
}

TEST_F(CommandJobTest, ARankThatIsKilledAtItsStartOrBehindTheOthersEndIsTheReason) {
  for (const char* script : {"((RANK == 0)) || kill -9 $$; read line < pipe",
                             "((RANK == 0)) && exec touch done; until test -e done; do sleep 0.01; "
                             "done; kill -9 $$"}) {
    const v1::Job job = cluster_.WaitForEnd(
        cluster_.Submit(Bash(2, absl::StrCat("mkfifo pipe 2> none; ", script))).id());
    EXPECT_EQ(job.state(), v1::FAILED) << script;
    EXPECT_EQ(job.failure().rank(), 1) << job.reason();
    EXPECT_EQ(job.failure().exit().signal(), SIGKILL);
  }
}

TEST_F(CommandJobTest, WhatItLeavesBehindIsKilledAndHoldsNobodyUp) {
  // A child that keeps the output, and a daemon that has left session and group.
  const v1::Job job = cluster_.WaitForEnd(
      cluster_
          .Submit(
              Bash(1,
                   "bash -c 'echo $$ > child; while true; do sleep 1; done' & "
                   "(setsid bash -c '(echo $BASHPID > daemon; while true; do sleep 1; done) &') & "
                   "until test -s child -a -s daemon; do sleep 0.01; done; echo end"))
          .id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(cluster_.Log(job.id(), 0), "end\n");
  for (const char* name : {"child", "daemon"}) {
    EXPECT_NE(::kill(std::stoi(ReadFile(File(name))), 0), 0) << name;
  }
}

TEST_F(CommandJobTest, ARankThatIsKilledTakesItsChildrenAlongBeforeTheNextStart) {
  v1::JobSpec spec = Bash(
      1,
      "if test $TORCHELASTIC_RESTART_COUNT = 1; then kill -0 $(cat child); exit $((! $?)); fi; "
      "bash -c 'echo $$ > child; trap \"\" TERM; while true; do sleep 1; done' & "
      "until test -s child; do sleep 0.01; done; kill -9 $$");
  spec.set_max_restarts(1);
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(job.restarts(), 1);
}

TEST_F(CommandJobTest, AnyBytesAreItsOutputAndNoneIsToo) {
  const v1::Job bytes =
      cluster_.WaitForEnd(cluster_.Submit(Bash(1, "printf '\\xff\\x00\\x1b[2J no end'")).id());
  EXPECT_EQ(bytes.state(), v1::SUCCEEDED) << bytes.reason();
  EXPECT_EQ(cluster_.Log(bytes.id(), 0), std::string("\xff\x00\x1b[2J no end", 13));
  const v1::Job closed =
      cluster_.WaitForEnd(cluster_.Submit(Bash(1, "exec >&- 2>&-; sleep 0.01; exit 3")).id());
  EXPECT_EQ(closed.failure().exit().exit_code(), 3) << closed.reason();
  EXPECT_EQ(cluster_.Log(closed.id(), 0), "");
}

TEST_F(CommandJobTest, ItsWorkingDirectoryMayGo) {
  std::filesystem::create_directory(File("own"));
  v1::JobSpec spec = Bash(1, "cd /; rmdir $OLDPWD; echo gone; bash -c 'echo child'");
  spec.set_working_directory(File("own"));
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(cluster_.Log(job.id(), 0), "gone\nchild\n");
  const v1::Job again = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_THAT(again.reason(),
              HasSubstr(absl::StrCat("working_directory ", File("own"), ": No such")));
}

TEST_F(CommandJobTest, MuchOutputHoldsNothingUp) {
  const v1::Job job = cluster_.WaitForEnd(
      cluster_.Submit(Bash(1, "yes 0123456789abcde | head -c 20000000; echo; echo end")).id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  const std::string log = cluster_.Log(job.id(), 0);
  EXPECT_EQ(log.size(), 20000005u);
  EXPECT_THAT(log.substr(log.size() - 6), EndsWith("\nend\n"));
}

TEST_F(CommandJobTest, AnInterpreterThatIsNotThereIsSaid) {
  std::ofstream(File("own.py")) << "#!/no/such/python3\n";
  std::filesystem::permissions(File("own.py"), std::filesystem::perms::owner_all);
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(Job(1, {"./own.py"})).id());
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_THAT(job.reason(), HasSubstr("cannot start ./own.py: No such file or directory"));
}

TEST_F(CommandJobTest, AModuleThatAVirtualEnvironmentLacksIsSaid) {
  std::filesystem::create_directories(File("venv/bin"));
  std::filesystem::create_symlink("/usr/bin/python3", File("venv/bin/python3"));
  v1::JobSpec spec = Job(1, {"python3", "-c", "import sys; print(sys.executable); import torsh"});
  spec.set_venv(File("venv"));
  const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_EQ(job.failure().exit().message(), "ModuleNotFoundError: No module named 'torsh'");
  EXPECT_THAT(cluster_.Log(job.id(), 0), StartsWith(File("venv/bin/python3")));
}

TEST_F(CommandJobTest, ASyntaxErrorIsSaidOnce) {
  std::ofstream(File("own.py")) << "x = 1\ndef f(:\n";
  const v1::Job job =
      cluster_.WaitForEnd(cluster_.Submit(Job(1, {"/usr/bin/python3", "own.py"})).id());
  EXPECT_EQ(job.failure().exit().message(), "SyntaxError: invalid syntax");
  const std::vector<std::string> parts = absl::StrSplit(cluster_.Log(job.id(), 0), "SyntaxError");
  EXPECT_EQ(parts.size(), 2u) << cluster_.Log(job.id(), 0);
}

TEST_F(CommandJobTest, PythonFindsWhatItsUserHasSetUp) {
  std::filesystem::create_directory(File("site"));
  std::ofstream(File("site/sitecustomize.py")) << "print('mine')\n";
  std::ofstream(File("site/lib.py")) << "";
  const auto run = [&](const std::vector<std::string>& flags, const std::string& code) {
    std::vector<std::string> command = {"/usr/bin/python3"};
    command.insert(command.end(), flags.begin(), flags.end());
    command.insert(command.end(), {"-c", code});
    v1::JobSpec spec = Job(1, command);
    (*spec.mutable_environment())["PYTHONPATH"] = File("site");
    (*spec.mutable_environment())["PYTHONNOUSERSITE"] = "1";
    const v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
    EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
    return cluster_.Log(job.id(), 0);
  };
  EXPECT_EQ(run({}, "import lib, site; print(site.ENABLE_USER_SITE)"), "mine\nFalse\n");
  EXPECT_EQ(run({"-E"}, "print('ran')"), "ran\n");
  EXPECT_EQ(run({"-I"}, "print('ran')"), "ran\n");
  EXPECT_EQ(run({"-S"}, "import lib; print('ran')"), "ran\n");
}

TEST_F(CommandJobTest, APortThatAStrangerHasTakenIsSaidAndTheNextStartHasAnother) {
  v1::JobSpec spec = Python(1, R"(
import os, socket
place = ("", int(os.environ["MASTER_PORT"]))
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    stranger = socket.create_server(place)
socket.create_server(place)
)");
  v1::Job job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_THAT(job.failure().exit().message(),
              StartsWith("OSError: [Errno 98] Address already in use"));
  spec.set_max_restarts(1);
  job = cluster_.WaitForEnd(cluster_.Submit(spec).id());
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
}

// ---- Between a reserved port and the start of the program: the rank of a frozen node does not
// become ready.

class UnlaunchedTest : public CommandJobTest {
 protected:
  // Submits a job of two ranks; the one on w0 waits to be launched.
  std::string SubmitWithStoppedNode(const std::string& script) {
    EXPECT_EQ(::kill(cluster_.WorkerPid(1), SIGSTOP), 0);
    v1::JobSpec spec = Bash(3, script);
    const std::string id = cluster_.Submit(spec).id();
    cluster_.WaitUntil(id, [](const v1::Job& job) {
      for (const v1::Rank& rank : job.ranks()) {
        if (rank.node() == "w0" && rank.state() != v1::TRAINER_READY) return false;
      }
      return job.ranks_size() == 3;
    });
    return id;
  }
  // Ports that w0 has recorded as reserved.
  std::set<std::string> Ports() const {
    std::set<std::string> ports;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(cluster_.WorkerFile(0, "state"))) {
      if (entry.path().filename() == "port") ports.insert(ReadFile(entry.path().string()));
    }
    return ports;
  }
};

TEST_F(UnlaunchedTest, AStopEndsIt) {
  const std::string id = SubmitWithStoppedNode("echo ran > ran");
  Cancel(id);
  cluster_.WaitUntil(id, [](const v1::Job& job) {
    for (const v1::Rank& rank : job.ranks()) {
      if (rank.node() == "w0" && rank.state() != v1::TRAINER_EXITED) return false;
    }
    return true;
  });
  ::kill(cluster_.WorkerPid(1), SIGCONT);
  const v1::Job job = cluster_.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::CANCELLED);
  for (const v1::Rank& rank : job.ranks()) {
    EXPECT_EQ(rank.exit().message(), "stopped on request before it was started") << rank.node();
  }
  EXPECT_EQ(ReadFile(File("ran")), "");
}

TEST_F(UnlaunchedTest, ADaemonThatIsReplacedReservesTheSamePort) {
  const std::string id = SubmitWithStoppedNode("echo $MASTER_PORT > port$RANK");
  const std::set<std::string> ports = Ports();
  cluster_.KillWorker(0);
  cluster_.StartWorker(0);
  ::kill(cluster_.WorkerPid(1), SIGCONT);
  EXPECT_EQ(cluster_.WaitForEnd(id).state(), v1::SUCCEEDED);
  EXPECT_EQ(Ports(), ports);
  const v1::Job job = cluster_.Get(id);
  const std::string port = ReadFile(File("port0"));
  EXPECT_EQ(ReadFile(File("port2")), port);
  if (job.ranks(0).node() == "w0") {
    EXPECT_EQ(ports.count(port.substr(0, port.size() - 1)), 1u) << port;
  }
}

// `paceline run` in a folder of its own, on a cluster that it makes.
class RunTest : public ::testing::Test {
 protected:
  RunTest() : folder_(NewFolder()) {
    ::setenv("TMPDIR", folder_.c_str(), 1);
    ::setenv("PACELINE_DEV_DIR", (folder_ + "/none").c_str(), 1);
    ::setenv("PACELINE_CONFIG", (folder_ + "/none.yaml").c_str(), 1);
  }
  ~RunTest() override {
    for (const char* name : {"TMPDIR", "PACELINE_DEV_DIR", "PACELINE_CONFIG"}) ::unsetenv(name);
  }

  std::vector<std::string> Run(const std::string& script) const {
    std::ofstream(folder_ + "/own.sh") << "cd " << folder_ << "\n" << script;
    return {Program("paceline"), "run", "bash", folder_ + "/own.sh", "--lr", "3"};
  }
  std::string Text(const std::string& name) const { return ReadFile(folder_ + "/" + name); }
  // Nothing of the cluster is left.
  void ExpectNothingLeft() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_THAT(entry.path().filename().string(), Not(StartsWith("paceline-run"))) << entry;
    }
  }

  const std::string folder_;
};

TEST_F(RunTest, EndsAsTheScriptDoesAndLeavesNothing) {
  Process run(Run("echo $RANK of $WORLD_SIZE: $*; exit 7\n"), folder_ + "/out");
  EXPECT_EQ(run.Wait(), 7);
  EXPECT_THAT(Text("out"), StartsWith("0 of 1: --lr 3\n"));
  ExpectNothingLeft();
}

TEST_F(RunTest, NodesOfTorchrunAreNodes) {
  std::vector<std::string> command = Run("echo $LOCAL_RANK of $LOCAL_WORLD_SIZE on $GROUP_RANK\n");
  command.insert(command.begin() + 2, {"--nnodes", "2", "--nproc-per-node=2", "--all-ranks"});
  Process run(command, folder_ + "/out");
  EXPECT_EQ(run.Wait(), 0);
  for (const char* line : {"0 of 2 on 0\n", "1 of 2 on 0\n", "0 of 2 on 1\n", "1 of 2 on 1\n"}) {
    EXPECT_THAT(Text("out"), HasSubstr(line));
  }
  ExpectNothingLeft();
}

TEST_F(RunTest, CtrlCStopsTheScriptAndTakesTheClusterDown) {
  Process run(Run("trap 'echo saved; exit 0' TERM\necho $$ > pid\n"
                  "while true; do sleep 0.01; done\n"),
              folder_ + "/out");
  ASSERT_TRUE(Eventually([&] { return !Text("pid").empty(); })) << Text("out");
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_THAT(Text("out"), AllOf(HasSubstr("saved\n"), HasSubstr("Ctrl-C again kills it")));
  ExpectNothingLeft();
}

TEST_F(RunTest, AClosedTerminalTakesTheClusterDownToo) {
  ::signal(SIGHUP, SIG_DFL);  // Whatever started this test.
  Process run(Run("trap 'echo saved > saved; exit 0' TERM\necho $$ > pid\n"
                  "while true; do sleep 0.01; done\n"),
              folder_ + "/out");
  ASSERT_TRUE(Eventually([&] { return !Text("pid").empty(); })) << Text("out");
  // Both the kernel and a shell may send it.
  run.Signal(SIGHUP);
  run.Signal(SIGHUP);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_EQ(Text("saved"), "saved\n");
  ExpectNothingLeft();
}

TEST_F(RunTest, ASecondCtrlCKillsTheScript) {
  std::vector<std::string> command =
      Run("trap 'echo no > no' TERM\necho $$ > pid\nwhile true; do sleep 0.01; done\n");
  command.insert(command.begin() + 2, {"--stop-grace", "1h"});
  Process run(command, folder_ + "/out");
  ASSERT_TRUE(Eventually([&] { return !Text("pid").empty(); })) << Text("out");
  run.Signal(SIGINT);
  ASSERT_TRUE(Eventually([&] { return !Text("no").empty(); })) << Text("out");
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(), 130);
  EXPECT_NE(::kill(std::stoi(Text("pid")), 0), 0);
  ExpectNothingLeft();
}

TEST(PassEnvironmentTest, AWorkersVariablesReachCommandsIfItSaysSo) {
  ::setenv("OWN_VARIABLE", "own", 1);
  for (const bool passes : {false, true}) {
    TestNetwork network = WithCommands("on");
    network.worker_flags = [passes](int) {
      std::vector<std::string> flags = {"--plaintext"};
      if (passes) flags.emplace_back("--pass-environment");
      return flags;
    };
    TestCluster cluster(1, 1, network);
    v1::JobSpec spec;
    spec.set_name("own");
    spec.set_ranks(1);
    spec.set_working_directory("/");
    for (const char* word : {"bash", "-c", "echo \"<$OWN_VARIABLE>\""}) spec.add_command(word);
    const v1::Job job = cluster.WaitForEnd(cluster.Submit(spec).id());
    EXPECT_EQ(cluster.Log(job.id(), 0), passes ? "<own>\n" : "<>\n");
  }
  ::unsetenv("OWN_VARIABLE");
}

TEST(CommandsOffTest, ACommandIsRefusedWithTheRemedy) {
  TestCluster cluster(1, 1, WithCommands("off"));
  v1::SubmitJobRequest request;
  request.set_request_id("request");
  request.mutable_spec()->set_name("own");
  request.mutable_spec()->add_command("true");
  request.mutable_spec()->set_working_directory("/");
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status status =
      v1::JobService::NewStub(cluster.channel())->Submit(&context, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--commands on"));
}

}  // namespace
}  // namespace paceline
