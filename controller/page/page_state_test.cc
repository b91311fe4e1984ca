#include "controller/page/page_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "controller/core/steps/step_code.h"
#include "controller/core/stragglers/job/testing/straggler_testing.h"
#include "controller/page/page_job.h"
#include "proto/job_spec.pb.h"

namespace paceline {
namespace {

using nlohmann::json;

JobRequest Named(const std::string& name) {
  JobRequest request = WatchedRequest(StragglerMode::kAdvise, /*ranks=*/4);
  request.name = name;
  return request;
}

class PageStateTest : public ::testing::Test {
 protected:
  PageSources Sources() const {
    return {*watched_.cluster, *watched_.stragglers, history_, histories_};
  }
  json Describe() const { return DescribeForPage(Sources(), watched_.now.wall); }
  json DescribeJob() const { return DescribeJobForPage(Sources(), watched_.id, watched_.now.wall); }

  // Plays a step: each rank takes its own number of seconds, and all wait for the slowest.
  void Train(int64_t step, const std::vector<double>& own) {
    const double longest = *std::max_element(own.begin(), own.end());
    for (size_t r = 0; r < own.size(); ++r) {
      StepTimes times;
      times.step = step;
      times.forward_s = own[r];
      times.communication_s = longest - own[r];
      times.total_s = longest;
      const RankState& rank = watched_.job().ranks[r];
      history_.TakeSteps(*watched_.cluster, rank.slot.node, rank.report.id, {&times, 1});
    }
    watched_.Wait(absl::Seconds(1));
    Follow();
  }
  void Follow() {
    Actions actions;
    actions.show_jobs.insert(watched_.id);
    history_.Follow(*watched_.cluster, actions, watched_.now);
  }

