// Jobs with a command under real daemons, for tests.
#ifndef TESTS_INTEGRATION_COMMAND_JOB_H_
#define TESTS_INTEGRATION_COMMAND_JOB_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/job.grpc.pb.h"
#include "tests/integration/test_cluster.h"

namespace paceline {

inline TestNetwork WithCommands(const std::string& commands) {
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

}  // namespace paceline

#endif  // TESTS_INTEGRATION_COMMAND_JOB_H_
