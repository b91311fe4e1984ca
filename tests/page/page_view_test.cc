// The page in a real browser, with states that the test makes up.
#include "tests/page/page_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr char kHostile[] = "<img src=x onerror=\"document.title='taken over'\"></td><b>";
constexpr char kRight[] = "\uE014";
constexpr char kDown[] = "\uE015";

TEST_F(PageViewTest, EmptyClusterSaysWhatToDo) {
  Publish(EmptyCluster());
  Open();
  EXPECT_TRUE(IsShown("no-jobs"));
  EXPECT_TRUE(IsShown("no-nodes"));
  EXPECT_TRUE(IsShown("no-decisions"));
  EXPECT_FALSE(IsShown("job-table"));
  EXPECT_FALSE(IsShown("job"));
  EXPECT_FALSE(IsShown("automation"));
  EXPECT_EQ(browser_.Text("#version"), "1.2.3");
}

TEST_F(PageViewTest, HostileTextStaysText) {
  PublishRun(RunOf("job-1", kHostile, 20));
  Publish(FullCluster(kHostile), JobDetail(kHostile, 4, 20));
  Open("/#job=job-1");
  browser_.WaitUntil("document.getElementById('rank-rows').children.length === 1");
  browser_.WaitUntil("document.getElementById('mark-list').children.length === 2");
  EXPECT_EQ(browser_.Text("#mark-list .what"), kHostile);
  EXPECT_EQ(browser_.Text("#job-rows .name a"), kHostile);
  EXPECT_EQ(browser_.Text("#job-name"), kHostile);
  EXPECT_EQ(browser_.Text("#job-rows .labels"), absl::StrCat(kHostile, " · 2 more"));
  EXPECT_EQ(browser_.Text("#job-labels"), absl::StrCat("Labels: ", kHostile, " · team=vision"));
  EXPECT_EQ(browser_.Text("#job-description"), kHostile);
  EXPECT_EQ(browser_.Text("#job-strategy"),
            absl::StrCat("Strategy: hsgd 2:2,8:all:int8 ", kHostile));
  EXPECT_EQ(browser_.Text("#artifact-list .what"),
            absl::StrCat(kHostile, ": /out on w0, 20 bytes, sha256 ab12"));
  EXPECT_EQ(browser_.Text("#node-tiles .name"), kHostile);
  EXPECT_EQ(browser_.Text("#decision-list .what"), kHostile);
  EXPECT_EQ(browser_.Text("#event-list .what"), kHostile);
  EXPECT_EQ(browser_.Text("#rank-rows td:nth-child(2)"), kHostile);
  EXPECT_NE(browser_.Text("#automation").find(kHostile), std::string::npos);
  EXPECT_EQ(browser_.Value("document.querySelectorAll('img, main b').length"), 0);
  EXPECT_EQ(browser_.Value("document.title"), "Paceline · 1 job");
}

TEST_F(PageViewTest, LineageLeadsToTheJobsBeforeAndAfter) {
  Publish(FullCluster("n1"), JobDetail("digits", 4, 20));
  Open("/#job=job-1");
  browser_.WaitUntil("document.getElementById('lineage').checkVisibility()");
  EXPECT_EQ(browser_.Value("[...document.querySelectorAll('#lineage-list li')]"
                           ".map((item) => item.textContent).join('|')"),
            "digits|digits, step 40|this job|next, from step 80|2 more");
  EXPECT_EQ(browser_.Value("[...document.querySelectorAll('#lineage-list a')]"
                           ".map((link) => link.getAttribute('href')).join('|')"),
            "#job=job-0|#job=job-2");
}

TEST_F(PageViewTest, CodeThatGetsInDoesNotRun) {
  Publish(EmptyCluster());
  Open();
  // Even if there were a hole, the content security policy would stop it.
  EXPECT_EQ(browser_.Value("(() => { try { document.body.innerHTML = '<p>'; return 'set'; } "
                           "catch (error) { return 'refused'; } })()"),
            "refused");
  EXPECT_EQ(browser_.Value("(() => { const code = document.createElement('script'); "
                           "try { code.textContent = 'window.ran = true'; } catch (error) {} "
                           "document.body.append(code); return window.ran === undefined; })()"),
            true);
}