  WatchedJob watched_{Named("<img src=x onerror=alert(1)>"), /*nodes=*/6};
  StepHistory history_;
  JobHistories histories_;
};

TEST_F(PageStateTest, EmptyClusterHasEmptyLists) {
  const Cluster cluster{Cluster::Options()};
  const json state =
      DescribeForPage({cluster, *watched_.stragglers, history_, histories_}, absl::UnixEpoch());
  for (const char* list : {"jobs", "nodes", "decisions"}) {
    EXPECT_TRUE(state[list].is_array()) << list;
    EXPECT_TRUE(state[list].empty()) << list;
  }
  EXPECT_EQ(state["automation"]["paused"], false);
}

TEST_F(PageStateTest, TellsJobsAndNodes) {
  Follow();
  for (int64_t step = 0; step < 5; ++step) Train(step, {1, 1, 2, 1});
  const json state = Describe();
  ASSERT_EQ(state["jobs"].size(), 1U);
  const json& job = state["jobs"][0];
  // Unchanged: escaping is the page's task.
  EXPECT_EQ(job["name"], "<img src=x onerror=alert(1)>");
  EXPECT_EQ(job["state"], "running");
  EXPECT_EQ(job["steps"], 100000);
  EXPECT_NEAR(job["step_s"], 2, 0.01);
  EXPECT_FALSE(job["recent_step_s"].empty());
  EXPECT_EQ(job["ended"], nullptr);
  EXPECT_EQ(state["job_counts"]["running"], 1);
  EXPECT_EQ(state["nodes"].size(), 6U);
  json home;
  for (const json& node : state["nodes"]) {
    if (node["name"] == watched_.NodeOf(0)) home = node;
  }
  EXPECT_EQ(home["state"], "ready");
  EXPECT_EQ(home["slots_used"], 1);
  EXPECT_EQ(home["jobs"][0], job["name"]);
  EXPECT_EQ(state["node_counts"]["ready"], 6);
}

// Adds jobs job-w0, job-w1, ... of so many ranks each.
void SubmitMany(WatchedJob& watched, size_t count, int ranks) {
  for (size_t i = 0; i < count; ++i) {
    JobRequest request = Named("many");
    request.id = JobId(absl::StrCat("job-w", i));
    request.ranks = ranks;
    request.spares = 0;
    watched.Apply(JobSubmitted{request});
  }
}

TEST_F(PageStateTest, WhatHoldsSlotsIsShownBeforeNewerJobsThatWait) {
  SubmitMany(watched_, kPageJobs + 5, /*ranks=*/1000);
  const json state = Describe();
  EXPECT_EQ(state["jobs"].size(), kPageJobs);
  EXPECT_EQ(state["jobs"][0]["id"], "job-1") << "the oldest of all, and it runs";
  EXPECT_EQ(state["jobs"][1]["id"], absl::StrCat("job-w", kPageJobs + 4)) << "the newest first";
  EXPECT_EQ(state["jobs_left_out"].dump(), R"({"queued":6})");
  EXPECT_EQ(state["job_counts"]["queued"], kPageJobs + 5);
}

TEST_F(PageStateTest, JobsBeyondTheListAreSummedUpAndTheirDecisionsTold) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(600, SlowFrom(watched.NodeOf(2), 200));
  NodeFacts facts;
  facts.name = NodeName("zz");
  facts.uid = "zz";
  facts.slots = static_cast<int>(kPageJobs) + 5;
  watched.Apply(NodeConnected{facts, {}});
  SubmitMany(watched, kPageJobs + 5, /*ranks=*/1);
  for (int i = 0; i < 5; ++i) watched.Report();
  const PageSources sources{*watched.cluster, *watched.stragglers, history_, histories_};
  const json state = DescribeForPage(sources, watched.now.wall);
  EXPECT_EQ(state["job_counts"]["running"], kPageJobs + 6);
  EXPECT_EQ(state["jobs"].size(), kPageJobs);
  for (const json& job : state["jobs"]) EXPECT_NE(job["id"], "job-1");
  EXPECT_EQ(state["jobs_left_out"].dump(), R"({"running":6})");
  EXPECT_EQ(state["sums"]["ranks"], 8 + kPageJobs + 5);
  EXPECT_EQ(state["sums"]["slow"], 1);
  ASSERT_FALSE(state["decisions"].empty());
  EXPECT_EQ(state["decisions"][0]["job_name"], "watched");
  const json job = DescribeJobForPage(sources, watched.id, watched.now.wall);
  EXPECT_EQ(job["job"]["name"], "watched") << "who asks for it gets it";
  EXPECT_EQ(job["job"]["slow_count"], 1);
}

TEST_F(PageStateTest, NodesBeyondTheListAreSummedUpAndTroubleIsShown) {
  WatchedJob watched(Named("wide"), static_cast<int>(kPageNodes) + 5);
  Hold hold;
  hold.owner = "ann";
  hold.reason = "its fan is loud";
  hold.since = watched.now.wall;
  watched.Apply(HoldRequested{NodeName("n99"), hold});  // The last by name.
  const json state = DescribeForPage({*watched.cluster, *watched.stragglers, history_, histories_},
                                     watched.now.wall);
  EXPECT_EQ(state["nodes"].size(), kPageNodes);
  EXPECT_EQ(state["nodes_left_out"], 5);
  EXPECT_EQ(state["nodes"][0]["name"], "n00") << "by name";
  EXPECT_EQ(state["nodes"].back()["name"], "n99");
  EXPECT_EQ(state["sums"]["slots"], kPageNodes + 5);
  EXPECT_EQ(state["sums"]["slots_used"], watched.job().ranks.size() + watched.job().spares.size());
  EXPECT_EQ(state["node_counts"]["ready"], kPageNodes + 4);
}

TEST_F(PageStateTest, TellsTheStepsOfAJobCellByCell) {
  Follow();
  for (int64_t step = 0; step < 3; ++step) Train(step, {1, 1, 2, 1});
  const json job = DescribeJob();
  EXPECT_EQ(job["known"], true);
  EXPECT_EQ(job["job"]["state"], "running");
  const json& table = job["table"];
  EXPECT_EQ(table["ranks"], 4);
  EXPECT_EQ(table["steps"], 3);
  EXPECT_EQ(table["rows"].size(), 4U);
  EXPECT_EQ(table["rows"][2]["first_rank"], 2);
  EXPECT_EQ(table["rows"][2]["nodes"][0], watched_.NodeOf(2));
  EXPECT_NEAR(table["median_own_s"], 1, 0.01);
  std::string cells;
  ASSERT_TRUE(absl::Base64Unescape(table["cells"].get<std::string>(), &cells));
  ASSERT_EQ(cells.size(), 4U * 3 * 4);
  const auto seconds = [&](size_t row, size_t step, size_t which) {
    const size_t at = (row * 3 + step) * 4 + which * 2;
    return DecodeSeconds(static_cast<StepCode>(static_cast<uint8_t>(cells[at]) |
                                               static_cast<uint8_t>(cells[at + 1]) << 8));
  };
  EXPECT_NEAR(seconds(2, 1, 0), 2, 0.01);
  EXPECT_NEAR(seconds(3, 2, 0), 1, 0.01);
  EXPECT_NEAR(seconds(3, 2, 1), 2, 0.01);
  EXPECT_EQ(job["ranks"][0]["rank"], 2) << "the slowest first";
  EXPECT_FALSE(job["series"]["step_s"].empty());
  EXPECT_TRUE(job["ranks"][0]["last_heard"].is_null()) << "its node answers";
}

TEST_F(PageStateTest, TheListTellsTheFirstLabelsAndTheJobAllWithItsDescription) {
  JobRequest request = Named("labelled");
  for (size_t i = 0; i < kPageLabels + 2; ++i) request.labels[absl::StrCat("k", i)] = "v";
  request.description = "<b>lines\nof text";
  const WatchedJob watched(request, /*nodes=*/6);
  const PageSources sources{*watched.cluster, *watched.stragglers, history_, histories_};
  const json job = DescribeJobForPage(sources, watched.id, watched.now.wall);
  EXPECT_EQ(job["job"]["labels"].size(), kPageLabels);
  EXPECT_EQ(job["job"]["labels"][0], "k0=v");
  EXPECT_EQ(job["job"]["label_count"], kPageLabels + 2);
  EXPECT_EQ(job["labels"].size(), kPageLabels + 2);
  EXPECT_EQ(job["description"], request.description);
  EXPECT_TRUE(DescribeJob()["labels"].empty());
  EXPECT_TRUE(DescribeJob()["artifacts"].empty());
  EXPECT_EQ(DescribeJob()["description"], "");
}

TEST_F(PageStateTest, TellsTheStrategyInUse) {
  EXPECT_EQ(DescribeJob()["strategy"], "ddp");
  v1::Strategy asked;
  v1::LadderLevel& level = *asked.mutable_hsgd()->add_ladder();
  level.set_period(500);
  level.set_level(v1::SCOPE_ALL);
  level.set_format(v1::WIRE_FORMAT_INT8);
  v1::Outer& outer = *level.mutable_outer();
  outer.set_kind(v1::OUTER_NESTEROV);
  outer.set_learning_rate(0.7);
  outer.set_momentum(0.9);
  JobRequest request = Named("averaging");
  request.strategy_spec = asked.SerializeAsString();
  const WatchedJob averaging(request, /*nodes=*/6);
  const auto strategy_of = [&](const WatchedJob& watched) {
    const PageSources sources{*watched.cluster, *watched.stragglers, history_, histories_};
    return DescribeJobForPage(sources, watched.id, watched.now.wall)["strategy"];
  };
  EXPECT_EQ(strategy_of(averaging), "hsgd 500:all:int8:nesterov/0.7/0.9");
  request.command.emplace();  // A program of its own: no engine, no strategy.
  EXPECT_EQ(strategy_of(WatchedJob(request, /*nodes=*/6)), "");
}

TEST_F(PageStateTest, TellsWhatAJobWasMadeFromAndWhatFromIt) {
  const auto submit = [&](const std::string& id, const std::string& from) {
    JobRequest request = Named("named " + id);
    request.id = JobId(id);
    request.resume_from = from;
    watched_.Apply(JobSubmitted{request});
  };
  submit("job-b", "/ckpt/job-a/step-000000000040.g1");  // job-a is not known any more.
  submit("job-c", "/ckpt/job-b/step-000000000080.g1");
  submit("job-d", "/ckpt/job-c/step-000000000120.g2");
  submit("job-e", "/ckpt/job-c/step-000000000160.g2");
  submit("job-f", "/by/hand");
  const auto lineage = [&](const std::string& id) {
    return DescribeJobForPage(Sources(), JobId(id), watched_.now.wall)["lineage"];
  };
  const json of_c = lineage("job-c");
  ASSERT_EQ(of_c["ancestors"].size(), 2U);
  EXPECT_EQ(of_c["ancestors"][0]["id"], "job-a");
  EXPECT_EQ(of_c["ancestors"][0]["name"], "job-a");
  EXPECT_EQ(of_c["ancestors"][0]["known"], false);
  EXPECT_EQ(of_c["ancestors"][1]["name"], "named job-b");
  EXPECT_EQ(of_c["ancestors"][1]["step"], 80);
  ASSERT_EQ(of_c["children"].size(), 2U);
  EXPECT_EQ(of_c["children"][0]["id"], "job-e") << "the newest first";
  EXPECT_EQ(of_c["children"][1]["step"], 120);
  EXPECT_EQ(lineage("job-f")["directory"], "/by/hand");
  EXPECT_TRUE(lineage("job-f")["ancestors"].empty());
  EXPECT_EQ(lineage("job-d")["ancestors"].size(), 3U);
  EXPECT_EQ(DescribeJob()["lineage"]["child_count"], 0);
}

TEST_F(PageStateTest, LineageHasABoundAlsoWhereJobsWereMadeFromEachOther) {
  const auto submit = [&](size_t i, size_t from) {
    JobRequest request = Named("circle");
    request.id = JobId(absl::StrCat("job-c", i));
    request.resume_from = absl::StrCat("/ckpt/job-c", from, "/step-000000000040.g1");
    watched_.Apply(JobSubmitted{request});
  };
  submit(0, 1);
  submit(1, 0);
  for (size_t i = 2; i < kPageKin + 5; ++i) submit(i, 0);
  const json job = DescribeJobForPage(Sources(), JobId("job-c0"), watched_.now.wall);
  EXPECT_EQ(job["lineage"]["ancestors"].size(), kPageKin);
  EXPECT_EQ(job["lineage"]["children"].size(), kPageKin);
  EXPECT_EQ(job["lineage"]["child_count"], kPageKin + 4);
}

TEST_F(PageStateTest, TellsWhatWasDecidedTheNewestFirst) {
  WatchedJob watched(WatchedRequest(StragglerMode::kAdvise));
  watched.Train(600, SlowFrom(watched.NodeOf(2), 200));
  const json state = DescribeForPage({*watched.cluster, *watched.stragglers, history_, histories_},
                                     watched.now.wall);
  ASSERT_FALSE(state["decisions"].empty());
  EXPECT_EQ(state["decisions"][0]["id"], "job-1/d1");
  EXPECT_EQ(state["decisions"][0]["job_name"], "watched");
  EXPECT_FALSE(state["decisions"][0]["what"].get<std::string>().empty());
  ASSERT_EQ(state["jobs"][0]["slow_count"], 1);
  EXPECT_EQ(state["jobs"][0]["slow"][0]["rank"], 2);
  EXPECT_EQ(state["jobs"][0]["slow"][0]["cause"], "compute");
}

TEST_F(PageStateTest, TellsWhatHappenedTheNewestFirst) {
  std::vector<JobLifeEvent> events(kPageEvents + 5);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].id = static_cast<int64_t>(i) + 1;
    events[i].what = absl::StrCat("event ", events[i].id);
  }
  histories_.Restore({{watched_.id, events}}, *watched_.cluster);
  const json job = DescribeJob();
  ASSERT_EQ(job["events"].size(), kPageEvents);
  EXPECT_EQ(job["events"][0]["what"], absl::StrCat("event ", events.size()));
}

TEST_F(PageStateTest, UnknownJobIsNotKnown) {
  const json job = DescribeJobForPage(Sources(), JobId("job-gone"), watched_.now.wall);
  EXPECT_EQ(job["known"], false);
  EXPECT_EQ(job["id"], "job-gone");
}

TEST_F(PageStateTest, JobWithoutStepsHasAnEmptyTable) {
  const json job = DescribeJob();
  EXPECT_EQ(job["table"]["steps"], 0);
  EXPECT_EQ(job["table"]["cells"], "");
  EXPECT_EQ(job["ranks"].size(), 4U);
}

}  // namespace
}  // namespace paceline
