#include "common/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/synchronization/notification.h"

namespace paceline {
namespace {

HttpServer::Routes Hello() {
  return {{"/hello",
           [] {
             return HttpResponse{200, "text/plain", "world"};
           }},
          {"/busy", [] {
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

TEST(HttpServerTest, PortInUseIsAnError) {
  auto first = HttpServer::Start("127.0.0.1:0", Hello());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(HttpServer::Start((*first)->address(), Hello()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(HttpServerTest, BadAddressIsTheCallersFault) {
  for (const char* address : {"nonsense", "127.0.0.1:", "127.0.0.1:70000"}) {
    EXPECT_EQ(HttpServer::Start(address, Hello()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

// Sends one chunk, and then nothing until it is cancelled.
class WaitingStream : public HttpStream {
 public:
  std::string Next() override {
    if (!std::exchange(sent_, true)) return "data: first\n\n";
    cancelled_.WaitForNotification();
    return "";
  }
  void Cancel() override { cancelled_.Notify(); }

 private:
  bool sent_ = false;
  absl::Notification cancelled_;
};

// Has always more to send; tells of its end.
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

// A reader of a stream on a thread of its own.
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

TEST(HttpServerTest, StreamSendsWhatThereIsAndEndsWithTheServer) {
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), Waiting());
  ASSERT_TRUE(server.ok()) << server.status();
  Reader reader((*server)->address());
  reader.WaitForFirst();
  // Others are answered meanwhile.
  EXPECT_EQ(httplib::Client("http://" + (*server)->address()).Get("/hello")->body, "world");
  // Would wait for ever for a stream that nobody ends.
  server->reset();
  EXPECT_EQ(reader.Join(), "data: first\n\n");
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
  auto server = HttpServer::Start("127.0.0.1:0", Hello(), Waiting());
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
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi((*server)->address().substr(strlen("127.0.0.1:")), &port));
  to.sin_port = htons(static_cast<uint16_t>(port));
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  const int small = 10000;
  setsockopt(client, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET /events HTTP/1.1\r\nHost: here\r\n\r\n";
  ASSERT_EQ(send(client, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  ended.WaitForNotification();
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, 1 << 20);
  close(client);
}

TEST(HttpServerTest, ResponseHasItsHeaders) {
  HttpServer::Routes routes = {{"/", [] {
                                  return HttpResponse{200, "text/html", "x", {{"A-B", "c"}}};
                                }}};
  auto server = HttpServer::Start("127.0.0.1:0", routes);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(httplib::Client("http://" + (*server)->address()).Get("/")->get_header_value("A-B"),
            "c");
}

}  // namespace
}  // namespace paceline
