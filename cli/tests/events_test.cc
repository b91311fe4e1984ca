// `paceline job events` and `job metrics` against a controller played by the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "proto/job_history.pb.h"
#include "proto/telemetry.pb.h"

namespace paceline {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::JobHistoryEvent Event(int64_t id, const std::string& what, bool warning = false) {
  v1::JobHistoryEvent event;
  event.set_id(id);
  event.mutable_time()->set_seconds(1700000000 + id);
  event.set_kind(warning ? v1::EVENT_RESTART : v1::EVENT_STATE);
  event.set_state(v1::RUNNING);
  event.set_step(10 * id);
  event.set_warning(warning);
  event.set_what(what);
  return event;
}

// Last column of each line except for the headings.
std::vector<std::string> Texts(const std::string& out) {
  std::vector<std::string> texts;
  for (size_t begin = out.find('\n') + 1; begin < out.size();) {
    const size_t end = out.find('\n', begin);
    const std::string line = out.substr(begin, end - begin);
    texts.push_back(line.substr(line.rfind("  ") + 2));
    begin = end + 1;
  }
  return texts;
}

class JobEventsTest : public CommandTest {
 protected:
  JobEventsTest() {
    v1::JobHistory history;
    history.set_job_id("job-0123456789ab");
    *history.add_events() = Event(1, "submitted");
    *history.add_events() = Event(4, "restart 1 of 3", /*warning=*/true);
    *history.add_events() = Event(5, "all ranks train");
    controller_.telemetry().SetHistory(history);
  }
};

TEST_F(JobEventsTest, TellsThemOldestFirst) {
  const Ran ran = Paceline({"job", "events", "digits"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("TIME"));
  EXPECT_THAT(Texts(ran.out), ElementsAre("submitted", "restart 1 of 3", "all ranks train"));
}

TEST_F(JobEventsTest, ChoosesTheNewestOrTheWarnings) {
  EXPECT_THAT(Texts(Paceline({"job", "events", "digits", "--tail", "1"}).out),
              ElementsAre("all ranks train"));
  EXPECT_THAT(Texts(Paceline({"job", "events", "digits", "--warnings"}).out),
              ElementsAre("restart 1 of 3"));
  EXPECT_THAT(Texts(Paceline({"job", "events", "digits", "--after", "4"}).out),
              ElementsAre("all ranks train"));
}

TEST_F(JobEventsTest, WithoutHeadings) {
  const Ran ran = Paceline({"job", "events", "digits", "--no-headers"});
  EXPECT_THAT(ran.out, Not(HasSubstr("TIME")));
  EXPECT_THAT(ran.out, HasSubstr("submitted"));
}

TEST_F(JobEventsTest, FollowsWithoutLossOrRepetitionOverALostConnection) {
  controller_.telemetry().AddWatch({Event(6, "six")},
                                   grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  controller_.telemetry().AddWatch({}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  controller_.telemetry().AddWatch({Event(7, "seven")}, grpc::Status::OK);
  const Ran ran = Paceline({"job", "events", "-f", "digits", "--tail", "1"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(Texts(ran.out), ElementsAre("all ranks train", "six", "seven"));
  EXPECT_THAT(ran.err, HasSubstr("does not answer; going on when it is back"));
  const auto watches = controller_.telemetry().watches();
  ASSERT_EQ(watches.size(), 3u);
  EXPECT_EQ(watches[0].after_id(), 5);
  EXPECT_EQ(watches[1].after_id(), 6);
  EXPECT_EQ(watches[2].after_id(), 6);
  EXPECT_EQ(watches[0].job(), "job-0123456789ab") << "a newer job may have the name by then";
}

TEST_F(JobEventsTest, JsonIsTheHistoryOrALineForEach) {
  EXPECT_THAT(Paceline({"job", "events", "digits", "-o", "json"}).out,
              HasSubstr("\"job_id\": \"job-0123456789ab\""));
  controller_.telemetry().AddWatch({Event(6, "six")}, grpc::Status::OK);
  const Ran ran = Paceline({"job", "events", "-f", "digits", "-o", "json", "--after", "5"});
  EXPECT_THAT(ran.out, HasSubstr("{\"id\":\"6\""));
  EXPECT_THAT(ran.out, Not(HasSubstr("TIME")));
}

TEST_F(JobEventsTest, TextsCannotDriveTheTerminal) {
  v1::JobHistory history;
  *history.add_events() = Event(1, "\x1b[2Jgone\r");
  controller_.telemetry().SetHistory(history);
  const Ran ran = Paceline({"job", "events", "digits"});
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b[2J")));
  EXPECT_THAT(ran.out, HasSubstr("\\x1b[2Jgone"));
}

TEST_F(JobEventsTest, NothingYet) {
  controller_.telemetry().SetHistory({});
  const Ran ran = Paceline({"job", "events", "digits"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("nothing is known to have happened"));
}

class JobMetricsTest : public CommandTest {
 protected:
  JobMetricsTest() {
    v1::Job job;
    job.set_id("job-0123456789ab");
    job.mutable_spec()->set_name("digits");
    job.mutable_spec()->set_steps(2000);
    job.set_state(v1::RUNNING);
    job.mutable_progress()->set_step(409);
    controller_.SetJobs({job});
  }
  static v1::JobSeries Series() {
    v1::JobSeries series;
    series.set_period_s(6);
    for (int i = 1; i <= 8; ++i) {
      v1::SeriesPoint& point = *series.add_points();
      point.set_step_s(0.1 * i);
      point.set_loss(2.5 / i);
      point.set_samples_per_s(1000.0 * i);
      point.set_wait_share(0.25);
    }
    return series;
  }
};

TEST_F(JobMetricsTest, ShowsNumbersAndPictures) {
  controller_.telemetry().SetSeries(Series());
  environment_["LANG"] = "C.UTF-8";
  const Ran ran = Paceline({"job", "metrics", "digits"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("digits (job-0123456789ab) is RUNNING, step 409 of 2000"));
  EXPECT_THAT(ran.out, HasSubstr("▁▂▃▄▅▆▇█"));
  environment_["LANG"] = "C";
  const Ran plain = Paceline({"job", "metrics", "digits"});
  for (const char c : plain.out) EXPECT_GE(c, 0) << "ASCII only";
  EXPECT_THAT(plain.out, HasSubstr("#"));
}

TEST_F(JobMetricsTest, JsonIsTheSeries) {
  controller_.telemetry().SetSeries(Series());
  EXPECT_THAT(Paceline({"job", "metrics", "digits", "-o", "json"}).out,
              HasSubstr("\"period_s\": 6"));
}

TEST_F(JobMetricsTest, ShowsWhatTheScriptReports) {
  v1::JobSeries series;
  v1::JobNumber& number = *series.add_reported();
  number.set_name("accuracy");
  number.set_step(409);
  number.set_mean(0.75);
  number.set_least(0.5);
  number.set_most(1);
  number.set_ranks(4);
  controller_.telemetry().SetSeries(series);
  const Ran ran = Paceline({"job", "metrics", "digits"});
  EXPECT_THAT(ran.out, HasSubstr("REPORTED"));
  EXPECT_THAT(ran.out, ContainsRegex("accuracy +0.75 +0.5 +1 +4 +409"));
  EXPECT_THAT(Paceline({"job", "metrics", "digits", "-o", "json"}).out,
              HasSubstr("\"name\": \"accuracy\""));
}

TEST_F(JobMetricsTest, SaysWhenTheJobEnded) {
  v1::JobSeries series = Series();
  controller_.telemetry().SetSeries(series);
  EXPECT_THAT(Paceline({"job", "metrics", "digits"}).out, HasSubstr("step 409 of 2000\n\n"));
  series.mutable_end_time()->set_seconds(1700000000);
  controller_.telemetry().SetSeries(series);
  EXPECT_THAT(Paceline({"job", "metrics", "digits"}).out,
              ContainsRegex("step 409 of 2000; it ended at 2023-11-1[45] .* ago\\)\n\n"));
  EXPECT_THAT(Paceline({"job", "metrics", "digits", "-o", "json"}).out, HasSubstr("\"end_time\""));
}

TEST_F(JobMetricsTest, WholeRunAsTableJsonAndCsv) {
  v1::JobCurves curves;
  curves.set_job_id("job-0123456789ab");
  v1::Curve& loss = *curves.add_curves();
  loss.set_name("loss");
  v1::CurvePoint& point = *loss.add_points();
  point.set_step(409);
  point.set_mean(0.5);
  point.set_values(1);
  controller_.telemetry().SetCurves(curves);
  EXPECT_THAT(Paceline({"job", "metrics", "digits", "--run"}).out, ContainsRegex("loss +0.5 "));
  EXPECT_THAT(Paceline({"job", "metrics", "digits", "--run", "-o", "json"}).out,
              HasSubstr("\"name\": \"loss\""));
  const Ran csv = Paceline({"job", "metrics", "digits", "--csv"});
  EXPECT_EQ(csv.out,
            "job,name,reported,step,mean,least,most,values,not_finite\n"
            "job-0123456789ab,loss,false,409,0.5,0,0,1,0\n");
  EXPECT_EQ(csv.err, "");
  EXPECT_NE(Paceline({"job", "metrics", "digits", "--csv", "--minutes", "3"}).exit, kCliOk);
  controller_.telemetry().SetCurves({});
  const Ran none = Paceline({"job", "metrics", "digits", "--csv"});
  EXPECT_EQ(none.exit, kCliOk);
  EXPECT_EQ(none.out, "job,name,reported,step,mean,least,most,values,not_finite\n");
  EXPECT_THAT(none.err, HasSubstr("no curves of it are kept"));
}

TEST_F(JobMetricsTest, SaysWhenNothingIsKnown) {
  const Ran ran = Paceline({"job", "metrics", "digits"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_THAT(ran.err, HasSubstr("nothing of its last minutes is known"));
}

}  // namespace
}  // namespace paceline
