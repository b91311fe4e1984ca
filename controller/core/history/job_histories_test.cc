#include "controller/core/history/job_histories.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/core/history/transition_finder.h"
#include "controller/core/stragglers/job/testing/straggler_testing.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Time kWall = absl::FromUnixSeconds(1700000000);

Actions Shown(const JobId& id) {
  Actions actions;
  actions.show_jobs.insert(id);
  return actions;
}

std::vector<std::string> TextsOf(const EventHistory& history) {
  std::vector<std::string> texts;
  for (const auto& [id, event] : history.events()) texts.push_back(event.what);
  return texts;
}

// A job with a slow rank, and its histories, which look at it after every ten steps.
class JobHistoriesTest : public ::testing::Test {
 protected:
  void Follow() {
    StragglerActions decided;
    if (const JobStragglers* known = watched_.stragglers->Find(watched_.id)) {
      for (const RemedyDecision& decision : known->policy().decisions()) {
        decided.store.emplace(watched_.id, decision.id);
      }
    }
    const HistoryActions actions = Take(Shown(watched_.id), decided);
    for (const auto& [job, id] : actions.store) stored_[id] = *histories_.Find(job)->Find(id);
    for (const auto& [job, id] : actions.forget) stored_.erase(id);
  }
  HistoryActions Take(const Actions& actions, const StragglerActions& decided) {
    return histories_.Take(*watched_.cluster,
                           finder_.Look(*watched_.cluster, *watched_.stragglers, actions, decided),
                           actions.delete_jobs, kWall);
  }
  void Train(int64_t steps, const WatchedJob::OwnTime& own) {
    for (int64_t done = 0; done < steps; done += 10) {
      watched_.Train(10, own);
      Follow();
    }
  }

  WatchedJob watched_{WatchedRequest(StragglerMode::kAuto)};
  TransitionFinder finder_;
  JobHistories histories_;
  std::map<int64_t, JobLifeEvent> stored_;
};

TEST_F(JobHistoriesTest, TellsASlowRankFromItsVerdictToWhetherTheRemedyHelped) {
  Follow();
  Train(1200, SlowFrom("n03", 200));
  const std::vector<std::string> texts = TextsOf(*histories_.Find(watched_.id));
  EXPECT_THAT(texts, Contains(HasSubstr("submitted as watched, 8 ranks")));
  EXPECT_THAT(texts, Contains(AllOf(HasSubstr("on n03 is slow: 1."), HasSubstr("by compute"))));
  EXPECT_THAT(texts, Contains(HasSubstr("ordered by the automation: hot-swap of rank")));
  EXPECT_THAT(texts, Contains(HasSubstr("helped: hot-swap of rank")));
  EXPECT_THAT(texts, Contains(HasSubstr("generation 2")));
  EXPECT_EQ(stored_.size(), texts.size());
}

TEST_F(JobHistoriesTest, AVerdictIsToldOnce) {
  Train(400, SlowFrom("n03", 200));
  int reported = 0;
  for (const std::string& text : TextsOf(*histories_.Find(watched_.id))) {
    reported += text.find("n03 is slow:") == std::string::npos ? 0 : 1;
  }
  EXPECT_EQ(reported, 1);
}

TEST_F(JobHistoriesTest, VerdictsWithoutAnythingElseAreFound) {
  Follow();
  EXPECT_FALSE(finder_.HasNewVerdicts(watched_.id, *watched_.stragglers));
  watched_.Train(400, SlowFrom("n03", 200));
  ASSERT_TRUE(finder_.HasNewVerdicts(watched_.id, *watched_.stragglers));
  const HistoryActions actions = histories_.Take(
      *watched_.cluster, finder_.LookAtVerdicts(watched_.id, *watched_.stragglers), {}, kWall);
  ASSERT_FALSE(actions.store.empty());
  const JobLifeEvent& event = *histories_.Find(watched_.id)->Find(actions.store.begin()->second);
  EXPECT_EQ(event.kind, JobEventKind::kStraggler);
  EXPECT_EQ(event.time, kWall);
  EXPECT_FALSE(finder_.HasNewVerdicts(watched_.id, *watched_.stragglers));
}

TEST_F(JobHistoriesTest, AfterARestartNothingIsToldAgain) {
  Follow();
  Train(1200, SlowFrom("n03", 200));
  std::vector<JobLifeEvent> events;
  for (const auto& [id, event] : stored_) events.push_back(event);
  std::vector<RemedyDecision> decisions;
  for (const auto& [id, decision] : watched_.stored) decisions.push_back(decision);
  JobHistories after;
  after.Restore({{watched_.id, events}}, *watched_.cluster);
  TransitionFinder finder;
  finder.Restore(*watched_.cluster, {{watched_.id, decisions}});
  EXPECT_TRUE(after.Find(watched_.id)->is_released());
  const auto before = TextsOf(*after.Find(watched_.id));
  EXPECT_EQ(before.size(), stored_.size());
  StragglerActions decided;
  for (const RemedyDecision& decision : decisions) decided.store.emplace(watched_.id, decision.id);
  Stragglers fresh(
      {}, [](const std::string& s, const Ladder&) { return s; },
      [](const std::string& s, const std::optional<SlipstreamChoice>&) { return s; });
  fresh.Restore({{watched_.id, decisions}}, *watched_.cluster, watched_.now);
  EXPECT_TRUE(finder.Look(*watched_.cluster, fresh, Shown(watched_.id), decided).empty());
}

TEST_F(JobHistoriesTest, ADeletedJobsEventsAreForgotten) {
  Follow();
  ASSERT_FALSE(stored_.empty());
  Actions actions;
  actions.delete_jobs.insert(watched_.id);
  const HistoryActions reported = Take(actions, {});
  EXPECT_EQ(reported.forget.size(), stored_.size());
  EXPECT_EQ(histories_.Find(watched_.id), nullptr);
  EXPECT_FALSE(finder_.HasNewVerdicts(watched_.id, *watched_.stragglers));
  // Another job of the same id gets a history of its own, which begins alike.
  stored_.clear();
  Follow();
  EXPECT_EQ(stored_.size(), reported.forget.size());
}

TEST(JobHistoriesRestoreTest, EventsOfJobsThatAreGoneAreForgotten) {
  Cluster cluster{Cluster::Options()};
  JobHistories histories;
  JobLifeEvent event;
  event.id = 3;
  const HistoryActions actions = histories.Restore({{JobId("job-9"), {event}}}, cluster);
  EXPECT_EQ(actions.forget, (std::set<HistoryActions::Key>{{JobId("job-9"), 3}}));
}

}  // namespace
}  // namespace paceline
