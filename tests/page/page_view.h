// The page in a browser, with states that a test makes up.
#ifndef TESTS_PAGE_PAGE_VIEW_H_
#define TESTS_PAGE_PAGE_VIEW_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/http_server.h"
#include "controller/page/page_feed.h"
#include "tests/page/browser.h"

namespace paceline {

nlohmann::json EmptyCluster();
nlohmann::json JobOf(const std::string& id, const std::string& text);
// A cluster in which every text that a user can choose is `text`.
nlohmann::json FullCluster(const std::string& text);
// Of job-1. Rank 2 is twice as slow as the others in every step.
nlohmann::json JobDetail(const std::string& text, int ranks, int steps);
// Curves of so many points, four steps each: a loss and a number of the script; and two marks.
nlohmann::json RunOf(const std::string& id, const std::string& text, int points);

// The page, fed by the test.
class PageViewTest : public ::testing::Test {
 protected:
  void SetUp() override { Serve("127.0.0.1:0"); }

  void Serve(const std::string& address);
  void Publish(const nlohmann::json& cluster, const nlohmann::json& job = {});
  // What /curves answers for its job from now on; without it 503.
  void PublishRun(const nlohmann::json& run) ABSL_LOCKS_EXCLUDED(mutex_);
  void Open(const std::string& path = "/");
  bool IsShown(const std::string& id);

  HttpResponse AnswerRun(const HttpServer::Query& query) ABSL_LOCKS_EXCLUDED(mutex_);

  // They outlive the server, whose threads read them.
  absl::Mutex mutex_;
  std::map<std::string, nlohmann::json> runs_ ABSL_GUARDED_BY(mutex_);
  PageFeed feed_;
  std::unique_ptr<HttpServer> server_;
  Browser browser_;
};

}  // namespace paceline

#endif  // TESTS_PAGE_PAGE_VIEW_H_
