// The controller's page over real sockets, without a browser.
#include <gtest/gtest.h>
#include <httplib.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_replace.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using nlohmann::json;

class PageTest : public ServerTest {
 protected:
  httplib::Client Client() {
    httplib::Client client("http://" + server_->Address("http"));
    client.set_read_timeout(20);
    return client;
  }

  // Data of the first event of that kind for which `holds`; null: the stream ended first.
  json ReadEvent(const std::string& path, const std::string& kind,
                 const std::function<bool(const json&)>& holds) {
    std::string text;
    json found;
    const std::string head = "event: " + kind + "\ndata: ";
    auto client = Client();
    client.Get(path, [&](const char* data, size_t size) {
      text.append(data, size);
      for (size_t end = text.find("\n\n"); end != std::string::npos; end = text.find("\n\n")) {
        const std::string event = text.substr(0, end);
        text.erase(0, end + 2);
        if (event.compare(0, head.size(), head) != 0) continue;
        json state = json::parse(event.substr(head.size()));
        if (!holds(state)) continue;
        found = std::move(state);
        return false;
      }
      return true;
    });
    return found;
  }
};

TEST_F(PageTest, IsOneFileThatMayLoadNothing) {
  const auto page = Client().Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page->get_header_value("Cache-Control"), "no-store");
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  const std::string policy = page->get_header_value("Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  // XML namespaces look like addresses, but are not fetched.
  const std::string body = absl::StrReplaceAll(page->body, {{"http://www.w3.org/2000/svg", ""}});
  EXPECT_EQ(body.find("http://"), std::string::npos);
  EXPECT_EQ(body.find("https://"), std::string::npos);
  EXPECT_EQ(page->body.find("innerHTML"), std::string::npos);
}

TEST_F(PageTest, EventsFollowTheCluster) {
  json state = ReadEvent("/events", "cluster", [](const json&) { return true; });
  ASSERT_TRUE(state.is_object());
  EXPECT_TRUE(state["nodes"].empty());
  const auto worker = Join(Hello("a"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "6f7e7f9e-0000-4000-8000-000000000002", &job).ok());
  state = ReadEvent("/events", "cluster", [](const json& s) { return !s["jobs"].empty(); });
  EXPECT_EQ(state["jobs"][0]["id"], job.id());
  EXPECT_EQ(state["nodes"][0]["name"], "a");
  const json detail = ReadEvent("/events?job=" + job.id(), "job", [](const json&) { return true; });
  EXPECT_EQ(detail["id"], job.id());
  EXPECT_EQ(detail["known"], true);
}

TEST_F(PageTest, CurvesAreAskedForByJob) {
  const auto worker = Join(Hello("a"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "6f7e7f9e-0000-4000-8000-000000000003", &job).ok());
  const auto answer = Client().Get("/curves?job=" + job.id());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json");
  const json run = json::parse(answer->body);
  EXPECT_EQ(run["id"], job.id());
  EXPECT_EQ(run["known"], true);
  EXPECT_TRUE(run["curves"].empty());
  EXPECT_EQ(json::parse(Client().Get("/curves?job=job-gone")->body)["known"], false);
  EXPECT_EQ(Client().Get("/curves")->status, 400);
  EXPECT_EQ(Client().Get("/curves?job=" + std::string(65, 'x'))->status, 400);
}

TEST_F(PageTest, StreamsEndWithTheController) {
  bool first = true;
  auto client = Client();
  // Otherwise it would last for ever.
  std::thread stopper;
  client.Get("/events", [&](const char*, size_t) {
    if (std::exchange(first, false)) stopper = std::thread([this] { server_->Stop(); });
    return true;
  });
  ASSERT_FALSE(first);
  stopper.join();
}

}  // namespace
}  // namespace paceline
