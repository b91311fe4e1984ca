#include "worker/daemon/core/sent_records.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(SentRecordsTest, WhatWasSentAfterTheAnsweredReportIsLost) {
  SentRecords sent;
  sent.ReportSent(1);
  sent.Sent({10});
  sent.ReportSent(2);
  sent.Sent({3});
  sent.ReportSent(3);
  sent.Sent({1});
  EXPECT_EQ(sent.Answered(2).records, 10);
  EXPECT_EQ(sent.Lost().records, 4);
  EXPECT_EQ(sent.Lost().records, 0) << "once";
}

TEST(SentRecordsTest, AnAnswerConfirmsAllReportsBeforeItsOwn) {
  SentRecords sent;
  for (int number = 1; number <= 3; ++number) {
    sent.Sent({5});
    sent.ReportSent(number);
  }
  sent.Answered(3);
  sent.Sent({2});
  sent.ReportSent(4);
  sent.Answered(4);
  EXPECT_EQ(sent.Lost().records, 0);
}

TEST(SentRecordsTest, AnswersOneAfterTheOtherConfirmEachRecordOnce) {
  SentRecords sent;
  sent.Sent({5});
  sent.ReportSent(1);
  sent.Sent({7});
  sent.ReportSent(2);
  sent.Sent({1});
  sent.Answered(1);
  sent.Answered(2);
  EXPECT_EQ(sent.Lost().records, 1);
}

TEST(SentRecordsTest, ReportsOfALostSessionConfirmNothingInTheNext) {
  SentRecords sent;
  sent.Sent({5});
  sent.ReportSent(1);
  EXPECT_EQ(sent.Lost().records, 5);
  sent.Sent({2});
  sent.Answered(1);
  EXPECT_EQ(sent.Lost().records, 2);
}

TEST(SentRecordsTest, WhatWasToldAsDroppedIsLostInTheSameWay) {
  SentRecords sent;
  sent.Sent({10, 3});
  sent.ReportSent(1);
  sent.Sent({0, 4});
  sent.ReportSent(2);
  const RecordCount confirmed = sent.Answered(1);
  EXPECT_EQ(confirmed.records, 10);
  EXPECT_EQ(confirmed.dropped, 3);
  sent.Sent({5, 6});
  const RecordCount lost = sent.Lost();
  EXPECT_EQ(lost.records, 5);
  EXPECT_EQ(lost.dropped, 10);
  EXPECT_EQ(lost.sum(), 15);
}

}  // namespace
}  // namespace paceline
