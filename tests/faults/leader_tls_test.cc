// Standby controllers and mutual TLS together: identities survive a change of the leader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/exit_codes.h"
#include "tests/etcd/etcd_cluster.h"
#include "tests/faults/controller_group.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Of cli/exit_codes.h.
constexpr int kNotPermitted = 5;

// Two controllers with one authority, made by `paceline pki`, and workers on demand.
class LeaderTlsTest : public ::testing::Test {
 protected:
  ~LeaderTlsTest() override {
    workers_.clear();
    std::filesystem::remove_all(runtime_);
  }

  std::string MakeAuthority() const {
    const Finished made = RunToEnd({Program("paceline"), "pki", "init", directory_ + "/pki",
                                    "--host", "127.0.0.1", "--admin", "ann"});
    EXPECT_EQ(made.exit_code, 0) << made.output;
    return directory_ + "/pki";
  }

  Finished Paceline(std::vector<std::string> arguments, const std::string& who = "admin") const {
    arguments.insert(arguments.begin(), {Program("paceline"), "--server", controllers_.Addresses(),
                                         "--timeout", "30", "--tls-dir", pki_ + "/" + who});
    return RunToEnd(arguments);
  }
  bool IsReady(const std::string& node) const {
    const Finished listed = Paceline({"node", "list", "--state", "ready", "-o", "name"});
    return listed.exit_code == 0 && absl::StrContains(listed.output, node);
  }
  std::string Token(const std::string& node) const {
    const std::string file = absl::StrCat(directory_, "/", node, ".token");
    const Finished made = Paceline({"pki", "token", node, "--out", file, "--owner", "ann"});
    EXPECT_EQ(made.exit_code, 0) << made.output;
    return file;
  }
  // Flags of a worker that joins as `node` with the token in the file and keeps its files in `dir`.
  std::vector<std::string> Joining(const std::string& node, const std::string& token,
                                   const std::string& dir) const {
    return {Program("paceline-worker"),
            "--controller=" + controllers_.Addresses(),
            "--name=" + node,
            "--slots=1",
            "--state-dir=" + directory_ + "/" + dir,
            "--runtime-dir=" + runtime_ + "/" + dir,
            "--ca=" + pki_ + "/ca/ca.pem",
            "--join-token-file=" + token};
  }
  std::string WorkerLog(const std::string& node) const {
    return ReadFile(directory_ + "/" + node + ".log");
  }
  void StartWorker(const std::string& node, const std::string& token) {
    workers_.push_back(
        std::make_unique<Process>(Joining(node, token, node), directory_ + "/" + node + ".log"));
    EXPECT_TRUE(Eventually([&] { return IsReady(node); })) << WorkerLog(node);
  }

  const std::string directory_ = NewFolder();
  const std::string runtime_ = NewFolder("/dev/shm");
  const std::string pki_ = MakeAuthority();
  EtcdCluster etcd_{3};
  ControllerGroup controllers_{
      etcd_, 2, {}, {"--tls-dir=" + pki_ + "/controller", "--ca-dir=" + pki_ + "/ca"}};
  std::vector<std::unique_ptr<Process>> workers_;
};

TEST_F(LeaderTlsTest, TheNextLeaderKnowsWhoJoinedAndWhoWasRevoked) {
  const Finished issued = RunToEnd({Program("paceline"), "pki", "issue", "submitter", "bob",
                                    "--ca-dir", pki_ + "/ca", "--out", pki_ + "/bob"});
  ASSERT_EQ(issued.exit_code, 0) << issued.output;
  const int first = controllers_.WaitForLeader();
  const std::string used = Token("w0");
  StartWorker("w0", used);
  const std::string unused = Token("w1");
  EXPECT_EQ(Paceline({"job", "list"}, "bob").exit_code, 0);
  const Finished revoked = Paceline({"pki", "revoke", "submitter/bob", "--reason", "left"});
  ASSERT_EQ(revoked.exit_code, 0) << revoked.output;
  EXPECT_EQ(Paceline({"job", "list"}, "bob").exit_code, kNotPermitted);

  controllers_.Kill(first);
  controllers_.WaitForLeaderAfter(first);
  // Worker and users follow the new leader, with the same credentials as before.
  EXPECT_TRUE(Eventually([&] { return IsReady("w0"); })) << WorkerLog("w0");
  const Finished bob = Paceline({"job", "list"}, "bob");
  EXPECT_EQ(bob.exit_code, kNotPermitted) << bob.output;
  EXPECT_THAT(bob.output, HasSubstr("left"));
  const Finished thief = RunToEnd(Joining("w0", used, "thief"));
  EXPECT_EQ(thief.exit_code, kExitNoIdentity) << thief.output;
  EXPECT_THAT(thief.output, HasSubstr("the join token has been used, by another key"));
  StartWorker("w1", unused);
  controllers_.Start(first);
  controllers_.ExpectOneLeaderAtATime();
}

}  // namespace
}  // namespace paceline
