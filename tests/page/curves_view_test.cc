// The curves of whole runs on the page, in a real browser.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/page/page_view.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr char kRight[] = "\uE014";
constexpr char kHome[] = "\uE011";
constexpr char kPlots[] = "document.querySelectorAll('#curves .u-over').length";

using CurvesViewTest = PageViewTest;

TEST_F(CurvesViewTest, LossOfTheWholeRunFillsTheColumnUnderAShortHeatMap) {
  PublishRun(RunOf("job-1", "n1", 30));
  Publish(FullCluster("n1"), JobDetail("n1", 2, 50));
  Open("/#job=job-1");
  browser_.SetSize(1400, 900);
  browser_.WaitUntil("document.querySelectorAll('#run .chart').length === 1");
  EXPECT_EQ(browser_.Text("#run .label"), "Loss of steps 4 to 120");
  EXPECT_EQ(browser_.Text("#run .value"), "0.03333");
  browser_.WaitUntil(
      "Math.abs(document.getElementById('run').getBoundingClientRect().bottom - "
      "document.getElementById('charts').getBoundingClientRect().bottom) < 2");
}

TEST_F(CurvesViewTest, CurvesAreReadAndZoomedByKeys) {
  PublishRun(RunOf("job-1", "n1", 30));
  Publish(FullCluster("n1"), JobDetail("n1", 2, 50));
  Open("/#job=job-1");
  browser_.WaitUntil(std::string(kPlots) + " === 2");
  EXPECT_EQ(browser_.Text("#curves .curve:nth-child(1) h4"), "Loss") << "Paceline's own come first";
  EXPECT_EQ(browser_.Text("#curves .curve:nth-child(2) h4"), "acc");
  EXPECT_NE(browser_.Text("#curves-note").find("Since step 3, "), std::string::npos);
  EXPECT_NE(browser_.Text("#curves-note").find("begin anew when the controller restarts"),
            std::string::npos);
  browser_.Value("document.querySelector('#curves .plot').focus()");
  browser_.Press(kHome);
  browser_.WaitUntil(
      "document.querySelector('#curves output').textContent === "
      "'Step 4: 1 (0.5000 to 2)'",
      "document.querySelector('#curves output').textContent");
  browser_.Press(kRight);
  browser_.WaitUntil(
      "document.querySelector('#curves output').textContent === "
      "'Step 8: not a finite number · n1'",
      "document.querySelector('#curves output').textContent");
  browser_.Press("+");
  browser_.WaitUntil("document.getElementById('curves-range').textContent === 'Steps 6 to 64'",
                     "document.getElementById('curves-range').textContent");
  EXPECT_EQ(browser_.Value("document.getElementById('curves-whole').disabled"), false);
  browser_.Press("0");
  browser_.WaitUntil("document.getElementById('curves-range').textContent === ''");
  browser_.Click("#curves-in");
  browser_.WaitUntil("document.getElementById('curves-range').textContent === 'Steps 33 to 91'",
                     "document.getElementById('curves-range').textContent");
}

TEST_F(CurvesViewTest, OtherJobsAreComparedAndKeptInTheAddress) {
  PublishRun(RunOf("job-1", "one", 30));
  PublishRun(RunOf("job-2", "two", 20));
  json state = FullCluster("one");
  state["jobs"].push_back(JobOf("job-2", "two"));
  Publish(state, JobDetail("one", 2, 50));
  Open("/#job=job-1");
  browser_.WaitUntil(std::string(kPlots) + " === 2");
  browser_.WaitUntil("document.getElementById('compare').options.length === 2");
  browser_.Value(
      "(() => { const choice = document.getElementById('compare'); choice.value = 'job-2'; "
      "choice.dispatchEvent(new Event('change')); })()");
  browser_.WaitUntil("document.getElementById('compared').children.length === 2");
  EXPECT_EQ(browser_.Value("location.hash"), "#job=job-1&with=job-2");
  browser_.WaitUntil(
      "document.querySelector('#compared li:nth-child(2) span').textContent === "
      "'two'");
  browser_.Value("document.querySelector('#curves .plot').focus()");
  browser_.Press(kHome);
  browser_.WaitUntil(
      "document.querySelector('#curves output').textContent === "
      "'Step 4: one 1 (0.5000 to 2); two 1 (0.5000 to 2)'",
      "document.querySelector('#curves output').textContent");
  browser_.Click("#compared li:nth-child(2) button");
  browser_.WaitUntil("location.hash === '#job=job-1'");
  Open("/#job=job-1&with=job-2");
  browser_.WaitUntil("document.getElementById('compared').children.length === 2");
}

TEST_F(CurvesViewTest, CurvesThatAreMissingAreSaid) {
  Publish(FullCluster("n1"), JobDetail("n1", 2, 50));
  Open("/#job=job-1");
  browser_.WaitUntil("document.getElementById('curves-note').textContent.includes('503')",
                     "document.getElementById('curves-note').textContent");
  json run = RunOf("job-1", "n1", 1);
  run["since"] = nullptr;
  run["ended"] = true;
  run["curves"] = json::array();
  PublishRun(run);
  browser_.WaitUntil(
      "document.getElementById('curves-note').textContent.startsWith("
      "'No curves are kept of this job')",
      "document.getElementById('curves-note').textContent");
}

TEST_F(CurvesViewTest, FitsANarrowWindowAndIsAccessible) {
  PublishRun(RunOf("job-1", "n1", 100));
  Publish(FullCluster("n1"), JobDetail("n1", 4, 50));
  Open("/#job=job-1");
  browser_.WaitUntil(std::string(kPlots) + " === 2");
  browser_.Value("document.getElementById('marks').open = true");
  EXPECT_EQ(browser_.AccessibilityTroubles(), "");
  browser_.SetViewport(400, 900);
  browser_.WaitUntil("innerWidth === 400", "innerWidth");
  browser_.WaitUntil("document.documentElement.scrollWidth <= 400",
                     "document.documentElement.scrollWidth");
  browser_.WaitUntil(
      "Array.from(document.querySelectorAll('#curves canvas')).every((plot) => "
      "plot.getBoundingClientRect().right <= 400)");
  browser_.SetDark(true);
  browser_.WaitUntil("matchMedia('(prefers-color-scheme: dark)').matches");
  EXPECT_EQ(browser_.AccessibilityTroubles(), "");
}

}  // namespace
}  // namespace paceline
