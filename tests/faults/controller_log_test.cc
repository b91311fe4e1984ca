// The controller's log of a job that loses a rank, across a restart of the controller.
#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/faults/recovering_job.h"

namespace paceline {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::MatchesRegex;

class ControllerLogTest : public RecoveringJobTest {
 protected:
  // The states and generations of the job, in the order of the log. Every line of it must be an
  // object with a time and a level.
  std::vector<std::string> Changes() const {
    const std::string log = ReadFile(cluster_->directory() + "/controller.log");
    std::vector<std::string> changes;
    size_t begin = 0;
    // The last line may still be written.
    for (size_t end; (end = log.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string text = log.substr(begin, end - begin);
      const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (!line.is_object()) {
        ADD_FAILURE() << "no object: " << text;
        continue;
      }
      EXPECT_THAT(line.value("time", ""),
                  MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"))
          << text;
      EXPECT_THAT(line.value("level", ""), AnyOf("debug", "info", "warning", "error")) << text;
      if (line.value("job", "") != id_) continue;
      if (line.value("event", "") == "job_state") {
        changes.push_back(line.value("state", ""));
      } else if (line.value("event", "") == "job_generation") {
        changes.push_back(
            absl::StrCat(line.value("generation", ""), " by ", line.value("cause", "")));
      }
    }
    return changes;
  }
};

TEST_F(ControllerLogTest, EachStateAndGenerationOfAJobIsOneLineOfJson) {
  TestNetwork network;
  network.controller_flags = {"--log-format", "json"};
  cluster_ = std::make_unique<TestCluster>(3, 1, network);
  const v1::Job before = Start(Spec(150));
  Signal(before.ranks(1), SIGKILL);
  const v1::Job after = WaitForGenerationAfter(before.generation());
  std::vector<std::string> expected = {"STARTING", "1 by start", "RUNNING", "RECOVERING"};
  for (const v1::MembershipChange& change : after.membership_changes()) {
    expected.push_back(
        absl::StrCat(change.generation(), " by ", change.planned() ? "planned" : "failure"));
  }
  expected.emplace_back("RUNNING");
  // Lines that are not written yet would be lost with the controller.
  ASSERT_TRUE(Eventually([&] { return Changes().size() >= expected.size(); }));

  cluster_->KillController();
  cluster_->StartController();
  cluster_->Release();
  const v1::Job ended = cluster_->WaitForEnd(id_);
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.reason();
  expected.emplace_back("SUCCEEDED");
  EXPECT_TRUE(Eventually([&] { return Changes().size() >= expected.size(); }));
  EXPECT_EQ(Changes(), expected);
}

}  // namespace
}  // namespace paceline
