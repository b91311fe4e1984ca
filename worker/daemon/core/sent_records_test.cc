#include "worker/daemon/core/sent_records.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(SentRecordsTest, WhatWasSentAfterTheAnsweredReportIsLost) {
  SentRecords sent;
  sent.ReportSent(1);
  sent.Sent(10, 0);
  sent.ReportSent(2);
  sent.Sent(3, 0);
  sent.ReportSent(3);
  sent.Sent(1, 0);
  EXPECT_EQ(sent.Answered(2), 10);
  EXPECT_EQ(sent.Lost(), 4);
  EXPECT_EQ(sent.Lost(), 0) << "once";
}

TEST(SentRecordsTest, AnAnswerConfirmsAllReportsBeforeItsOwn) {
  SentRecords sent;
  for (int number = 1; number <= 3; ++number) {
    sent.Sent(5, 0);
    sent.ReportSent(number);
  }
  EXPECT_EQ(sent.Answered(3), 15);
  sent.Sent(2, 0);
  sent.ReportSent(4);
  EXPECT_EQ(sent.Answered(4), 2);
  EXPECT_EQ(sent.Lost(), 0);
}

TEST(SentRecordsTest, AnswersOneAfterTheOtherConfirmEachRecordOnce) {
  SentRecords sent;
  sent.Sent(5, 0);
  sent.ReportSent(1);
  sent.Sent(7, 0);
  sent.ReportSent(2);
  sent.Sent(1, 0);
  EXPECT_EQ(sent.Answered(1), 5);
  EXPECT_EQ(sent.Answered(1), 0);
  EXPECT_EQ(sent.Answered(2), 7);
  EXPECT_EQ(sent.Lost(), 1);
}

TEST(SentRecordsTest, ReportsOfALostSessionConfirmNothingInTheNext) {
  SentRecords sent;
  sent.Sent(5, 0);
  sent.ReportSent(1);
  EXPECT_EQ(sent.Lost(), 5);
  sent.Sent(2, 5);
  EXPECT_EQ(sent.Answered(1), 0);
  EXPECT_EQ(sent.Lost(), 2);
  EXPECT_EQ(sent.dropped_confirmed(), 0);
}

TEST(SentRecordsTest, ATotalThatIsLostWithItsConnectionCountsAsNotTold) {
  SentRecords sent;
  sent.Sent(0, 3);
  sent.ReportSent(1);
  sent.Sent(0, 7);
  EXPECT_EQ(sent.dropped_reported(), 7);
  EXPECT_EQ(sent.dropped_confirmed(), 0);
  sent.Answered(1);
  EXPECT_EQ(sent.dropped_confirmed(), 3);
  EXPECT_EQ(sent.Lost(), 0);
  EXPECT_EQ(sent.dropped_reported(), 3);
  sent.ReportSent(1);
  sent.Sent(4, 9);
  sent.ReportSent(2);
  EXPECT_EQ(sent.Answered(2), 4);
  EXPECT_EQ(sent.dropped_confirmed(), 9);
}

TEST(SentRecordsTest, AReportOfLongAgoConfirmsNothing) {
  SentRecords sent;
  sent.Sent(5, 0);
  sent.ReportSent(1);
  for (size_t n = 0; n < SentRecords::kMaxUnanswered; ++n) {
    sent.ReportSent(2 + static_cast<int64_t>(n));
  }
  EXPECT_EQ(sent.Answered(1), 0);
  EXPECT_EQ(sent.Answered(2), 5);
}

}  // namespace
}  // namespace paceline
