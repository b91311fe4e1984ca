#include "common/parsed_size.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/worker.pb.h"

namespace paceline {
namespace {

constexpr size_t kNoLimit = size_t{1} << 40;

size_t Weigh(const std::string& encoded, size_t limit = kNoLimit) {
  google::protobuf::io::ArrayInputStream stream(encoded.data(), static_cast<int>(encoded.size()));
  return ParsedSize(*v1::WorkerMessage::descriptor(), &stream, limit);
}

// The estimate must not be below the parsed message's size.
void ExpectCovers(const std::string& encoded) {
  v1::WorkerMessage message;
  ASSERT_TRUE(message.ParseFromString(encoded));
  EXPECT_GE(Weigh(encoded), message.SpaceUsedLong());
}

// Encodes a text or message field.
std::string Delimited(int number, const std::string& contents) {
  std::string field;
  for (size_t value : {static_cast<size_t>(number) << 3 | 2, contents.size()}) {
    for (; value >= 0x80; value >>= 7) field += static_cast<char>(value | 0x80);
    field += static_cast<char>(value);
  }
  return field + contents;
}

// The steps of one trainer, all empty, in `bytes` bytes.
std::string EmptyRecords(int bytes) {
  const int batches = v1::NodeSteps::kBatchesFieldNumber;
  const int records = v1::StepBatch::kRecordsFieldNumber;
  std::string encoded;
  while (static_cast<int>(encoded.size()) < bytes) encoded += Delimited(records, "");
  return Delimited(v1::WorkerMessage::kStepsFieldNumber, Delimited(batches, encoded));
}

v1::WorkerMessage UsualSteps(int trainers, int steps) {
  v1::WorkerMessage message;
  for (int t = 0; t < trainers; ++t) {
    v1::StepBatch& batch = *message.mutable_steps()->add_batches();
    batch.mutable_id()->set_job_id("job-0123456789ab");
    batch.mutable_id()->set_rank(t);
    for (int s = 0; s < steps; ++s) {
      v1::StepRecord& record = *batch.add_records();
      record.set_step(s);
      record.set_total_ns(100'000'000);
      record.set_forward_ns(30'000'000);
      record.set_backward_ns(60'000'000);
    }
  }
  return message;
}

TEST(ParsedSizeTest, EmptyEntriesWeighWhatTheyTake) {
  const std::string encoded = EmptyRecords(100'000);
  EXPECT_LT(encoded.size(), 101'000U);
  EXPECT_GT(Weigh(encoded), 5'000'000U);
  ExpectCovers(encoded);
}

TEST(ParsedSizeTest, UsualMessagesAreCoveredAndNotOverstated) {
  const v1::WorkerMessage message = UsualSteps(64, 64);
  ExpectCovers(message.SerializeAsString());
  EXPECT_LT(Weigh(message.SerializeAsString()), 3 * message.SpaceUsedLong());
}

TEST(ParsedSizeTest, TextsListsAndMapsAreCovered) {
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_version(std::string(10'000, 'x'));
  for (int i = 0; i < 1000; ++i) {
    hello.mutable_hardware()->add_gpus("");
    (*hello.mutable_labels())[absl::StrCat(i)] = "";
    hello.mutable_report()->add_trainers()->mutable_membership();
  }
  ExpectCovers(message.SerializeAsString());
}

TEST(ParsedSizeTest, WhatNobodyKnowsIsCovered) {
  std::string varints;
  std::string texts;
  std::string groups;
  for (int i = 0; i < 10'000; ++i) {
    varints += "\x78\x01";       // Field 15 = 1.
    texts += Delimited(15, "");  // Field 15 = "".
    groups += "\x7b\x7c";        // Field 15 {}.
  }
  for (const std::string& encoded : {varints, texts, groups}) {
    ExpectCovers(encoded);
    ExpectCovers(Delimited(v1::WorkerMessage::kReportFieldNumber, encoded));
  }
}

TEST(ParsedSizeTest, CountingStopsAboveTheLimit) {
  const size_t weight = Weigh(EmptyRecords(1 << 20), 1'000'000);
  EXPECT_GT(weight, 1'000'000U);
  EXPECT_LT(weight, 1'001'000U);
}

TEST(ParsedSizeTest, GarbageEnds) {
  for (const std::string& encoded :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x1a\x7f"),
        std::string("\x1a\xff\xff\xff\xff\x0f"), std::string("\x7b\x7b\x7b"), std::string("\x0c"),
        std::string("\x07")}) {
    EXPECT_LT(Weigh(encoded), 10'000U);
  }
}

TEST(ParsedSizeTest, WhatIsNestedTooDeeplyForTheParserEnds) {
  std::string groups(10'000, '\x7b');
  EXPECT_LT(Weigh(groups), 1'000'000U);
}

}  // namespace
}  // namespace paceline
