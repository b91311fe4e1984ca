// A controller that loses its state continues from a backup while its trainers still run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Exit codes of cli/exit_codes.h.
constexpr int kRefused = 4;

Finished Admin(const TestCluster& cluster, std::vector<std::string> arguments) {
  std::vector<std::string> argv = {Program("paceline")};
  for (const std::string& flag : cluster.ClientFlags()) argv.push_back(flag);
  argv.push_back("admin");
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunToEnd(argv);
}

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(BackupTest, ClusterGoesOnFromABackupAsLaterGenerations) {
  TestCluster cluster(/*workers=*/1);
  const std::string backup = cluster.directory() + "/backup.db";
  const std::string state = cluster.directory() + "/controller";
  v1::Job job = cluster.Submit(cluster.LongJob(2));
  cluster.WaitForSteps(job.id(), 2);

  const Finished made = Admin(cluster, {"backup", backup});
  ASSERT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr(backup));
  EXPECT_THAT(made.output, HasSubstr("checked"));
  EXPECT_EQ(ModeOf(backup), 0600u);
  // Changes after the backup are lost with the state.
  const v1::Job later = cluster.Submit(cluster.SmallJob(1, 1'000'000));

  const std::vector<std::string> restore = {"restore", backup, "--state-dir", state, "--force"};
  const Finished refused = Admin(cluster, restore);
  EXPECT_EQ(refused.exit_code, kRefused) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("in use by process"));
  cluster.KillController();
  const Finished restored = Admin(cluster, restore);
  ASSERT_EQ(restored.exit_code, 0) << restored.output;
  EXPECT_THAT(restored.output, HasSubstr("state.db.replaced-"));
  EXPECT_EQ(ModeOf(state + "/state.db"), 0600u);
  cluster.StartController();

  // Its trainers were those of generation 1.
  job = cluster.WaitUntil(job.id(), [](const v1::Job& now) {
    return now.state() == v1::RUNNING && now.generation() > 1'000'000;
  });
  EXPECT_THAT(job.reason(), HasSubstr("all ranks train"));
  grpc::ClientContext context;
  v1::GetJobRequest request;
  request.set_job(later.id());
  v1::Job none;
  EXPECT_EQ(v1::JobService::NewStub(cluster.channel())->Get(&context, request, &none).error_code(),
            grpc::StatusCode::NOT_FOUND);
  // Its revisions are beyond all earlier ones.
  EXPECT_GT(job.revision() >> 32, 1'000'000);
}

}  // namespace
}  // namespace paceline
