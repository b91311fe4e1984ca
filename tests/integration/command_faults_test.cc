// Programs of people's own that behave badly, and a node that stands still while they start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/command_job.h"
#include "worker/daemon/trainers/reserved_port.h"

namespace paceline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  // The port that w0 has recorded as reserved for rank 0.
  std::string Port() const {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(cluster_.WorkerFile(0, "state"))) {
      if (entry.path().filename() == "port") return ReadFile(entry.path().string());
    }
    return "";
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
  const std::string id = SubmitWithStoppedNode("echo -n $MASTER_PORT > port$RANK");
  const std::string port = Port();
  int number = 0;
  ASSERT_TRUE(absl::SimpleAtoi(port, &number)) << port;
  // While there is no daemon, no other program may get it.
  const absl::StatusOr<ReservedPort> held = ReservedPort::Take(number);
  ASSERT_TRUE(held.ok()) << held.status();
  cluster_.KillWorker(0);
  cluster_.StartWorker(0);
  ::kill(cluster_.WorkerPid(1), SIGCONT);
  const v1::Job job = cluster_.WaitForEnd(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.reason();
  EXPECT_EQ(job.ranks(0).node(), "w0");
  EXPECT_EQ(Port(), port);
  for (const char* rank : {"port0", "port1", "port2"}) EXPECT_EQ(ReadFile(File(rank)), port);
}

}  // namespace
}  // namespace paceline