TEST_F(PageViewTest, HeatMapShowsWhoIsSlow) {
  Publish(FullCluster("n1"), JobDetail("n1", 4, 50));
  Open();
  browser_.Click("#job-rows .name a");
  browser_.WaitUntil("document.getElementById('map').dataset.steps === '50'");
  EXPECT_EQ(browser_.Value("document.getElementById('map').dataset.rows"), "4");
  // The colour of the middle of a row at some step: rank 2 has another one.
  const auto colour = [&](int rank) {
    return browser_
        .Value(
            "(() => { const map = document.getElementById('map'); return Array.from("
            "map.getContext('2d').getImageData(map.width / 2, map.height * (" +
            std::to_string(rank) + " + 0.5) / 4, 1, 1).data); })()")
        .dump();
  };
  EXPECT_EQ(colour(0), colour(1));
  EXPECT_EQ(colour(0), colour(3));
  EXPECT_NE(colour(0), colour(2));
  // With the keyboard alone.
  browser_.Value("document.getElementById('map').focus()");
  browser_.Press(kDown);
  browser_.Press(kDown);
  browser_.Press(kRight);
  EXPECT_EQ(browser_.Text("#map-readout"),
            "Step 149, rank 2 on n1: own 200 ms (2.00 × median), step 210 ms");
  EXPECT_EQ(browser_.Text("#rank-rows td:nth-child(6)"), "2.00 ×");
  browser_.Click("#map-mode label:nth-of-type(2)");
  EXPECT_NE(colour(0), colour(2));
  EXPECT_EQ(browser_.Text("#legend-low"), "0 % waiting");
}

TEST_F(PageViewTest, UpdatesKeepFocusAndRows) {
  Publish(FullCluster("n1"));
  Open();
  browser_.Value(
      "(() => { window.row = document.querySelector('#job-rows tr'); "
      "window.row.querySelector('a').focus(); })()");
  json later = FullCluster("n1");
  later["jobs"][0]["step"] = 121;
  later["jobs"].insert(later["jobs"].begin(), JobOf("job-2", "newer"));
  Publish(later);
  browser_.WaitUntil("document.getElementById('job-rows').children.length === 2");
  EXPECT_EQ(browser_.Value("document.querySelectorAll('#job-rows tr')[1] === window.row"), true);
  EXPECT_EQ(browser_.Value("document.activeElement === window.row.querySelector('a')"), true);
  EXPECT_NE(browser_.Text("#job-rows tr:nth-child(2) td:nth-child(3)").find("121"),
            std::string::npos);
}

TEST_F(PageViewTest, LostConnectionIsToldAndComesBack) {
  Publish(EmptyCluster());
  Open();
  const std::string address = server_->address();
  server_.reset();
  browser_.WaitUntil("document.getElementById('connection').dataset.state === 'lost'");
  EXPECT_EQ(browser_.Text("#connection"), "Connection lost, trying again …");
  EXPECT_TRUE(IsShown("no-jobs")) << "what was known stays";
  Publish(FullCluster("n1"));
  Serve(address);
  browser_.WaitUntil("document.getElementById('connection').dataset.state === 'live'");
  EXPECT_EQ(browser_.Value("document.getElementById('job-rows').children.length"), 1);
}

TEST_F(PageViewTest, UnknownJobIsSaidWhenTheControllerHasSaidSo) {
  Publish(FullCluster("n1"));
  Open("/#job=job-gone");
  browser_.WaitUntil("document.getElementById('job').checkVisibility()");
  EXPECT_EQ(browser_.Text("#job-reason"), "Asking the controller …");
  Publish(FullCluster("n1"), {{"id", "job-gone"}, {"known", false}});
  browser_.WaitUntil("document.getElementById('job-reason').textContent.includes('unknown')",
                     "document.getElementById('job-reason').textContent");
  EXPECT_FALSE(IsShown("job-body"));
}

