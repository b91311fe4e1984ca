#include "controller/wire/encoded_message.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace paceline {
namespace {

v1::JobEvent EventOf(size_t bytes) {
  v1::JobEvent event;
  event.set_revision(7);
  event.mutable_job()->set_reason(std::string(bytes, 'x'));
  return event;
}

std::vector<grpc::Slice> SlicesOf(const grpc::ByteBuffer& encoded) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(encoded.Dump(&slices).ok());
  return slices;
}

TEST(EncodedMessageTest, IsTheMessageOfAnySize) {
  for (const size_t bytes : {size_t{0}, size_t{1000}, size_t{3} << 20}) {
    const v1::JobEvent event = EventOf(bytes);
    std::string encoded;
    for (const grpc::Slice& slice : SlicesOf(Encode(event))) {
      encoded.append(slice.begin(), slice.end());
    }
    EXPECT_TRUE(encoded == event.SerializeAsString()) << bytes;
  }
}

TEST(EncodedMessageTest, CopiesShareTheBytes) {
  const grpc::ByteBuffer encoded = Encode(EventOf(1000));
  grpc::ByteBuffer copy;
  copy = encoded;
  EXPECT_EQ(SlicesOf(copy).at(0).begin(), SlicesOf(encoded).at(0).begin());
}

TEST(EncodedMessageTest, ARequestIsReadAndLeftAsItIs) {
  v1::WatchJobsRequest request;
  request.set_job_id("job-1");
  const grpc::ByteBuffer encoded = Encode(request);
  for (int i = 0; i < 2; ++i) {
    v1::WatchJobsRequest read;
    EXPECT_TRUE(DecodeRequest(encoded, &read).ok());
    EXPECT_EQ(read.job_id(), "job-1");
  }
}

TEST(EncodedMessageTest, WhatIsNoRequestIsRefused) {
  const grpc::Slice slice(std::string("\xff"));
  for (const grpc::ByteBuffer& encoded : {grpc::ByteBuffer(&slice, 1), grpc::ByteBuffer()}) {
    v1::WatchJobsRequest request;
    const grpc::Status status = DecodeRequest(encoded, &request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "the request is no paceline.v1.WatchJobsRequest");
  }
}

}  // namespace
}  // namespace paceline
