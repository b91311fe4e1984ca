#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "controller/api/services/paging.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool All(const Job&) { return true; }

class JobPageTest : public ::testing::Test {
 protected:
  // Numbers grow in the order of adding; ids do not.
  void Add(int ranks) {
    const auto number = static_cast<int64_t>(jobs_.size()) + 1;
    const JobId id(absl::StrCat("job-", 9 - number));
    Job& job = jobs_[id];
    job.request.id = id;
    job.number = number;
    job.ranks.resize(static_cast<size_t>(ranks));
  }

  std::map<JobId, Job> jobs_;
};

TEST_F(JobPageTest, TheNewestComeFirstAndTheNextPageBeginsBehindTheLast) {
  for (int n = 0; n < 3; ++n) Add(1);
  const JobPage page = PageOf(jobs_, All, 2);
  EXPECT_THAT(page.jobs, ElementsAre(JobId("job-6"), JobId("job-7")));
  EXPECT_EQ(page.next_before, 2);
}

TEST_F(JobPageTest, ThePageThatHoldsAllIsTheLast) {
  for (int n = 0; n < 2; ++n) Add(1);
  const JobPage page = PageOf(jobs_, All, 2);
  EXPECT_EQ(page.jobs.size(), 2u);
  EXPECT_EQ(page.next_before, 0);
  EXPECT_THAT(PageOf({}, All, 2).jobs, IsEmpty());
}

TEST_F(JobPageTest, OnlyJobsThatAreWantedCount) {
  for (int n = 0; n < 4; ++n) Add(1);
  const JobPage page = PageOf(
      jobs_, [](const Job& job) { return job.number < 3; }, 2);
  EXPECT_THAT(page.jobs, ElementsAre(JobId("job-7"), JobId("job-8")));
  EXPECT_EQ(page.next_before, 0);
}

TEST_F(JobPageTest, LargeJobsMakeAPageShorter) {
  for (int n = 0; n < 3; ++n) Add(kMaxRanksOfPage / 2);
  const JobPage page = PageOf(jobs_, All, 50);
  EXPECT_THAT(page.jobs, ElementsAre(JobId("job-6"), JobId("job-7")));
  EXPECT_EQ(page.next_before, 2);
}

TEST_F(JobPageTest, OneJobIsAlwaysTold) {
  for (int n = 0; n < 2; ++n) Add(kMaxRanksOfPage + 1);
  EXPECT_THAT(PageOf(jobs_, All, 50).jobs, ElementsAre(JobId("job-7")));
}

}  // namespace
}  // namespace paceline
