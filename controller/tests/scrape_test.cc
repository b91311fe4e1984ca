// Scrapes of a controller that is working, and of one that ends meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <thread>
#include <vector>

#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

using ScrapeTest = ServerTest;

TEST_F(ScrapeTest, TellsOfTheProcessTheStoreAndTheLoop) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  // Shown once stored; the node's use once a second.
  ReadMetrics("paceline_job_state{job_id=\"" + job.id() + "\",state=\"starting\"} 1\n");
  const std::string text = ReadMetrics("paceline_node_slots{node=\"w0\",state=\"used\"} 1\n");
  EXPECT_THAT(text, HasSubstr("paceline_node_state{node=\"w0\",state=\"ready\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("paceline_worker_sessions 1\n"));
  EXPECT_THAT(text, HasSubstr("\nprocess_resident_memory_bytes "));
  const size_t size = text.find("\npaceline_state_size_bytes ");
  ASSERT_NE(size, std::string::npos);
  EXPECT_GT(std::stod(text.substr(size + 27)), 1000);
  EXPECT_EQ(text.find("paceline_controller_event_duration_seconds_count 0\n"), std::string::npos);
}

// Each answer is complete, or missing.
TEST_F(ScrapeTest, ScrapesDuringTheShutdownAreSafe) {
  auto worker = Join(Hello("w0"));
  v1::Job job;
  ASSERT_TRUE(Submit(Spec(), "r1", &job).ok());
  const std::string address = "http://" + server_->Address("http");
  std::atomic<int> answered{0};
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&] {
      httplib::Client client(address);
      client.set_keep_alive(true);
      while (const auto answer = client.Get("/metrics")) {
        EXPECT_EQ(answer->status, 200);
        EXPECT_THAT(answer->body, EndsWith("\n"));
        EXPECT_THAT(answer->body, HasSubstr("paceline_build_info{"));
        ++answered;
      }
    });
  }
  while (answered < 20) std::this_thread::yield();
  server_->Stop();
  for (std::thread& scraper : scrapers) scraper.join();
}

}  // namespace
}  // namespace paceline
