#include "common/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace paceline {
namespace {

HttpServer::Routes Hello() {
  return {{"/hello",
           [](const HttpServer::Query&) {
             return HttpResponse{200, "text/plain", "world"};
           }},
          {"/busy", [](const HttpServer::Query&) {
             return HttpResponse{503, "text/plain", "not yet"};
           }}};
}

TEST(HttpServerTest, AnswersItsRoutesAndNothingElse) {
  auto server = HttpServer::Start("127.0.0.1:0", Hello());
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("http://" + (*server)->address());
  EXPECT_EQ(client.Get("/hello")->body, "world");
  EXPECT_EQ(client.Get("/busy")->status, 503);
  EXPECT_EQ(client.Get("/other")->status, 404);
}

// A page whose name has been redirected to the loopback (DNS rebinding).
TEST(HttpServerTest, PlainTextIsAnsweredUnderNamesOfTheLoopbackAlone) {
  auto server = HttpServer::Start("127.0.0.1:0", Hello());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  const std::string port = address.substr(address.rfind(':'));
  httplib::Client client("http://" + address);
  for (const std::string host : {"localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "[::1]"}) {
    for (const std::string& name : {host, host + port}) {
      EXPECT_EQ(client.Get("/hello", {{"Host", name}})->status, 200) << name;
    }
  }
  for (const char* name : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80",
                           "localhost, evil.example", "10.0.0.1", "evil.example:127.0.0.1"}) {
    const auto response = client.Get("/hello", {{"Host", name}});
    EXPECT_EQ(response->status, 403) << name;
    EXPECT_EQ(response->body.find("world"), std::string::npos);
  }
  EXPECT_EQ(client.Get("/hello", {{"Host", "localhost"}, {"Host", "evil.example"}})->status, 403);
}

TEST(HttpServerTest, ServesAnAddressOfIpv6) {
  auto server = HttpServer::Start("[::1]:0", Hello());
  if (absl::IsFailedPrecondition(server.status())) GTEST_SKIP() << "this machine has no ::1";
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->address(), ::testing::StartsWith("[::1]:"));
  httplib::Client client("http://" + (*server)->address());
  const auto answer = client.Get("/hello");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "world");
}

TEST(HttpServerTest, PortInUseIsAnError) {
  auto first = HttpServer::Start("127.0.0.1:0", Hello());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(HttpServer::Start((*first)->address(), Hello()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(HttpServerTest, BadAddressIsTheCallersFault) {
  for (const char* address : {"nonsense", "127.0.0.1:", "127.0.0.1:70000", "::1:80", "::1"}) {
    EXPECT_EQ(HttpServer::Start(address, Hello()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

// Sends one chunk, then nothing until it is cancelled.
class WaitingStream : public HttpStream {
 public:
  std::string Next() override {
    if (!std::exchange(sent_, true)) return "data: first\n\n";
    cancelled_.WaitForNotification();
    return "";
  }
  void Cancel() override {
    if (!cancelled_.HasBeenNotified()) cancelled_.Notify();
  }

 private:
  bool sent_ = false;
  absl::Notification cancelled_;
};

// Always has more to send; records its end.
class EndlessStream : public HttpStream {
 public:
  EndlessStream(std::atomic<int64_t>* bytes, absl::Notification* ended)
      : bytes_(bytes), ended_(ended) {}
  ~EndlessStream() override { ended_->Notify(); }

  std::string Next() override {
    *bytes_ += 10000;
    return std::string(10000, 'x');
  }
  void Cancel() override {}

 private:
  std::atomic<int64_t>* const bytes_;
  absl::Notification* const ended_;
};

HttpServer::Streams Waiting() {
  return {{"/events", [](const HttpServer::Query&) { return std::make_unique<WaitingStream>(); }}};
}

// Reads a stream on a thread of its own.
class Reader {
 public:
  explicit Reader(const std::string& address)
      : thread_([this, address] {
          httplib::Client client("http://" + address);
          client.set_read_timeout(60);
          client.Get("/events", [this](const char* data, size_t size) {
            body_.append(data, size);
            if (!first_.HasBeenNotified()) first_.Notify();
            return true;
          });
          if (!first_.HasBeenNotified()) first_.Notify();
        }) {}

  void WaitForFirst() { first_.WaitForNotification(); }
  const std::string& Join() {
    thread_.join();
    return body_;
  }

 private:
  std::string body_;
  absl::Notification first_;
  std::thread thread_;
};

// A client written by hand, which can be slow. The kernel buffers little for it.
class RawClient {
 public:
  explicit RawClient(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int small = 10000;
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port));
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  ~RawClient() { close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  // False: the server has closed the connection.
  bool Send(const std::string& text) const {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Whether the server sends something, or closes the connection, within `pause`.
  bool Hears(absl::Duration pause) const {
    pollfd waiting{socket_, POLLIN, 0};
    return poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(pause))) > 0;
  }
  // Reads at most 4096 bytes; returns 0 when the connection has ended.
  size_t Take() const {
    char taken[4096];
    const ssize_t got = recv(socket_, taken, sizeof taken, 0);
    return got > 0 ? static_cast<size_t>(got) : 0;
  }

 private:
  const int socket_;
  bool connected_ = false;
};

TEST(HttpServerTest, StreamSendsWhatThereIsAndEndsWithTheServer) {
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), Waiting());
  ASSERT_TRUE(server.ok()) << server.status();
  Reader reader((*server)->address());
  reader.WaitForFirst();
  // Other clients are answered meanwhile.
  EXPECT_EQ(httplib::Client("http://" + (*server)->address()).Get("/hello")->body, "world");
  // Would hang if it waited for a stream that nobody ends.
  server->reset();
  EXPECT_EQ(reader.Join(), "data: first\n\n");
}

TEST(HttpServerTest, StreamsCanBeEndedWithoutTheServer) {
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), Waiting());
  ASSERT_TRUE(server.ok()) << server.status();
  Reader reader((*server)->address());
  reader.WaitForFirst();
  // Without this, it would wait for ever.
  (*server)->EndStreams();
  EXPECT_EQ(reader.Join(), "data: first\n\n");
  EXPECT_EQ(httplib::Client("http://" + (*server)->address()).Get("/hello")->body, "world");
}

TEST(HttpServerTest, StreamHearsTheQuery) {
  std::string heard;
  HttpServer::Streams streams = {{"/events", [&](const HttpServer::Query& query) {
                                    heard = query.at("job");
                                    return std::make_unique<WaitingStream>();
                                  }}};
  auto server = HttpServer::Start("127.0.0.1:0", {}, streams);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("http://" + (*server)->address());
  client.Get("/events?job=a%26b&job=c", [](const char*, size_t) { return false; });
  EXPECT_EQ(heard, "a&b");
}

TEST(HttpServerTest, StreamsAreBounded) {
  std::atomic<int> reported{0};
  HttpLimits limits;
  limits.refused = [&](HttpRefusal refusal) {
    if (refusal == HttpRefusal::kStreams) ++reported;
  };
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), Waiting(), limits);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < kHttpStreams; ++i) {
    readers.push_back(std::make_unique<Reader>((*server)->address()));
    readers.back()->WaitForFirst();
  }
  httplib::Client client("http://" + (*server)->address());
  const auto refused = client.Get("/events");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(reported, 1);
  EXPECT_EQ(client.Get("/hello")->body, "world");
  server->reset();
  for (auto& reader : readers) reader->Join();
}

