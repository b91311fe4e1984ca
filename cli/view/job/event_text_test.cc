#include "cli/view/job/event_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::JobHistoryEvent Slow() {
  v1::JobHistoryEvent event;
  event.mutable_time()->set_seconds(1700000000);
  event.set_kind(v1::EVENT_STRAGGLER);
  event.set_state(v1::RUNNING);
  event.set_step(271);
  event.set_warning(true);
  event.set_what("rank 4 on w4 is slow");
  return event;
}

class EventTextTest : public ::testing::Test {
 protected:
  EventTextTest() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(EventTextTest, ColumnsLieBelowTheirHeadings) {
  const std::string heading = EventHeading({});
  const std::string line = EventLines(Slow(), {});
  EXPECT_EQ(line, "2023-11-14 22:13:20  straggler        271  rank 4 on w4 is slow\n");
  EXPECT_EQ(heading.find("WHAT"), line.find("rank 4"));
  EXPECT_EQ(heading.find("KIND"), line.find("straggler"));
  EXPECT_EQ(heading.find("STEP") + 4, line.find("271") + 3);
}

TEST_F(EventTextTest, LongTextsGoOnBelowThemselves) {
  PageStyle style;
  style.width = 65;
  v1::JobHistoryEvent event = Slow();
  event.set_what("rank 4 on w4 is slow: 1.65 times its peers");
  EXPECT_EQ(EventLines(event, style),
            "2023-11-14 22:13:20  straggler        271  rank 4 on w4 is slow:\n"
            "                                           1.65 times its peers\n");
}

TEST_F(EventTextTest, AnUnknownStepAndTimeAreDashes) {
  v1::JobHistoryEvent event;
  event.set_kind(v1::EVENT_STATE);
  EXPECT_THAT(EventLines(event, {}), HasSubstr("-"));
  EXPECT_THAT(EventLines(event, {}), Not(HasSubstr("1970")));
}

TEST_F(EventTextTest, WarningsHaveAColour) {
  PageStyle style;
  style.colours = true;
  EXPECT_THAT(EventLines(Slow(), style), HasSubstr("\x1b[33mstraggler\x1b[0m"));
}

}  // namespace
}  // namespace paceline
