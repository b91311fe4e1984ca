#include "bench/load/load_credentials.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "controller/testing/server_fixture.h"
#include "controller/testing/tls_fixture.h"

namespace paceline {
namespace {

// A controller whose authority is where `paceline pki init` puts it.
class LoadCredentialsTest : public TlsServerTest {
 protected:
  LoadCredentialsTest() {
    EXPECT_TRUE(authority_.Save(pki_ + "/ca").ok());
    Start(Options());
    auto made = MakeLoadCredentials(pki_, {"node-1", "node-2"});
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) identities_ = *std::move(made);
  }

  std::shared_ptr<grpc::Channel> ChannelWith(
      const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    return grpc::CreateChannel(server_->Address("grpc"), credentials);
  }

  grpc::StatusCode Submit(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ClientContext context;
    Prepare(context);
    v1::SubmitJobRequest request;
    *request.mutable_spec() = Spec();
    request.set_request_id("r1");
    v1::Job job;
    return v1::JobService::NewStub(ChannelWith(credentials))
        ->Submit(&context, request, &job)
        .error_code();
  }

  const std::string pki_ = directory_ + "/pki";
  LoadCredentials identities_;
};

TEST_F(LoadCredentialsTest, EachNodeHasACertificateOfItsOwnName) {
  ASSERT_EQ(identities_.nodes.size(), 2u);
  PlayedWorker impostor(ChannelWith(identities_.nodes[0]), Hello("node-2"));
  EXPECT_FALSE(impostor.Read().has_value());
  EXPECT_EQ(Reason(impostor.Finish()), "NOT_YOUR_NODE");
  PlayedWorker worker(ChannelWith(identities_.nodes[1]), Hello("node-2"));
  const auto answer = worker.Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->has_welcome());
}

TEST_F(LoadCredentialsTest, UsersSubmitJobsAndWatchersOnlyLook) {
  EXPECT_EQ(Submit(identities_.users), grpc::StatusCode::FAILED_PRECONDITION) << "no node is there";
  EXPECT_EQ(Submit(identities_.watchers), grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext context;
  Prepare(context);
  v1::ListJobsResponse jobs;
  EXPECT_TRUE(v1::JobService::NewStub(ChannelWith(identities_.watchers))
                  ->List(&context, v1::ListJobsRequest(), &jobs)
                  .ok());
}

TEST_F(LoadCredentialsTest, AnAuthorityThatIsNotThereIsTold) {
  EXPECT_TRUE(absl::IsNotFound(MakeLoadCredentials(directory_ + "/nowhere", {"node-1"}).status()));
}

}  // namespace
}  // namespace paceline
