// Roles by certificates: the connection proves who the caller is.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/identity/principal.h"
#include "common/tls/key_and_request.h"
#include "controller/testing/server_fixture.h"
#include "controller/testing/tls_fixture.h"
#include "proto/identity.grpc.pb.h"
#include "proto/job.grpc.pb.h"
#include "proto/node.grpc.pb.h"
#include "proto/worker.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr grpc::StatusCode kDenied = grpc::StatusCode::PERMISSION_DENIED;
constexpr grpc::StatusCode kUnknown = grpc::StatusCode::UNAUTHENTICATED;

const std::string kToken(40, 't');
const std::string kOthersToken(40, 'o');
// Burst of mutations; after it none are allowed.
constexpr int kChanges = 8;
// The same for calls of any kind.
constexpr int kCalls = 32;

class RolesTlsTest : public TlsServerTest {
 protected:
  RolesTlsTest() {
    std::ofstream(directory_ + "/tokens") << Sha256Hex(kToken) << " operator tom\n"
                                          << Sha256Hex(kOthersToken) << " operator tina\n";
    chmod((directory_ + "/tokens").c_str(), 0600);
    ServerOptions options = Options();
    options.user_tokens = directory_ + "/tokens";
    options.limits.mutations_per_s = 0.001;
    options.limits.mutation_burst = kChanges;
    options.limits.calls_per_s = 0.001;
    options.limits.call_burst = kCalls;
    Start(options);
  }

  static grpc::Status List(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& token = "") {
    grpc::ClientContext context;
    Prepare(context, token);
    v1::ListJobsResponse response;
    return v1::JobService::NewStub(channel)->List(&context, {}, &response);
  }
  // Ends with NOT_FOUND if the call was admitted.
  static grpc::Status Uncordon(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& token = "") {
    grpc::ClientContext context;
    Prepare(context, token);
    v1::UncordonNodeRequest request;
    request.set_name("nowhere");
    request.set_owner("somebody");
    request.set_request_id("one");
    v1::Node node;
    return v1::NodeService::NewStub(channel)->Uncordon(&context, request, &node);
  }

  static grpc::Status JoinAsNobody(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    Prepare(context);
    v1::JoinResponse response;
    return v1::IdentityService::NewStub(channel)->Join(&context, {}, &response);
  }
};

