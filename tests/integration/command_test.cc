// Programs of people's own as ranks, under real daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "tests/integration/command_job.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
