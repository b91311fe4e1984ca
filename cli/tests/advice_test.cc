// `job advise`, `apply` and `decisions` against a controller on a real socket.
#include <string>

#include "cli/exit_codes.h"
#include "cli/testing/command_test.h"
#include "cli/testing/fake_errors.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AdviceTest : public CommandTest {
 protected:
  AdviceTest() {
    v1::JobAdvice advice;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(job_id: "job-0123456789ab" mode: STRAGGLER_MODE_ADVISE steps_seen: 300
           decisions { id: 3 kind: REMEDY_HOT_SWAP state: DECISION_ADVISED
                       summary: "hot-swap of rank 5 on n3" })",
        &advice));
    controller_.SetAdvice(std::move(advice));
    environment_["USER"] = "ann";
  }
};

TEST_F(AdviceTest, AdviseShowsThePage) {
  const Ran ran = Paceline({"job", "advise", "digits"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("Mode:       advise"));
  EXPECT_THAT(ran.out, HasSubstr("paceline job apply digits 3\n"));
  EXPECT_THAT(Paceline({"job", "advise", "digits", "-o", "json"}).out,
              HasSubstr("\"mode\": \"ADVISE\""));
}

TEST_F(AdviceTest, ApplyIsInTheUsersName) {
  const Ran ran = Paceline({"job", "apply", "digits", "3"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_EQ(ran.out, "advice 3 is ordered by ann: hot-swap of rank 5 on n3\n");
  ASSERT_THAT(controller_.applied(), SizeIs(1));
  const v1::ApplyAdviceRequest request = controller_.applied()[0];
  EXPECT_EQ(request.job(), "digits");
  EXPECT_EQ(request.advice(), 3);
  EXPECT_EQ(request.by(), "ann");
  EXPECT_THAT(request.request_id(), SizeIs(36));
  Paceline({"job", "apply", "digits", "3", "--owner", "bob", "--request-id", "r", "-o", "json"});
  EXPECT_EQ(controller_.applied()[1].by(), "bob");
  EXPECT_EQ(controller_.applied()[1].request_id(), "r");
}

TEST_F(AdviceTest, ApplyNeedsANameAndANumber) {
  environment_.erase("USER");
  EXPECT_EQ(Paceline({"job", "apply", "digits", "3"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "apply", "digits"}).exit, kCliUsage);
  EXPECT_EQ(Paceline({"job", "apply", "digits", "0"}).exit, kCliUsage);
  EXPECT_THAT(controller_.applied(), IsEmpty());
}

TEST_F(AdviceTest, RefusalIsTold) {
  controller_.FailNext(Refused("advice 3 is WITHDRAWN", "ADVICE_CLOSED"));
  const Ran ran = Paceline({"job", "apply", "digits", "3"});
  EXPECT_EQ(ran.exit, kCliRefused);
  EXPECT_THAT(ran.err, HasSubstr("advice 3 is WITHDRAWN"));
}

TEST_F(AdviceTest, DecisionsAreListedOrShownOneByOne) {
  const Ran ran = Paceline({"job", "decisions", "digits"});
  EXPECT_EQ(ran.exit, kCliOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("hot-swap of rank 5 on n3  advised"));
  EXPECT_THAT(Paceline({"job", "decisions", "digits", "3"}).out, HasSubstr("Decision:   3\n"));
  EXPECT_THAT(Paceline({"job", "decisions", "digits", "-o", "json"}).out,
              HasSubstr("\"decisions\": ["));
  const Ran none = Paceline({"job", "decisions", "digits", "4"});
  EXPECT_EQ(none.exit, kCliNotFound);
  EXPECT_THAT(none.err, HasSubstr("there is no decision 4"));
}

TEST_F(AdviceTest, NothingDecidedIsSaid) {
  controller_.SetAdvice({});
  const Ran ran = Paceline({"job", "decisions", "digits"});
  EXPECT_EQ(ran.exit, kCliOk);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err, HasSubstr("nothing was decided"));
}

}  // namespace
}  // namespace paceline