TEST(HttpServerTest, ClientThatNeverReadsCostsBoundedMemoryAndIsDropped) {
  std::atomic<int64_t> bytes{0};
  absl::Notification ended;
  HttpServer::Streams streams = {{"/events", [&](const HttpServer::Query&) {
                                    return std::make_unique<EndlessStream>(&bytes, &ended);
                                  }}};
  auto server = HttpServer::Start("127.0.0.1:0", {}, streams);
  ASSERT_TRUE(server.ok()) << server.status();
  const RawClient client((*server)->address());
  ASSERT_TRUE(client.Send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ended.WaitForNotification();
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, 1 << 20);
}

constexpr size_t kBig = 4 << 20;
constexpr char kGetBig[] = "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n";
// For a client that makes a little progress again and again.
constexpr absl::Duration kPause = absl::Milliseconds(10);

// The second reply exceeds what the kernel buffers for a client that does not read.
HttpServer::Routes HelloAndBig() {
  HttpServer::Routes routes = Hello();
  routes["/big"] = [](const HttpServer::Query&) {
    return HttpResponse{200, "text/plain", std::string(kBig, 'x')};
  };
  return routes;
}

// No wait ends, except where a test shortens a limit.
HttpLimits Endless() { return {absl::Hours(1), absl::Hours(1), absl::Hours(1)}; }

TEST(HttpServerTest, SlowClientsKeepNeitherOthersOutNorTheServerFromItsEnd) {
  HttpLimits limits = Endless();
  limits.hurried = absl::Milliseconds(100);
  for (const char* said : {"", "GET /he", kGetBig}) {
    auto server = HttpServer::Start("127.0.0.1:0", HelloAndBig(), {}, limits);
    ASSERT_TRUE(server.ok()) << server.status();
    std::vector<std::unique_ptr<RawClient>> slow;
    for (int i = 0; i < 2 * kHttpThreads; ++i) {
      slow.push_back(std::make_unique<RawClient>((*server)->address()));
      ASSERT_TRUE(slow.back()->Send(said));
    }
    httplib::Client client("http://" + (*server)->address());
    client.set_read_timeout(60);
    const auto answer = client.Get("/hello");
    ASSERT_TRUE(answer) << "\"" << said << "\": " << answer.error();
    EXPECT_EQ(answer->body, "world");
    server->reset();
  }
}