TEST_F(RolesTlsTest, ACertificateGivesTheRole) {
  const auto viewer = ChannelOf({Role::kViewer, "vic"});
  EXPECT_TRUE(List(viewer).ok());
  const grpc::Status denied = Uncordon(viewer);
  EXPECT_EQ(denied.error_code(), kDenied);
  EXPECT_THAT(denied.error_message(), HasSubstr("viewer vic may not call"));
  EXPECT_EQ(Uncordon(ChannelOf({Role::kOperator, "ops"})).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(List(ChannelOf({Role::kWorker, "w0"})).error_code(), kDenied);
  EXPECT_EQ(List(ChannelOf({Role::kController, "c2"})).error_code(), kDenied);
}

TEST_F(RolesTlsTest, WithoutACertificateATokenSpeaksForItsCallOnly) {
  const auto channel = ChannelOfNobody();
  EXPECT_EQ(List(channel).error_code(), kUnknown);
  EXPECT_TRUE(List(channel, kToken).ok());
  EXPECT_EQ(Uncordon(channel, kToken).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(List(channel).error_code(), kUnknown);
  EXPECT_EQ(List(channel, std::string(40, 'x')).error_code(), kUnknown);
}

TEST_F(RolesTlsTest, ACertificateGoesBeforeAToken) {
  const auto viewer = ChannelOf({Role::kViewer, "vic"});
  EXPECT_EQ(Uncordon(viewer, kToken).error_code(), kDenied);
}

TEST_F(RolesTlsTest, AWorkerSpeaksForTheNodeOfItsCertificate) {
  const auto channel = ChannelOf({Role::kWorker, "w0"});
  PlayedWorker impostor(channel, Hello("w1"));
  EXPECT_FALSE(impostor.Read().has_value());
  const grpc::Status status = impostor.Finish();
  EXPECT_EQ(status.error_code(), kDenied);
  EXPECT_EQ(Reason(status), "NOT_YOUR_NODE");
  PlayedWorker worker(channel, Hello("w0"));
  const auto welcome = worker.Read();
  ASSERT_TRUE(welcome.has_value());
  EXPECT_TRUE(welcome->has_welcome());

  PlayedWorker user(ChannelOf({Role::kAdmin, "w0"}), Hello("w0"));
  EXPECT_FALSE(user.Read().has_value());
  EXPECT_EQ(user.Finish().error_code(), kDenied);
}

TEST_F(RolesTlsTest, ANodesCertificateHasFewSessionsAtOnce) {
  constexpr int kMost = 8;
  const auto stub = v1::WorkerService::NewStub(ChannelOf({Role::kWorker, "w0"}));
  std::vector<grpc::ClientContext> contexts(kMost + 1);
  std::atomic<int> refused = 0;
  std::vector<std::thread> sessions;
  for (grpc::ClientContext& context : contexts) {
    Prepare(context);
    sessions.emplace_back([&] {
      const auto session = stub->Session(&context);
      v1::ControllerMessage message;
      EXPECT_FALSE(session->Read(&message));
      if (Reason(session->Finish()) == "TOO_MANY_SESSIONS") ++refused;
    });
  }
  const absl::Time until = absl::Now() + absl::Seconds(20);
  while (refused == 0 && absl::Now() < until) absl::SleepFor(absl::Milliseconds(1));
  PlayedWorker other(ChannelOf({Role::kWorker, "w1"}), Hello("w1"));
  EXPECT_TRUE(other.Read().has_value()) << "another node's are its own";
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& session : sessions) session.join();
  EXPECT_EQ(refused, 1);
  // Ended calls stop counting once the controller has noticed their end.
  bool welcome = false;
  while (!welcome && absl::Now() < until) {
    welcome = PlayedWorker(ChannelOf({Role::kWorker, "w0"}), Hello("w0")).Read().has_value();
    if (!welcome) absl::SleepFor(absl::Milliseconds(100));  // Each counts as a call.
  }
  EXPECT_TRUE(welcome);
}

TEST_F(RolesTlsTest, ASessionWithoutAHelloDoesNotOutliveARevocation) {
  const auto channel = ChannelOf({Role::kWorker, "w0"});
  const auto stub = v1::WorkerService::NewStub(channel);
  grpc::ClientContext context;
  Prepare(context);
  const auto session = stub->Session(&context);
  const auto identity = v1::IdentityService::NewStub(channel);
  {
    // Answered on the same connection, so the session has been admitted by then.
    grpc::ClientContext asked;
    Prepare(asked);
    v1::WhoAmIResponse response;
    ASSERT_TRUE(identity->WhoAmI(&asked, {}, &response).ok());
    ASSERT_EQ(response.role(), "worker");
  }
  v1::RevokeRequest request;
  request.set_request_id("one");
  request.set_principal("paceline://worker/w0");
  request.set_reason("stolen disk");
  request.set_owner("ann");
  grpc::ClientContext revoke;
  Prepare(revoke);
  v1::Revocation revocation;
  const grpc::Status revoked = v1::IdentityService::NewStub(ChannelOf({Role::kAdmin, "ann"}))
                                   ->Revoke(&revoke, request, &revocation);
  ASSERT_TRUE(revoked.ok()) << revoked.error_message();
  v1::WorkerMessage hello;
  *hello.mutable_hello() = Hello("w0");
  session->Write(hello);
  v1::ControllerMessage message;
  EXPECT_FALSE(session->Read(&message)) << message.DebugString();
  EXPECT_EQ(session->Finish().error_code(), kUnknown);
}

TEST_F(RolesTlsTest, RenewalIsForTheCertificateOfTheConnectionAndNotForControllers) {
  const auto renew = [](const std::shared_ptr<grpc::Channel>& channel, const std::string& token) {
    grpc::ClientContext context;
    Prepare(context, token);
    v1::RenewResponse response;
    return v1::IdentityService::NewStub(channel)->Renew(&context, {}, &response);
  };
  const grpc::Status controller = renew(ChannelOf({Role::kController, "c2"}), "");
  EXPECT_EQ(controller.error_code(), kDenied);
  EXPECT_EQ(Reason(controller), "NOT_FOR_CONTROLLERS");
  const grpc::Status token = renew(ChannelOfNobody(), kToken);
  EXPECT_EQ(token.error_code(), kUnknown);
  EXPECT_EQ(Reason(token), "NO_CERTIFICATE");
  EXPECT_EQ(renew(ChannelOf({Role::kWorker, "w0"}), "").error_code(),
            grpc::StatusCode::INVALID_ARGUMENT)
      << "there is no request in it";
}

// All callers use one host.
TEST_F(RolesTlsTest, OneCallersChangesDoNotCountAsAnothers) {
  const auto channel = ChannelOfNobody();
  for (int i = 0; i < kChanges; ++i) {
    EXPECT_EQ(JoinAsNobody(channel).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Uncordon(channel, kToken).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_EQ(JoinAsNobody(channel).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const grpc::Status refused = Uncordon(channel, kToken);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("operator tom asks for more than"));
  EXPECT_EQ(Uncordon(channel, kOthersToken).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(RolesTlsTest, OneCallersCallsOfAnyKindDoNotCountAsAnothers) {
  const auto channel = ChannelOfNobody();
  for (int i = 0; i < kCalls; ++i) ASSERT_TRUE(List(channel, kToken).ok()) << i;
  const grpc::Status refused = List(channel, kToken);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("operator tom asks for more than 0.001 calls a second"));
  EXPECT_EQ(Reason(refused), "") << "gRPC leaves the details of such refusals out";

  const auto jobs = v1::JobService::NewStub(channel);
  grpc::ClientContext context;
  Prepare(context, kToken);
  v1::JobEvent event;
  const auto watch = jobs->Watch(&context, {});
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  // Over the same connection.
  EXPECT_TRUE(List(channel, kOthersToken).ok());
  EXPECT_EQ(JoinAsNobody(channel).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  PlayedWorker worker(ChannelOf({Role::kWorker, "w0"}), Hello("w0"));
  EXPECT_TRUE(worker.Read().has_value());
}

TEST_F(RolesTlsTest, JobsBelongToTheNameInTheCertificate) {
  PlayedWorker worker(ChannelOf({Role::kWorker, "w0"}), Hello("w0"));
  ASSERT_TRUE(worker.Read().has_value());
  ASSERT_TRUE(worker.Read().has_value()) << "its plan: the node is known";
  const auto alice = ChannelOf({Role::kSubmitter, "alice"});
  const auto bob = ChannelOf({Role::kSubmitter, "bob"});
  grpc::ClientContext context;
  Prepare(context);
  context.AddMetadata("paceline-user", "bob");
  v1::SubmitJobRequest request;
  *request.mutable_spec() = Spec();
  request.set_request_id("r1");
  v1::Job job;
  ASSERT_TRUE(v1::JobService::NewStub(alice)->Submit(&context, request, &job).ok());
  EXPECT_EQ(job.submitter(), "alice");
  const auto ids = [](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext list;
    Prepare(list);
    v1::ListJobsResponse response;
    EXPECT_TRUE(v1::JobService::NewStub(channel)->List(&list, {}, &response).ok());
    std::vector<std::string> listed;
    for (const v1::Job& one : response.jobs()) listed.push_back(one.id());
    return listed;
  };
  EXPECT_THAT(ids(alice), ElementsAre(job.id()));
  EXPECT_THAT(ids(bob), ElementsAre());
}

TEST_F(RolesTlsTest, HandshakesThatFailLeaveFewLinesInTheLog) {
  constexpr int kConnections = 200;
  const std::string address = server_->Address("grpc");
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < kConnections; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    const std::string garbage = "GET / HTTP/1.1\r\n\r\n";
    EXPECT_GT(::send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    char byte = 0;
    // Reads until it is hung up on; its log line, if any, was written before.
    while (::recv(fd, &byte, 1, 0) > 0) {
    }
    ::close(fd);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::vector<std::string> lines = absl::StrSplit(said, '\n');
  const auto failed = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return absl::StrContains(line, "andshake");
  });
  EXPECT_GE(failed, 1) << said;
  // A burst, and then one per second: the test takes less than a minute.
  EXPECT_LE(failed, 80) << said;
}

// One caller's log readers leave room for another's.
class LogReadersTlsTest : public TlsServerTest {
 protected:
  struct Reading {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::LogChunk>> stream;
  };

  LogReadersTlsTest() { Start(Options()); }

  void Read(const std::shared_ptr<grpc::Channel>& channel, const std::string& job) {
    auto reading = std::make_unique<Reading>();
    Prepare(reading->context);
    v1::StreamLogsRequest request;
    request.set_job(job);
    request.set_follow(true);
    reading->stream = v1::JobService::NewStub(channel)->StreamLogs(&reading->context, request);
    readings_.push_back(std::move(reading));
  }

  std::vector<std::unique_ptr<Reading>> readings_;
};

TEST_F(LogReadersTlsTest, OneCallerHasAShareOfANodesLogReaders) {
  constexpr int kShare = 128;
  PlayedWorker worker(ChannelOf({Role::kWorker, "w0"}), Hello("w0"));
  const auto submitter = ChannelOf({Role::kSubmitter, "sue"});
  v1::Job job;
  {
    grpc::ClientContext context;
    Prepare(context);
    v1::SubmitJobRequest request;
    *request.mutable_spec() = Spec();
    request.set_request_id("one");
    const auto jobs = v1::JobService::NewStub(submitter);
    ASSERT_TRUE(jobs->Submit(&context, request, &job).ok());
  }
  while (true) {
    const auto message = worker.Read();
    ASSERT_TRUE(message.has_value());
    if (message->plan().trainers_size() > 0) break;
  }
  const auto asked = [&] {
    while (true) {
      const auto message = worker.Read();
      if (!message.has_value() || message->has_log_request()) return message.has_value();
    }
  };
  const auto greedy = ChannelOf({Role::kViewer, "vic"});
  for (int i = 0; i < kShare; ++i) Read(greedy, job.id());
  for (int i = 0; i < kShare; ++i) ASSERT_TRUE(asked());
  Read(greedy, job.id());
  v1::LogChunk chunk;
  EXPECT_FALSE(readings_.back()->stream->Read(&chunk));
  const grpc::Status refused = readings_.back()->stream->Finish();
  EXPECT_EQ(Reason(refused), "TOO_MANY_LOG_READERS");
  EXPECT_THAT(refused.error_message(), HasSubstr("viewer vic reads 128 logs of node w0"));
  readings_.pop_back();
  Read(submitter, job.id());
  EXPECT_TRUE(asked()) << "another caller's are its own";
  for (const auto& reading : readings_) reading->context.TryCancel();
  for (const auto& reading : readings_) {
    EXPECT_FALSE(reading->stream->Read(&chunk));
    reading->stream->Finish();
  }
}

}  // namespace
}  // namespace paceline
