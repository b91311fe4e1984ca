// The page of a real cluster in a real browser; the pictures of the documentation are taken here
// (tools/page-picture.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "proto/node.grpc.pb.h"
#include "tests/integration/test_cluster.h"
#include "tests/page/browser.h"

namespace paceline {
namespace {

constexpr char kHostile[] = "<img src=x onerror=alert(1)>";

class PageClusterTest : public ::testing::Test {
 protected:
  std::string Url() const { return "http://" + cluster_.ControllerHttp() + "/"; }

  void Cordon(const std::string& node, const std::string& reason) {
    grpc::ClientContext context;
    v1::CordonNodeRequest request;
    request.set_name(node);
    request.set_request_id("6f7e7f9e-0000-4000-8000-000000000009");
    request.set_reason(reason);
    request.set_owner("ann");
    v1::Node reply;
    ASSERT_TRUE(
        v1::NodeService::NewStub(cluster_.channel())->Cordon(&context, request, &reply).ok());
  }
  void Uncordon(const std::string& node) {
    grpc::ClientContext context;
    v1::UncordonNodeRequest request;
    request.set_name(node);
    request.set_request_id("6f7e7f9e-0000-4000-8000-000000000010");
    request.set_owner("ann");
    v1::Node reply;
    ASSERT_TRUE(
        v1::NodeService::NewStub(cluster_.channel())->Uncordon(&context, request, &reply).ok());
  }
  // Ranks whose steps take 20 ms, of which one is four times as slow from step 60 on.
  v1::JobSpec JobWithASlowRank(int slow) const {
    v1::JobSpec spec = cluster_.LongJob(6);
    spec.clear_chaos();
    for (const int rank : {-1, slow}) {
      v1::Fault* fault = spec.add_chaos();
      fault->set_rank(rank);
      fault->set_kind(v1::SLEEP);
      fault->set_step(rank == slow ? 60 : 0);
      fault->set_steps(spec.steps() - fault->step());
      fault->set_seconds(rank == slow ? 0.06 : 0.02);
    }
    return spec;
  }
  v1::Job SubmitNamed(v1::JobSpec spec, const std::string& name) {
    spec.set_name(name);
    return cluster_.Submit(spec);
  }

  TestCluster cluster_{/*workers=*/5, /*slots=*/2};
  Browser browser_;
};

TEST_F(PageClusterTest, ShowsJobsLiveAndTheHeatMap) {
  browser_.Open(Url());
  browser_.WaitUntil("document.querySelectorAll('#node-tiles li').length === 5");
  EXPECT_EQ(browser_.Value("document.getElementById('no-jobs').hidden"), false);

  // Changes appear without loading the page again.
  const v1::Job digits = SubmitNamed(JobWithASlowRank(2), "digits");
  const v1::Job story = SubmitNamed(cluster_.LongJob(2), "story");
  SubmitNamed(cluster_.LongJob(4), "tokens");
  browser_.WaitUntil("document.querySelectorAll('#job-rows tr').length === 3");
  cluster_.WaitForSteps(digits.id(), 5);
  cluster_.WaitForSteps(story.id(), 5);
  browser_.WaitUntil("document.querySelectorAll('#job-rows .tone-good').length === 2");
  Cordon("w4", kHostile);
  browser_.WaitUntil(
      "document.querySelector('#node-tiles li:nth-child(5) .why').textContent"
      ".includes('<img src=x')");
  EXPECT_EQ(browser_.Value("document.querySelectorAll('img').length"), 0);

  browser_.Click("#job-rows a[href='#job=" + digits.id() + "']");
  browser_.WaitUntil("Number(document.getElementById('map').dataset.steps) > 20");
  EXPECT_EQ(browser_.Value("document.getElementById('map').dataset.rows"), "6");
  // The others wait for the slow one, and it is named.
  browser_.WaitUntil("document.querySelector('#rank-rows tr td').textContent === '2'",
                     "document.getElementById('rank-rows').textContent");
  browser_.WaitUntil("document.getElementById('job-slow').textContent.includes('rank 2 on w1: ')",
                     "document.getElementById('job-slow').textContent");
  const auto picture = [&](const char* name) {
    const char* outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
    if (outputs != nullptr) browser_.Picture(std::string(outputs) + "/" + name);
  };
  browser_.WaitUntil("Number(document.getElementById('map').dataset.steps) > 150");
  browser_.WaitUntil("document.querySelectorAll('#curves .u-over').length > 0",
                     "document.getElementById('curves-note').textContent");
  // That a rank is slow is a mark in the curves.
  browser_.WaitUntil("!document.getElementById('marks').hidden",
                     "document.getElementById('curves-note').textContent");
  picture("page.png");
  browser_.SetDark(true);
  browser_.WaitUntil("matchMedia('(prefers-color-scheme: dark)').matches");
  picture("page-dark.png");
  Uncordon("w4");
}

TEST_F(PageClusterTest, ControllerThatIsKilledIsMissedAndFoundAgain) {
  browser_.Open(Url());
  browser_.WaitUntil("document.querySelectorAll('#node-tiles .tone-good').length === 5");
  cluster_.KillController();
  browser_.WaitUntil("document.getElementById('connection').dataset.state === 'lost'");
  cluster_.StartController();
  browser_.WaitUntil("document.getElementById('connection').dataset.state === 'live'");
  browser_.WaitUntil("document.querySelectorAll('#node-tiles .tone-good').length === 5");
}

}  // namespace
}  // namespace paceline