TEST(HttpServerTest, ConnectionsThatWaitAreBounded) {
  std::atomic<int> reported{0};
  HttpLimits limits = Endless();
  limits.refused = [&](HttpRefusal refusal) {
    if (refusal == HttpRefusal::kConnections) ++reported;
  };
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), {}, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < kHttpThreads + kHttpWaiting; ++i) {
    silent.push_back(std::make_unique<RawClient>((*server)->address()));
  }
  // One more than there is room for.
  silent.push_back(std::make_unique<RawClient>((*server)->address()));
  bool refused = false;
  for (int look = 0; look < 1000 && !refused; ++look) {
    for (const auto& client : silent) {
      refused = refused || client->Hears(absl::ZeroDuration());
    }
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kPause)));
  }
  EXPECT_TRUE(refused);
  EXPECT_GE(reported, 1);
}

TEST(HttpServerTest, RequestThatTricklesInIsCutOff) {
  HttpLimits limits = Endless();
  limits.request = absl::Milliseconds(200);
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), {}, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  const RawClient client((*server)->address());
  ASSERT_TRUE(client.Send("GET /hello HTTP/1.1\r\nX: "));
  int sent = 0;
  for (; sent < 2000 && !client.Hears(kPause); ++sent) client.Send("x");
  EXPECT_LT(sent, 2000);
  EXPECT_EQ(client.Take(), 0u);
}

TEST(HttpServerTest, ReplyThatIsTakenSlowlyIsCutOff) {
  HttpLimits limits = Endless();
  limits.request = absl::Milliseconds(200);
  auto server = HttpServer::Start("127.0.0.1:0", HelloAndBig(), {}, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  const RawClient client((*server)->address());
  ASSERT_TRUE(client.Send(kGetBig));
  size_t taken = 0;
  while (const size_t more = client.Take()) {
    taken += more;
    poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kPause)));
  }
  EXPECT_GT(taken, 0u);
  EXPECT_LT(taken, kBig);
}

TEST(HttpServerTest, RequestWithoutAnEndIsCutOff) {
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), {}, Endless());
  ASSERT_TRUE(server.ok()) << server.status();
  const RawClient client((*server)->address());
  ASSERT_TRUE(client.Send("GET /hello HTTP/1.1\r\n"));
  const std::string header = "X: " + std::string(4000, 'x') + "\r\n";
  constexpr size_t kEnough = 32 << 20;
  size_t sent = 0;
  while (sent < kEnough && client.Send(header)) sent += header.size();
  EXPECT_LT(sent, kEnough);
}

TEST(HttpServerTest, RequestUnderWayIsAnsweredWhileTheServerEnds) {
  absl::Notification slow_asked;
  absl::Notification asked;
  absl::Notification go_on;
  const HttpServer::Routes routes = {
      {"/big",
       [&](const HttpServer::Query&) {
         slow_asked.Notify();
         return HttpResponse{200, "text/plain", std::string(kBig, 'x')};
       }},
      {"/metrics", [&](const HttpServer::Query&) {
         asked.Notify();
         go_on.WaitForNotification();
         return HttpResponse{200, "text/plain", "figures"};
       }}};
  HttpLimits limits = Endless();
  limits.hurried = absl::Milliseconds(100);
  auto server = HttpServer::Start("127.0.0.1:0", routes, {}, limits);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  const RawClient slow(address);
  ASSERT_TRUE(slow.Send(kGetBig));
  slow_asked.WaitForNotification();
  std::string body;
  std::thread scrape([&] {
    httplib::Client client("http://" + address);
    client.set_read_timeout(60);
    const auto answer = client.Get("/metrics");
    if (answer) body = answer->body;
  });
  asked.WaitForNotification();
  std::thread end([&] { server->reset(); });
  while (RawClient(address).connected()) {
  }
  go_on.Notify();
  scrape.join();
  end.join();
  EXPECT_EQ(body, "figures");
}

TEST(HttpServerTest, HandlerGetsTheParametersOfTheAddress) {
  HttpServer::Routes routes = {
      {"/echo", [](const HttpServer::Query& query) {
         const auto job = query.find("job");
         return HttpResponse{200, "text/plain", job == query.end() ? "none" : job->second};
       }}};
  auto server = HttpServer::Start("127.0.0.1:0", routes);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("http://" + (*server)->address());
  EXPECT_EQ(client.Get("/echo?job=a%20b")->body, "a b");
  EXPECT_EQ(client.Get("/echo")->body, "none");
}

TEST(HttpServerTest, ResponseHasItsHeaders) {
  HttpServer::Routes routes = {{"/", [](const HttpServer::Query&) {
                                  return HttpResponse{200, "text/html", "x", {{"A-B", "c"}}};
                                }}};
  auto server = HttpServer::Start("127.0.0.1:0", routes);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(httplib::Client("http://" + (*server)->address()).Get("/")->get_header_value("A-B"),
            "c");
}

}  // namespace
}  // namespace paceline