TEST_F(PageViewTest, LargeClusterIsSummedUpAndAJobBeyondTheListIsShown) {
  json state = FullCluster("n1");
  state["jobs"][0] = JobOf("job-9", "newer");
  state["job_counts"] = {{"queued", 3}, {"running", 1001}, {"succeeded", 20}};
  state["jobs_left_out"] = {{"queued", 3}, {"running", 1000}};
  state["node_counts"] = {{"lost", 2}, {"ready", 1498}};
  state["nodes_left_out"] = 1499;
  state["sums"] = {{"ranks", 4004}, {"slow", 7}, {"slots", 6000}, {"slots_used", 4100}};
  Publish(state, JobDetail("older", 4, 20));
  Open("/#job=job-1");
  browser_.WaitUntil("document.getElementById('job-name').textContent === 'older'",
                     "document.getElementById('job').textContent");
  EXPECT_TRUE(IsShown("job-body"));
  EXPECT_EQ(browser_.Value("document.getElementById('map').dataset.steps"), "20");
  EXPECT_EQ(browser_.Value("document.getElementById('job-rows').children.length"), 1);
  EXPECT_EQ(browser_.Text("#more-jobs"),
            "1003 more jobs not shown (3 queued, 1000 running): paceline job list");
  EXPECT_EQ(browser_.Text("#more-nodes"), "1499 more nodes not shown: paceline node list");
  EXPECT_EQ(browser_.Value("Array.from(document.querySelectorAll('#summary .value'), (value) => "
                           "value.textContent).join(' ')"),
            "1001 3 4004 7 1498/1500 4100/6000");
  EXPECT_EQ(browser_.Value("document.title"), "Paceline · 1004 jobs");
}

TEST_F(PageViewTest, NothingIsLoadedFromElsewhereAndNothingFails) {
  Publish(FullCluster("n1"), JobDetail("n1", 128, 200));
  Open("/#job=job-1");
  browser_.WaitUntil("document.getElementById('map').dataset.rows === '128'");
  EXPECT_EQ(browser_.Value("performance.getEntriesByType('resource').every((entry) => "
                           "entry.name.startsWith('data:') || "
                           "entry.name.startsWith(location.origin + '/'))"),
            true);
  // A narrow window needs no scrolling sideways.
  browser_.SetSize(500, 900);
  browser_.WaitUntil("innerWidth <= 520");
  EXPECT_EQ(browser_.Value("document.documentElement.scrollWidth <= innerWidth"), true);
}

TEST_F(PageViewTest, LongStrategyIsBrokenOnANarrowWindowAndHiddenWhereThereIsNone) {
  json detail = JobDetail("n1", 4, 20);
  std::string ladder = "hsgd 2:2:int8";
  for (int period = 4; period <= 512; period *= 2) {
    absl::StrAppend(&ladder, ",", period, ":", period, ":int8:nesterov/0.7/0.9");
  }
  detail["strategy"] = ladder;
  Publish(FullCluster("n1"), detail);
  Open("/#job=job-1");
  browser_.SetViewport(400, 900);
  browser_.WaitUntil("document.getElementById('job-strategy').checkVisibility()");
  EXPECT_EQ(browser_.Text("#job-strategy"), "Strategy: " + ladder);
  EXPECT_EQ(browser_.Value("document.getElementById('job-strategy').scrollWidth <= innerWidth"),
            true);
  detail["strategy"] = "";  // A command that is no session.
  Publish(FullCluster("n1"), detail);
  browser_.WaitUntil("!document.getElementById('job-strategy').checkVisibility()");
}

TEST_F(PageViewTest, TableThatIsWiderThanThePageSaysSo) {
  Publish(FullCluster("n1"), JobDetail("n1", 4, 50));
  Open("/#job=job-1");
  browser_.WaitUntil("document.getElementById('rank-rows').children.length === 1");
  const std::string hint = "document.querySelector('section .hint').checkVisibility()";
  browser_.SetSize(1400, 900);
  browser_.WaitUntil("!" + hint);
  browser_.SetSize(500, 900);
  browser_.WaitUntil(hint);
}

}  // namespace
}  // namespace paceline
