// How the controller treats clients of its gRPC port that stall, vanish silently, talk nonsense, or
// never read.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/tls/testing/test_identity.h"
#include "common/tls/testing/tls_get.h"
#include "controller/election/standby.h"
#include "controller/own_identity.h"
#include "controller/server.h"
#include "controller/testing/running_server.h"
#include "controller/testing/server_fixture.h"
#include "proto/job.grpc.pb.h"
#include "proto/worker.grpc.pb.h"
#include "tests/etcd/tcp_proxy.h"
#include "tests/integration/process.h"

namespace paceline {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(90);

class SlowClientsTest : public ServerTest {
 protected:
  bool Shows(const std::string& series) {
    const auto answer = httplib::Client("http://" + server_->Address("http")).Get("/metrics");
    return answer && absl::StrContains(answer->body, series);
  }

  // Opens readers of the job's log that go away again.
  void ReadAndLeave(const std::string& job) {
    constexpr int kReaders = 100;
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<v1::LogChunk>>> readers;
    v1::StreamLogsRequest request;
    request.set_job(job);
    for (int i = 0; i < kReaders; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      readers.push_back(jobs_->StreamLogs(contexts.back().get(), request));
    }
    Get(job);  // They have been admitted by then.
    for (const auto& context : contexts) context->TryCancel();
    v1::LogChunk chunk;
    for (const auto& reader : readers) {
      while (reader->Read(&chunk)) {
      }
      reader->Finish();
    }
  }
};

TEST_F(SlowClientsTest, AClientThatIsGoneWithoutAWordIsNoticed) {
  // Longer than two pings: gRPC limits the number of pings without data between them.
  constexpr absl::Duration kQuiet = absl::Seconds(35);
  TcpProxy wire(server_->Address("grpc"));
  const auto jobs = v1::JobService::NewStub(
      grpc::CreateChannel(wire.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto watch = jobs->Watch(&context, v1::WatchJobsRequest());
  v1::JobEvent event;
  ASSERT_TRUE(watch->Read(&event));
  absl::SleepFor(kQuiet);
  EXPECT_TRUE(Shows("\npaceline_watch_streams{resource=\"jobs\"} 1\n")) << "it is there";
  wire.Cut();
  EXPECT_TRUE(Eventually([&] { return Shows("\npaceline_watch_streams{resource=\"jobs\"} 0\n"); },
                         kPatience));
  context.TryCancel();
  while (watch->Read(&event)) {
  }
  watch->Finish();
}

TEST_F(SlowClientsTest, AWorkerThatNeverReadsLosesItsSession) {
  const auto workers = v1::WorkerService::NewStub(channel_);
  grpc::ClientContext context;
  const auto session = workers->Session(&context);
  v1::WorkerMessage said;
  *said.mutable_hello() = Hello("a");
  session->Write(said);
  v1::ControllerMessage reported;
  ASSERT_TRUE(session->Read(&reported));
  ASSERT_TRUE(reported.has_welcome());
  v1::Job job;
  ASSERT_TRUE(Eventually([&] { return Submit(Spec(), "r1", &job).ok(); })) << "it has joined";
  do {
    ASSERT_TRUE(session->Read(&reported));
  } while (reported.plan().trainers_size() == 0);
  said.Clear();
  *said.mutable_report()->add_trainers() =
      Trainer(reported.plan().trainers(0), v1::TRAINER_RUNNING);
  session->Write(said);
  WaitFor(job.id(), v1::RUNNING);

  // From now on it reads nothing. Each reader of its log causes two messages to it; gRPC itself
  // buffers some thousands.
  const auto ended = [&] {
    return Shows("\npaceline_limit_refusals_total{limit=\"worker_backlog\"} 1\n");
  };
  const absl::Time give_up = absl::Now() + kPatience;
  while (!ended() && absl::Now() < give_up) ReadAndLeave(job.id());
  EXPECT_TRUE(ended());
  while (session->Read(&reported)) {
  }
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SlowClientsTest, AClosedSessionThatNobodyReadsLeavesItsName) {
  constexpr int kRanks = 64;
  PlayedWorker silent(channel_, Hello("a", kRanks));
  const auto welcome = silent.Read();
  ASSERT_TRUE(welcome.has_value());
  // Its plan takes some megabytes: more than gRPC buffers for a client that never reads.
  v1::JobSpec spec = Spec(kRanks);
  for (int i = 0; i < 2500; ++i) {
    spec.mutable_placement()->add_exclude_nodes(absl::StrCat("node-", i, std::string(50, 'x')));
  }
  v1::Job job;
  ASSERT_TRUE(Eventually([&] { return Submit(spec, "r1", &job).ok(); })) << "it has joined";
  WaitFor(job.id(), v1::STARTING);
  v1::WorkerMessage said;
  *said.mutable_hello() = Hello("a");
  silent.Write(said);  // A second hello, for which its session is ended.
  EXPECT_TRUE(Eventually([&] {
    PlayedWorker other(channel_, Hello("a", 2, "another"));
    const auto answer = other.Read();
    return answer.has_value() && answer->has_welcome();
  }));
  while (silent.Read().has_value()) {
  }
  EXPECT_EQ(silent.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// A connection without gRPC.
class RawConnection {
 public:
  explicit RawConnection(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~RawConnection() { close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  void Send(const std::string& bytes) const {
    send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Reads what the server sends until it hangs up. Returns false if it does not.
  bool HearsTheEnd() const {
    char bytes[4096];
    ssize_t got = 0;
    while ((got = recv(socket_, bytes, sizeof bytes, 0)) > 0) {
    }
    return got == 0 || errno == ECONNRESET;
  }

 private:
  const int socket_;
};

TEST_F(SlowClientsTest, NonsenseIsHungUpOnAndOthersAreServed) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string no_settings("\0\0\0\4\0\0\0\0\0", 9);
  const std::string huge_frame("\xff\xff\xff\1\4\0\0\0\1", 9);
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), std::string("\x16\x03\x01\0\x05", 5),
        absl::StrCat(preface, no_settings, huge_frame, std::string(1000, '\xff'))}) {
    const RawConnection connection(server_->Address("grpc"));
    connection.Send(said);
    EXPECT_TRUE(connection.HearsTheEnd()) << said.substr(0, 10);
  }
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job("job-none");
  request.set_request_id("r1");
  v1::Job job;
  EXPECT_EQ(jobs_->Cancel(&context, request, &job).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(HalfOpenTest, ConnectionThatDoesNotBeginIsClosed) {
  const std::string directory = NewDirectory();
  ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory, directory + "/address", ""};
  options.plaintext = true;
  options.handshake_patience = absl::Milliseconds(200);
  const RunningServer server(options);
  ASSERT_TRUE(server.failure().status.ok()) << server.failure().status;
  for (const char* said : {"", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
    const RawConnection connection(server.Address("grpc"));
    connection.Send(said);
    EXPECT_TRUE(connection.HearsTheEnd()) << "\"" << said << "\"";
  }
}

TEST(HalfOpenTest, AHandshakeThatDoesNotGoOnIsClosed) {
  const std::string directory = NewDirectory();
  ServerOptions options{"127.0.0.1:0", "127.0.0.1:0", directory, directory + "/address", ""};
  options.tls_dir = directory + "/tls";
  WriteIdentity(options.tls_dir, TestAuthority(), ControllerOnLoopback());
  options.handshake_patience = absl::Milliseconds(200);
  const RunningServer server(options);
  ASSERT_TRUE(server.failure().status.ok()) << server.failure().status;
  // Nothing, and the first bytes of a TLS record of 512.
  for (const std::string& said : {std::string(), std::string("\x16\x03\x01\x02\x00\x01", 6)}) {
    EXPECT_EQ(AnswerToBytes(server.Address("grpc"), said), "");
  }
}

TEST(HalfOpenTest, AStandbyClosesItToo) {
  ServerOptions options;
  options.tls_dir = NewDirectory() + "/tls";
  WriteIdentity(options.tls_dir, TestAuthority(), ControllerOnLoopback());
  const auto standby = Standby::Start("127.0.0.1:0", "127.0.0.1:0", GrpcCredentials(options),
                                      std::nullopt, std::nullopt, absl::Milliseconds(200));
  ASSERT_TRUE(standby.ok()) << standby.status();
  EXPECT_EQ(AnswerToBytes((*standby)->grpc_address(), ""), "");
}

}  // namespace
}  // namespace paceline
