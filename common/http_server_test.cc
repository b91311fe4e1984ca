#include "common/http_server.h"

#include <gtest/gtest.h>
#include <httplib.h>

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

}  // namespace
}  // namespace paceline
