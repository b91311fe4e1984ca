#include "controller/core/job/artifacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/testing/played_job.h"

namespace paceline {
namespace {

Artifact Made(const std::string& name, int64_t second, const std::string& sha256 = "") {
  Artifact artifact;
  artifact.name = name;
  artifact.path = absl::StrCat("/out/", name);
  artifact.time = absl::FromUnixSeconds(second);
  artifact.sha256 = sha256;
  return artifact;
}

TEST(ArtifactsTest, AHashCompletesWhatWasReportedAndARepeatChangesNothing) {
  JobArtifacts known;
  EXPECT_TRUE(TakeArtifacts(known, Rank(1), NodeName("b"), {Made("a", 5)}));
  EXPECT_FALSE(TakeArtifacts(known, Rank(1), NodeName("b"), {Made("a", 5)}));
  EXPECT_TRUE(TakeArtifacts(known, Rank(1), NodeName("b"), {Made("a", 5, "5a")}));
  EXPECT_FALSE(TakeArtifacts(known, Rank(1), NodeName("b"), {Made("a", 5)})) << "reported late";
  ASSERT_EQ(known.by_name.size(), 1U);
  EXPECT_EQ(known.by_name["a"].sha256, "5a");
  EXPECT_EQ(known.by_name["a"].node, NodeName("b"));
  EXPECT_EQ(known.by_name["a"].rank, Rank(1));
}

// Two ranks report one name, and each repeats that in all its reports.
TEST(ArtifactsTest, TheLastOneOfANameIsKeptInWhateverOrderReportsCome) {
  struct Report {
    NodeName node;
    Artifact artifact;
  };
  std::vector<Report> reports = {{NodeName("a"), Made("x", 5)},
                                 {NodeName("a"), Made("x", 5, "a5")},
                                 {NodeName("b"), Made("x", 5, "b5")},
                                 {NodeName("a"), Made("x", 4, "a4")}};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    JobArtifacts known;
    for (const int i : order) {
      TakeArtifacts(known, Rank(0), reports[i].node, {reports[i].artifact});
    }
    EXPECT_EQ(known.by_name["x"].sha256, "b5");
    for (const Report& report : reports) {
      EXPECT_FALSE(TakeArtifacts(known, Rank(0), report.node, {report.artifact}));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(ArtifactsTest, ThereAreAtMostSoMany) {
  JobArtifacts known;
  for (size_t i = 0; i < kMostArtifacts; ++i) {
    EXPECT_TRUE(TakeArtifacts(known, Rank(0), NodeName("a"), {Made(absl::StrCat("a", i), 1)}));
  }
  EXPECT_FALSE(known.left_out);
  EXPECT_TRUE(TakeArtifacts(known, Rank(0), NodeName("a"), {Made("more", 1)}));
  EXPECT_TRUE(known.left_out);
  EXPECT_FALSE(TakeArtifacts(known, Rank(0), NodeName("a"), {Made("still-more", 1)}));
  EXPECT_EQ(known.by_name.size(), kMostArtifacts);
  EXPECT_TRUE(TakeArtifacts(known, Rank(0), NodeName("a"), {Made("a0", 2)})) << "it is known";
}

TEST(ArtifactsTest, AReportIsStoredAndTheJobKeepsWhatARankHasReported) {
  Job job = RunningJob();
  TrainerReport report = PlayedReport(job, 1, TrainerState::kRunning);
  report.artifacts = {Made("a", 5)};
  EXPECT_EQ(Tell(job, report, At(3)), JobChange::kTrainer);
  EXPECT_NE(Tell(job, report, At(4)), JobChange::kTrainer);
  EXPECT_EQ(job.artifacts.by_name["a"].rank, Rank(1));
  EXPECT_EQ(job.artifacts.by_name["a"].node, NodeName("b"));
  // The last report of a rank counts, too.
  report.artifacts = {Made("a", 5, "5a")};
  report.state = TrainerState::kExited;
  report.exit = TrainerExit();
  Tell(job, report, At(5));
  EXPECT_EQ(job.artifacts.by_name["a"].sha256, "5a");
}

}  // namespace
}  // namespace paceline
